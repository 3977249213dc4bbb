package main

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// goroutines is how many call at once.
const goroutines = 50

// empty removes all that the sides before have left on the server.
func empty(ctx context.Context, s setup) error {
	return s.client.Do(ctx, s.client.B().Flushdb().Build()).Error()
}

// each calls do once in each of the goroutines and returns the first error.
func each(do func() error) error {
	var all sync.WaitGroup
	errs := make(chan error, goroutines)
	for range goroutines {
		all.Go(func() { errs <- do() })
	}
	all.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// concurrently calls do from all goroutines, with the goroutine's number, until
// the time is over, and returns calls a second.
func concurrently(s setup, do func(goroutine int) error) (float64, error) {
	var all sync.WaitGroup
	var calls atomic.Int64
	errs := make(chan error, goroutines)
	start := time.Now()
	for i := range goroutines {
		all.Go(func() {
			n := int64(0)
			for time.Since(start) < s.time {
				if err := do(i); err != nil {
					errs <- err
					return
				}
				n++
			}
			calls.Add(n)
		})
	}
	all.Wait()
	close(errs)
	return float64(calls.Load()) / time.Since(start).Seconds(), errors.Join(<-errs)
}

// spin is how many calls are made between two looks at the clock.
const spin = 10_000

// spinning has workers do a number of calls at a time until the time is over.
// It returns how many nanoseconds of one worker a call took, and how many
// allocations.
func spinning(s setup, workers int, do func(calls int)) (nanoseconds, allocated float64) {
	var all sync.WaitGroup
	var calls atomic.Int64
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	for range workers {
		all.Go(func() {
			for time.Since(start) < s.time {
				do(spin)
				calls.Add(spin)
			}
		})
	}
	all.Wait()
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	n := float64(calls.Load())
	return float64(took.Nanoseconds()) * float64(workers) / n, float64(after.Mallocs-before.Mallocs) / n
}
