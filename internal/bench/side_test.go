package bench

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/test/redistest"
)

// The first operations, which warm up, do not count.
func TestRateWarmsUp(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	b := B{Time: 50 * time.Millisecond}
	speed, err := b.run(t.Context(), Rated(func(context.Context, *B) Op {
		return func(context.Context, int) error {
			calls.Add(1)
			time.Sleep(time.Millisecond)
			return nil
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	if most := float64(calls.Load()-Goroutines) / b.Time.Seconds(); speed <= 0 || speed > most {
		t.Errorf("rate = %v a second, want at most %v of %d calls in all", speed, most, calls.Load())
	}
}

// A goroutine that fails ends the others, however much time they have.
func TestWhatFailsEndsTheOthers(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	fail := func(_ context.Context, goroutine int) error {
		if goroutine == 7 {
			return broken
		}
		return nil
	}
	if _, err := (B{Time: time.Hour}).run(t.Context(), Rated(func(context.Context, *B) Op { return fail })); !errors.Is(err, broken) {
		t.Errorf("Rate = %v, want %v", err, broken)
	}
	if err := Deal(t.Context(), 1<<40, fail); !errors.Is(err, broken) {
		t.Errorf("Deal = %v, want %v", err, broken)
	}
}

func TestDealCallsForEachNumberOnce(t *testing.T) {
	t.Parallel()
	const n = 1000
	var calls [n]atomic.Int64
	if err := Deal(t.Context(), n, func(_ context.Context, i int) error { calls[i].Add(1); return nil }); err != nil {
		t.Fatal(err)
	}
	for i := range calls {
		if got := calls[i].Load(); got != 1 {
			t.Errorf("%d calls for %d, want 1", got, i)
		}
	}
}

// Commands that block are reported, and no others.
func TestWatched(t *testing.T) {
	t.Parallel()
	c := redistest.Start(t, redistest.Options{}).Client(t)
	w := watching(c)
	if err := w.Do(t.Context(), w.B().Ping().Build()).Error(); err != nil {
		t.Fatal(err)
	}
	if len(w.blocks) > 0 {
		t.Error("PING is reported as a command that blocks")
	}
	_ = w.Do(t.Context(), w.B().Blpop().Key("none").Timeout(0.01).Build())
	if err := w.blocked(t.Context()); err != nil {
		t.Errorf("BLPOP is not reported as a command that blocks: %v", err)
	}
}
