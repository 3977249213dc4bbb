package api

import (
	"context"
	"errors"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/jsontype"
	"github.com/millrace/millrace/internal/ops"
	"github.com/millrace/millrace/internal/redis/reqid"
)

func (a *API) routeCounters() {
	on(a, ops.AddToCounter.Row, a.openCounter, func(ctx context.Context, c ops.OneCounter, in *namedWith[ops.Addition]) (ops.Added, error) {
		if in.Body.ShardKey == "" {
			in.Body.ShardKey = jsontype.Text(reqid.Next(ctx)) // differs for each request, but not for its repeats
		}
		return ops.AddToCounter.Do(ctx, c, in.Body)
	})
	on(a, ops.GetCounter.Row, a.openCounter, func(ctx context.Context, c ops.OneCounter, in *ops.Counter) (ops.Counted, error) {
		sum, err := ops.GetCounter.Do(ctx, c, *in)
		if !errors.Is(err, millrace.ErrPartial) {
			return sum, err
		}
		p := problemOf(err)
		p.Servers, p.Answered, p.Missing = &sum.Servers, &sum.Answered, sum.Missing
		if sum.Answered > 0 {
			p.Value = &sum.Value
		}
		return sum, p
	})
}

// openCounter returns the counter that a request is about.
func (a *API) openCounter(_ context.Context, in hasName) (ops.OneCounter, error) {
	return ops.OneCounter{Of: a.counters, Name: in.Structure()}, nil
}
