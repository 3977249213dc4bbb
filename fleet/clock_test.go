package fleet

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/test/redistest"
)

// TestASuspendedMachineWritesNothing before the directory has confirmed the map again,
// although by its own clock, which stood still, the map was confirmed a moment ago.
func TestASuspendedMachineWritesNothing(t *testing.T) {
	t.Parallel()
	settings := directory.Settings{ViewTTL: time.Minute, ReplyTimeout: 5 * time.Second, PlacementTTL: time.Minute}
	tf, ctx := startFleet(t, 1, 0, settings), t.Context()
	f := tf.open(Config{Logger: slog.New(slog.DiscardHandler)})
	must(t, put(ctx, f.Client(), "{a}", "x"))
	tf.dirs.Pause()
	defer tf.dirs.Resume()
	must(t, set(ctx, f.Client(), "{a}", "by the map of before"))
	var slept, asked atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.watchClock(func() time.Duration {
			asked.Add(1)
			return f.ahead() + time.Duration(slept.Load())
		})
	}()
	defer func() { f.stop(); <-done }()
	redistest.Eventually(t, "the clock is watched", func() bool { return asked.Load() > 0 })
	slept.Store(int64(10 * time.Minute))
	redistest.Eventually(t, "the map is not taken for confirmed", func() bool { return !f.view.Load().fresh(f.now()) })
	ctx, cancel := context.WithTimeout(ctx, 50*time.Millisecond) // it waits for the directory
	defer cancel()
	wantError(t, set(ctx, f.Client(), "{a}", "after"), context.DeadlineExceeded)
	if got, err := get(t.Context(), tf.masters[0].Client(t), "{a}"); err != nil || got != "by the map of before" {
		t.Errorf("the master has %q, %v, want what was written before", got, err)
	}
}
