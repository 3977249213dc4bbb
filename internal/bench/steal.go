package bench

import (
	"context"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/must"
	"github.com/millrace/millrace/steal"
)

func stealFigures() []Figure {
	figure := func(name, what, unit string, goal *Goal, measure func(calls func(n int)) Measure, values int) Figure {
		draw := func(n int) {
			for range n {
				rand.Uint64()
			}
		}
		return Figure{Name: name, What: "steal dismissed enlist" + what, Unit: unit, Sides: []Side{
			{Name: "enlist", Measure: func(ctx context.Context, b *B) float64 { return measure(enlist(values))(ctx, b) }},
			{Name: "bare random number", Goal: goal, Measure: measure(draw)},
		}}
	}
	return []Figure{
		figure("steal_enlist", "", "ns", ValueAtMost(15), nanoseconds(1), 0),
		figure("steal_enlist_deep", ", context 5 values deep", "ns", nil, nanoseconds(1), 5),
		figure("steal_enlist_cpus", ", all CPUs", "ns", ValueAtMost(15), nanoseconds(runtime.GOMAXPROCS(0)), 0),
		figure("steal_allocations", "", "allocations", ValueAtMost(0), allocations, 0),
	}
}

// nanoseconds measures nanoseconds a call of each worker.
func nanoseconds(workers int) func(calls func(n int)) Measure {
	return func(calls func(n int)) Measure {
		return func(ctx context.Context, b *B) float64 {
			took, _ := b.spin(ctx, workers, calls)
			return took
		}
	}
}

// allocations measures allocations a call. Those of the program around it are far
// fewer than calls, so they are rounded off.
func allocations(calls func(n int)) Measure {
	return func(ctx context.Context, b *B) float64 {
		_, allocated := b.spin(ctx, 1, calls)
		return math.Round(allocated*100) / 100
	}
}

// enlist has a recruiter with three jobs that are never drawn. The context has some
// values, as a request's has.
func enlist(values int) func(n int) {
	type key int
	ctx := context.Background()
	for i := range values {
		ctx = context.WithValue(ctx, key(i), i) //nolint:fatcontext // the figure measures the depth
	}
	r := steal.New(steal.Config{})
	for _, name := range []string{"a", "b", "c"} {
		slice := func(context.Context) (millrace.Progress, error) { return millrace.Idle, nil }
		must.Do(r.Install(millrace.Job{Name: name, Slice: slice}, 0))
	}
	return func(n int) {
		for range n {
			r.Enlist(ctx)
		}
	}
}

// callsAtOnce is how many calls are made between two readings of the clock.
const callsAtOnce = 10_000

// spin has workers make calls until the time is over, after a few that do not count. It
// returns how many nanoseconds of one worker a call took, and how many allocations.
func (b *B) spin(ctx context.Context, workers int, do func(calls int)) (nanoseconds, allocated float64) {
	do(callsAtOnce)
	var all sync.WaitGroup
	var calls atomic.Int64
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	for range workers {
		all.Go(func() {
			for n := 0; n == 0 || ctx.Err() == nil && time.Since(start) < b.Time; n++ {
				do(callsAtOnce)
				calls.Add(callsAtOnce)
			}
		})
	}
	all.Wait()
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	must.Do(context.Cause(ctx))
	n := float64(calls.Load())
	return float64(took.Nanoseconds()) * float64(workers) / n, float64(after.Mallocs-before.Mallocs) / n
}
