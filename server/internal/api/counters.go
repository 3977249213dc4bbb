package api

import (
	"cmp"
	"context"
	"errors"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/jsontype"
	"github.com/millrace/millrace/internal/ops"
	"github.com/millrace/millrace/internal/redis/reqid"
)

func (a *API) routeCounters() {
	on(a, ops.AddToCounter.Row, a.openCounter, func(ctx context.Context, c ops.OneCounter, in *namedWith[ops.Addition]) (ops.Added, error) {
		in.Body.ShardKey = anyServer(ctx, in.Body.ShardKey)
		return ops.AddToCounter.Do(ctx, c, in.Body)
	})
	register(a, ops.AddToCounters.Row, func(ctx context.Context, in *with[ops.Counts]) (ops.CountsAdded, error) {
		in.Body.ShardKey = anyServer(ctx, in.Body.ShardKey)
		return ops.AddToCounters.Do(ctx, a.counters, in.Body)
	})
	on(a, ops.GetCounter.Row, a.openCounter, func(ctx context.Context, c ops.OneCounter, in *ops.CounterQuery) (ops.Counted, error) {
		sum, err := ops.GetCounter.Do(ctx, c, *in)
		return sum, inPart(err, sum.Answers, &sum.Value)
	})
	register(a, ops.GetCounters.Row, func(ctx context.Context, in *ops.CounterNames) (ops.Sums, error) {
		sums, err := ops.GetCounters.Do(ctx, a.counters, *in)
		return sums, inPart(err, sums.Answers, nil)
	})
}

// with is a request with a body about structures that are not in its path.
type with[B any] struct{ Body B }

func (w with[B]) body() any { return w.Body }

// anyServer returns a shard key: without one it differs for each request, but not for its repeats.
func anyServer(ctx context.Context, key jsontype.Text) jsontype.Text {
	return cmp.Or(key, jsontype.Text(reqid.Next(ctx)))
}

// inPart returns an error; if it is partial, as the problem that says which servers did not answer, with
// the value of the others if there is one.
func inPart(err error, of ops.Answers, value *int64) error {
	if !errors.Is(err, millrace.ErrPartial) {
		return err
	}
	p := problemOf(err)
	if of.Answered > 0 {
		p.Hint = "Read again when they are back, or with partial=true take what the others have: at least so much of it."
	}
	p.Servers, p.Answered, p.Missing = &of.Servers, &of.Answered, of.Missing
	if of.Answered > 0 {
		p.Value = value
	}
	return p
}

// openCounter returns the counter that a request is about.
func (a *API) openCounter(_ context.Context, in hasName) (ops.OneCounter, error) {
	return ops.OneCounter{Of: a.counters, Name: in.Structure()}, nil
}
