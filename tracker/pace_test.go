package tracker

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/test/redistest"
)

// TestPace: a slice that takes too long is followed by smaller ones, and then by larger ones again.
func TestPace(t *testing.T) {
	t.Parallel()
	broken := errors.New("statement timeout")
	for _, step := range []struct {
		what       string
		start      int // 0 for the most
		budget     time.Duration
		takes      time.Duration
		err, ended error
		want       int
	}{
		{"quick", 0, 100, 10, nil, nil, 1000},
		{"quick again", 100, 100, 10, nil, nil, 200},
		{"quick, and almost all", 600, 100, 10, nil, nil, 1000},
		{"neither", 100, 100, 40, nil, nil, 100},
		{"slow", 0, 100, 60, nil, nil, 500},
		{"too slow", 100, 100, 100, context.DeadlineExceeded, nil, 50},
		{"ended by the source", 100, 1000, 10, broken, nil, 50},
		{"ended by the source, without a budget", 100, 0, 10, broken, nil, 50},
		{"never none", 1, 100, 100, context.DeadlineExceeded, nil, 1},
		{"no budget", 100, 0, 10_000, nil, nil, 200},
		{"the caller has gone", 100, 100, 60, context.Canceled, context.Canceled, 100},
	} {
		t.Run(step.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if step.budget > 0 {
					var end context.CancelFunc
					ctx, end = context.WithTimeout(ctx, step.budget*time.Millisecond)
					defer end()
				}
				var p pace
				p.n.Store(int64(step.start))
				n, began := p.size(1000), time.Now()
				time.Sleep(step.takes * time.Millisecond)
				if step.ended != nil {
					cancel()
				}
				p.learn(ctx, began, n, 1000, step.err)
				if got := p.size(1000); got != step.want {
					t.Errorf("after %d in %d ms of %d: %d, want %d", n, step.takes, step.budget, got, step.want)
				}
			})
		})
	}
}

// slow is a table in which each row and each identifier takes a while.
type slow struct {
	table
	each time.Duration
}

func (s *slow) take(ctx context.Context, n int) error {
	timer := time.NewTimer(time.Duration(n) * s.each)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *slow) Rows(ctx context.Context, after string, limit int) (Page, error) {
	if err := s.take(ctx, limit); err != nil {
		return Page{}, err
	}
	return s.table.Rows(ctx, after, limit)
}

func (s *slow) Pending(ctx context.Context, ids []string) ([]string, error) {
	if err := s.take(ctx, len(ids)); err != nil {
		return nil, err
	}
	return s.table.Pending(ctx, ids)
}

// TestSlowSource: slices get on, although the source needs much longer for as much as a
// slice may ask for than a slice has.
func TestSlowSource(t *testing.T) {
	t.Parallel()
	work := &slow{each: time.Millisecond}
	for i := range 60 {
		work.start(string(rune('0' + i)))
	}
	work.close("3", "4", "5")
	tr := open(t, Config{Source: work})
	add(t, tr, "3", "4", "5")
	inBudget := func(slice func(context.Context) error) {
		ctx, cancel := context.WithTimeout(t.Context(), 40*time.Millisecond)
		defer cancel()
		_ = slice(ctx) // the first ones end with their budgets
	}
	redistest.Eventually(t, "a pass is over, and what has finished is gone", func() bool {
		inBudget(func(ctx context.Context) error { _, err := tr.Jobs()[0].Slice(ctx); return err })
		inBudget(func(ctx context.Context) error { _, err := tr.Jobs()[1].Slice(ctx); return err })
		return state(t, tr, "a") == Queued && state(t, tr, "4") == NotQueued
	})
}

// TestRowBeyondTheBudget: one row that takes longer than the budget of a slice keeps the jobs
// from advancing. The log names the place once, and Fill gets past it.
func TestRowBeyondTheBudget(t *testing.T) {
	t.Parallel()
	var logged redistest.Log
	work := &slow{each: time.Hour}
	work.start("a", "b")
	tr := open(t, Config{Source: work, AddRows: 1, Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	for range 5 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if _, err := tr.Jobs()[0].Slice(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("slice = %v, want its budget to end", err)
		}
		cancel()
	}
	if got := logged.Count("does not advance"); got != 1 {
		t.Errorf("log = %q, want one warning", logged.String())
	}
	work.each = 30 * time.Millisecond // still longer than the budget
	if err := tr.Fill(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	wantState(t, tr, "b", Queued)
	wantState(t, tr, "c", NotQueued)
}
