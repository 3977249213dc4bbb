package must_test

import (
	"errors"
	"io"
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
