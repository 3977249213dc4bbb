package fairqueue

import (
	"context"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/registry"
)

// TendJob returns the job that looks after queues that nobody reads at the
// moment. It brings back messages whose time has come and those whose reader
// died, removes waiting ones whose deadline has come, forgets lanes and dedupe ids whose
// time is over, and removes queues that were not touched for their [Config.IdleExpiry]. A
// read does the first three for its own queue.
//
// A slice visits up to 50 of the queues that [List] knows, all at the same time, and the
// next one goes on where it ended. One that does not answer keeps no others waiting.
func TendJob(client rueidis.Client) millrace.Job {
	visitor := registry.NewVisitor(client, registry.Queue, func(ctx context.Context, name string) (bool, error) {
		q, err := New(client, name, Config{})
		if err != nil {
			return false, err
		}
		reply, err := q.call(ctx, "tend", "")
		if err != nil {
			return false, err
		}
		n := reply.Int()
		return n != 0, reply.Err()
	})
	return millrace.Job{Name: "fairqueue.tend", Slice: visitor.Slice}
}
