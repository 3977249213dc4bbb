package fairqueue

import (
	"context"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/registry"
)

// TendJob returns the job that looks after queues that nobody reads at the
// moment. It brings back messages whose time has come and those whose reader
// died, removes waiting ones whose deadline has come, drops streams that are no
// longer used, forgets the names of readers that have nothing in flight and did
// not come for a minute, and removes queues that were not touched for their
// [Config.IdleExpiry]. A read does the first and the third for its own queue.
//
// A slice visits up to 50 of the queues that [List] knows, all at the same time, and the
// next one goes on where it ended. One that does not answer keeps no others waiting.
func TendJob(client rueidis.Client) millrace.Job {
	visitor := registry.NewVisitor(client, registry.Queue, func(ctx context.Context, name string) (bool, error) {
		q, err := New(client, name, Config{})
		if err != nil {
			return false, err
		}
		n, err := q.count(ctx, "tend")
		return n > 0, err
	})
	return millrace.Job{Name: "fairqueue.tend", Slice: visitor.Slice}
}
