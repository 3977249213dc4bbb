package must_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/millrace/millrace/internal/must"
)

func TestRecoverReturnsTheFirstError(t *testing.T) {
	t.Parallel()
	steps := 0
	run := func(n int, err error) (got int, failed error) {
		defer must.Recover(&failed)
		steps++
		got = must.Get(n, err)
		must.Do(nil)
		steps++
		return got, nil
	}
	if got, err := run(7, nil); got != 7 || err != nil || steps != 2 {
		t.Errorf("run = %d, %v after %d steps, want 7, nil after 2", got, err, steps)
	}
	if _, err := run(7, io.EOF); !errors.Is(err, io.EOF) || steps != 3 {
		t.Errorf("run = %v after %d steps, want %v after 3", err, steps, io.EOF)
	}
}

func TestRecoverPassesOnOtherPanics(t *testing.T) {
	t.Parallel()
	defer func() {
		if got := recover(); got != "a bug" {
			t.Errorf("recover = %v, want the bug", got)
		}
	}()
	var err error
	defer must.Recover(&err)
	panic("a bug")
}

func TestQuantile(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		values []float64
		share  float64
		want   float64
	}{
		{nil, 0.5, 0},
		{[]float64{3}, 0.99, 3},
		{[]float64{4, 2, 1, 3}, 0.5, 2},
		{[]float64{4, 2, 1, 3, 5}, 1, 5},
	} {
		if got := must.Quantile(c.values, c.share); got != c.want {
			t.Errorf("quantile %v of %v: %v, want %v", c.share, c.values, got, c.want)
		}
	}
}

// TestStageEndsAll: the last one ends first, all do although some fail, and none does twice.
func TestStageEndsAll(t *testing.T) {
	t.Parallel()
	var stage must.Stage
	var ended []int
	for i := range 3 {
		stage.Defer(func(context.Context) error {
			ended = append(ended, i)
			if i == 1 {
				return io.EOF
			}
			return nil
		})
	}
	if err := stage.End(t.Context()); !errors.Is(err, io.EOF) {
		t.Errorf("End = %v, want %v", err, io.EOF)
	}
	if err := stage.End(t.Context()); err != nil || !slices.Equal(ended, []int{2, 1, 0}) {
		t.Errorf("ended %v (%v), want the last first, and once", ended, err)
	}
}
