package main

import (
	"context"
	"math"
	"math/rand/v2"
	"runtime"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/steal"
)

// allocations is the unit of rows that count them.
const allocations = "allocations"

func stealRows() []row {
	const draw = "bare random number"
	cpus := runtime.GOMAXPROCS(0)
	return []row{
		{name: "steal dismissed enlist", unit: "ns", sides: []side{
			{name: "enlist", figure: nanoseconds(1, enlist(0))},
			{name: draw, goal: "at most 15 ns", figure: nanoseconds(1, bareDraw)},
		}},
		{name: "steal dismissed enlist, context 5 values deep", unit: "ns", sides: []side{
			{name: "enlist", figure: nanoseconds(1, enlist(5))},
			{name: draw, figure: nanoseconds(1, bareDraw)},
		}},
		{name: "steal dismissed enlist, all CPUs", unit: "ns", sides: []side{
			{name: "enlist", figure: nanoseconds(cpus, enlist(0))},
			{name: draw, goal: "at most 15 ns", figure: nanoseconds(cpus, bareDraw)},
		}},
		{name: "steal dismissed enlist", unit: allocations, sides: []side{
			{name: "enlist", figure: allocs(enlist(0))},
			{name: draw, goal: "at most 0", figure: allocs(bareDraw)},
		}},
	}
}

// work returns what is called, some calls at a time.
type work func() (func(calls int), error)

// nanoseconds measures nanoseconds a call of each worker.
func nanoseconds(workers int, w work) func(context.Context, setup) (float64, error) {
	return func(_ context.Context, s setup) (float64, error) {
		do, err := w()
		if err != nil {
			return 0, err
		}
		took, _ := spinning(s, workers, do)
		return took, nil
	}
}

// allocs measures allocations a call. Those of the program around it are far
// fewer than calls, so they are rounded off.
func allocs(w work) func(context.Context, setup) (float64, error) {
	return func(_ context.Context, s setup) (float64, error) {
		do, err := w()
		if err != nil {
			return 0, err
		}
		_, allocated := spinning(s, 1, do)
		return math.Round(allocated*100) / 100, nil
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
			if err := r.Install(steal.Job{Name: name, Slice: slice}, 0); err != nil {
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
