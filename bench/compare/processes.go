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

// standing is a backlog that stays as it is while processes handle it.
type standing struct {
	processes int
	backlog   int // messages for each handler
	messages  int // that are measured

	// prepare is called when the backlog was written, with the number of processes; nil for nothing.
	prepare func(ctx context.Context, s *site, processes int) error

	// check returns an error if the measurement missed its purpose; nil for none.
	check func(context.Context, *site) error
}

// processes has so many processes handle a standing backlog, each with connections of its own. Processes
// with one handler share no call. It returns the cost of writing, handling and acknowledging a message.
func processes(most int) func(context.Context, *site, float64) (figures, error) {
	return standing{processes: most, backlog: processBacklog, messages: 20_000}.measure
}

func (b standing) measure(ctx context.Context, s *site, scale float64) (figures, error) {
	n := min(b.processes, max(3, int(float64(b.processes)*scale)))
	waiting := load{Count: n * s.base.Concurrency * b.backlog, Tenants: s.base.Tenants, Batch: 1, Writers: 4}
	if err := s.write(ctx, waiting); err != nil {
		return nil, err
	}
	if b.prepare != nil {
		if err := b.prepare(ctx, s, n); err != nil {
			return nil, err
		}
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
	if err := s.awaitNoted(ctx, before.messages+scaled(b.messages, scale)); err != nil {
		return nil, err
	}
	after, err := s.meter(ctx)
	if err == nil && b.check != nil {
		err = b.check(ctx, s)
	}
	return after.since(before), err
}
