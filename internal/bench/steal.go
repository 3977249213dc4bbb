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
	"github.com/millrace/millrace/steal"
)

func stealFigures() []Figure {
	const draw = "bare random number"
	cpus := runtime.GOMAXPROCS(0)
	return []Figure{
		{Name: "steal_enlist", What: "steal dismissed enlist", Unit: "ns", Sides: []Side{
			{Name: "enlist", Measure: nanoseconds(1, enlist(0))},
			{Name: draw, Goal: ValueAtMost(15), Measure: nanoseconds(1, bareDraw)},
		}},
		{Name: "steal_enlist_deep", What: "steal dismissed enlist, context 5 values deep", Unit: "ns", Sides: []Side{
			{Name: "enlist", Measure: nanoseconds(1, enlist(5))},
			{Name: draw, Measure: nanoseconds(1, bareDraw)},
		}},
		{Name: "steal_enlist_cpus", What: "steal dismissed enlist, all CPUs", Unit: "ns", Sides: []Side{
			{Name: "enlist", Measure: nanoseconds(cpus, enlist(0))},
			{Name: draw, Goal: ValueAtMost(15), Measure: nanoseconds(cpus, bareDraw)},
		}},
		{Name: "steal_allocations", What: "steal dismissed enlist", Unit: "allocations", Sides: []Side{
			{Name: "enlist", Measure: allocations(enlist(0))},
			{Name: draw, Goal: ValueAtMost(0), Measure: allocations(bareDraw)},
		}},
	}
}

// work returns what is called, some calls at a time.
type work func() (func(calls int), error)

// nanoseconds measures nanoseconds a call of each worker.
func nanoseconds(workers int, w work) Measure {
	return func(ctx context.Context, p Place) (float64, error) {
		do, err := w()
		if err != nil {
			return 0, err
		}
		took, _ := p.spin(ctx, workers, do)
		return took, context.Cause(ctx)
	}
}

// allocations measures allocations a call. Those of the program around it are far
// fewer than calls, so they are rounded off.
func allocations(w work) Measure {
	return func(ctx context.Context, p Place) (float64, error) {
		do, err := w()
		if err != nil {
			return 0, err
		}
		_, allocated := p.spin(ctx, 1, do)
		return math.Round(allocated*100) / 100, context.Cause(ctx)
	}
}

// enlist is for a recruiter with three jobs that are never drawn. The context
// has some values, as a request's has.
func enlist(values int) work {
	type key int
	ctx := context.Background()
	for i := range values {
		ctx = context.WithValue(ctx, key(i), i) //nolint:fatcontext // a chain is what is wanted
	}
	return func() (func(calls int), error) {
		r := steal.New(steal.Config{})
		for _, name := range []string{"a", "b", "c"} {
			slice := func(context.Context) (millrace.Progress, error) { return millrace.Idle, nil }
			if err := r.Install(millrace.Job{Name: name, Slice: slice}, 0); err != nil {
				return nil, err
			}
		}
		return func(calls int) {
			for range calls {
				r.Enlist(ctx)
			}
		}, nil
	}
}

func bareDraw() (func(calls int), error) {
	return func(calls int) {
		for range calls {
			rand.Uint64()
		}
	}, nil
}

// callsAtOnce is how many calls are made between two looks at the clock.
const callsAtOnce = 10_000

// spin has workers do a number of calls at a time until the time is over, after a few
// that do not count. It returns
// how many nanoseconds of one worker a call took, and how many allocations.
func (p Place) spin(ctx context.Context, workers int, do func(calls int)) (nanoseconds, allocated float64) {
	do(callsAtOnce)
	var all sync.WaitGroup
	var calls atomic.Int64
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	for range workers {
		all.Go(func() {
			for n := 0; n == 0 || ctx.Err() == nil && time.Since(start) < p.Time; n++ {
				do(callsAtOnce)
				calls.Add(callsAtOnce)
			}
		})
	}
	all.Wait()
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	n := float64(calls.Load())
	return float64(took.Nanoseconds()) * float64(workers) / n, float64(after.Mallocs-before.Mallocs) / n
}
