package main

import (
	"context"
	"errors"
	"slices"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/fairqueue/queuestats"
)

// ofCosts are measured in each of the measurements whose names begin with "cost-".
var ofCosts = []*peer{millracePeer, asynqDefaultPeer}

const (
	// blockedMs is how long the messages of a tenant take that may not start all of them: longer than a measurement.
	blockedMs = 600_000

	// costStreams are the streams of a queue, those of a tenant are four.
	costStreams = 64

	// longHandlers are the handlers of a process where each takes longMs.
	longHandlers = 20
	longMs       = 5000
)

// costs are the measurement processes with one thing more each.
func costs() []measure {
	plain := standing{processes: processCount, backlog: processBacklog, messages: 20_000}
	blocked, flight, rate := plain, plain, plain
	blocked.prepare, blocked.check = blockTenant, isBlocked
	flight.prepare = limitAll(fairqueue.OwnLimits{MaxInFlight: new(processCount)})
	rate.prepare = limitAll(fairqueue.OwnLimits{Rate: new(100_000.0)})
	long := standing{processes: processCount, backlog: 2, messages: 4 * processCount * longHandlers}
	streams, slow := handlersEach(1), handlersEach(longHandlers)
	streams.Streams, slow.HandlerMs = costStreams, longMs
	return []measure{
		{Name: "cost-blocked", server: volatile, of: ofCosts, base: handlersEach(1), run: blocked.measure},
		{Name: "cost-flight", server: volatile, of: ofCosts, base: handlersEach(1), run: flight.measure},
		{Name: "cost-rate", server: volatile, of: ofCosts, base: handlersEach(1), run: rate.measure},
		{Name: "cost-streams", server: volatile, of: ofCosts, base: streams, run: plain.measure},
		{Name: "cost-long", server: volatile, of: ofCosts, base: slow, run: long.measure},
		{Name: "cost-replica", server: replicated, of: ofCosts, base: handlersEach(1), run: plain.measure},
		{Name: "cost-file", server: logged, of: ofCosts, base: handlersEach(1), run: plain.measure},
	}
}

// blockTenant writes messages of another tenant, whose handlers do not return. It may have half of all handlers, so one
// of its messages waits. In asynq all of them have a handler.
func blockTenant(ctx context.Context, s *site, processes int) error {
	return s.write(ctx, load{
		First: s.base.Tenants, Count: (processes+1)/2 + 1, Tenant: s.base.Tenants, Tenants: 1, Batch: 1, Writers: 1, HandlerMs: blockedMs,
	})
}

// onQueue calls do with Millrace's queue, and does nothing with other systems.
func onQueue(ctx context.Context, s *site, do func(*fairqueue.Queue) error) error {
	if s.peer != millracePeer {
		return nil
	}
	m, err := connectMillrace(ctx, &s.base)
	if err != nil {
		return err
	}
	defer m.close()
	return do(m.queue)
}

// isBlocked returns an error if no tenant of Millrace's queue is blocked.
func isBlocked(ctx context.Context, s *site) error {
	return onQueue(ctx, s, func(q *fairqueue.Queue) error {
		stats, err := q.Stats(ctx)
		if err == nil && !slices.ContainsFunc(stats.Flows, func(f queuestats.Flow) bool { return f.Held && f.Tenant == tenantName(s.base.Tenants) }) {
			err = errors.New("the tenant is not blocked, so this measures nothing")
		}
		return err
	})
}

// limitAll sets a limit for all tenants, which is never reached. asynq has none.
func limitAll(limits fairqueue.OwnLimits) func(context.Context, *site, int) error {
	return func(ctx context.Context, s *site, _ int) error {
		return onQueue(ctx, s, func(q *fairqueue.Queue) error {
			return q.Limits().Set(ctx, "", limits)
		})
	}
}
