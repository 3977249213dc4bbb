package api

import (
	"context"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/ops"
)

// described returns the description of an operation as its row has it.
func described(r ops.Row) huma.Operation {
	return op(r.Method, r.Path, r.ID, r.Summary, r.Detail, r.Statuses...)
}

// askQueue registers an operation whose fields are in the path and the query.
func askQueue[In hasName, Out any](a *API, o ops.Operation[*fairqueue.Queue, In, Out]) {
	onQueue(a, described(o.Row), func(ctx context.Context, q *fairqueue.Queue, in *In) (Out, error) { return o.Do(ctx, q, *in) })
}

// tellQueue registers an operation whose fields are in the body.
func tellQueue[In, Out any](a *API, o ops.Operation[*fairqueue.Queue, In, Out]) {
	onQueue(a, described(o.Row), func(ctx context.Context, q *fairqueue.Queue, in *namedWith[In]) (Out, error) {
		return o.Do(ctx, q, in.Body)
	})
}
