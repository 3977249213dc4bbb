package main

import "context"

const (
	// processCount is how many processes there are, and how many handlers where there is one process.
	processCount = 50

	// processBacklog is how many messages wait for each handler, so that none finds the queue empty.
	processBacklog = 10
)

var ofProcesses = []*peer{millracePeer, millraceCallsPeer, streamPeer, asynqDefaultPeer, replicatePeer}

// handlersEach returns the job of workers with so many handlers each, which write a message for each
// that they handle.
func handlersEach(n int) job { return job{Concurrency: n, Tenants: 100, Onward: true} }

// processes has so many processes handle a standing backlog, each with connections of its own. Processes
// with one handler share no call. It returns what it costs that a message is written, handled and
// acknowledged.
func processes(most int) func(context.Context, *site, float64) (figures, error) {
	return func(ctx context.Context, s *site, scale float64) (figures, error) {
		n := min(most, max(3, int(float64(most)*scale)))
		waiting := load{Count: n * s.base.Concurrency * processBacklog, Tenants: s.base.Tenants, Batch: 1, Writers: 4}
		if err := s.write(ctx, waiting); err != nil {
			return nil, err
		}
		for range n {
			if _, err := s.work(ctx); err != nil {
				return nil, err
			}
		}
		begun, err := count(s.handled())
		if err != nil {
			return nil, err
		}
		// All have connected and loaded their scripts when as many were handled again.
		if err := s.awaitNoted(ctx, begun+waiting.Count); err != nil {
			return nil, err
		}
		before, err := s.meter(ctx)
		if err != nil {
			return nil, err
		}
		if err := s.awaitNoted(ctx, before.messages+scaled(20_000, scale)); err != nil {
			return nil, err
		}
		after, err := s.meter(ctx)
		return after.since(before), err
	}
}
