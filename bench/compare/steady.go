package main

import (
	"context"
	"errors"
	"sync"
)

// steadyRate is how many messages are written a second.
const steadyRate = 250

var ofSteady = []*peer{millracePeer, millraceCallsPeer, streamPeer, asynqDefaultPeer, asynqQuickPeer, replicatePeer}

// steady writes messages one by one at a low rate to two workers that have little to do. It returns
// the cost of a message, and how long it waits.
func steady(ctx context.Context, s *site, scale float64) (figures, error) {
	every := func(first, n int) load {
		return load{First: first, Count: n, Tenants: s.base.Tenants, Batch: 1, Writers: 1, OverMs: n * 1000 / steadyRate}
	}
	// Two seconds at least: a worker that looks each second takes all of one second at once.
	warm, n := scaled(steadyRate, scale), max(2*steadyRate, scaled(8*steadyRate, scale))
	for range 2 {
		if _, err := s.work(ctx); err != nil {
			return nil, err
		}
	}
	var failed error
	var writing sync.WaitGroup
	defer writing.Wait()
	writing.Go(func() { failed = s.write(ctx, every(0, warm), every(warm, n)) })
	if err := s.awaitNoted(ctx, warm); err != nil {
		return nil, err
	}
	before, err := s.meter(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.awaitNoted(ctx, warm+n); err != nil {
		return nil, err
	}
	after, err := s.meter(ctx)
	writing.Wait()
	waits, failing := s.waits(warm)
	if err := errors.Join(err, failed, failing); err != nil {
		return nil, err
	}
	f := after.since(before)
	f["p50_ms"], f["p99_ms"] = waits["p50_ms"], waits["p99_ms"]
	return f, nil
}
