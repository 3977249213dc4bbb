package api

import (
	"context"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/ops"
)

// opener returns the structure that a request is about.
type opener[S any] func(ctx context.Context, in hasName) (S, error)

// ask registers an operation whose fields are in the path and the query.
func ask[S any, In hasName, Out any](a *API, open opener[S], o ops.Operation[S, In, Out]) {
	on(a, o.Row, open, func(ctx context.Context, structure S, in *In) (Out, error) { return o.Do(ctx, structure, *in) })
}

// tell registers an operation whose fields are in the body.
func tell[S, In, Out any](a *API, open opener[S], o ops.Operation[S, In, Out]) {
	on(a, o.Row, open, func(ctx context.Context, structure S, in *namedWith[In]) (Out, error) {
		return o.Do(ctx, structure, in.Body)
	})
}

// askQueue is ask for a queue.
func askQueue[In hasName, Out any](a *API, o ops.Operation[*fairqueue.Queue, In, Out]) {
	ask(a, a.openQueue, o)
}

// tellQueue is tell for a queue.
func tellQueue[In, Out any](a *API, o ops.Operation[*fairqueue.Queue, In, Out]) {
	tell(a, a.openQueue, o)
}

// tellHash is tell for a hash, which has two names in its path.
func tellHash[In, Out any](a *API, o ops.Operation[ops.OneHash, In, Out]) {
	on(a, o.Row, a.openHash, func(ctx context.Context, h ops.OneHash, in *hashedWith[In]) (Out, error) {
		return o.Do(ctx, h, in.Body)
	})
}
