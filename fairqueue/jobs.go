package fairqueue

import (
	"context"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/script"
)

// perSlice is how many keys, of any kind, one slice of the job looks at.
const perSlice = 200

// TendJob returns the job that looks after queues that nobody reads at the
// moment. It brings back messages whose time has come and those whose reader
// died, removes waiting ones whose deadline has come, drops streams that are no
// longer used, forgets the names of readers that have nothing in flight and did
// not come for a minute, and removes queues that were not touched for their
// [Config.IdleExpiry]. A read does the first and the third for its own queue.
//
// There is no index of all queues. A slice looks at about 200 keys, of any kind,
// and the next one goes on where it ended.
func TendJob(client rueidis.Client) millrace.Job {
	rounds := &script.Rounds{Client: client, Match: keyPrefix + "*", Count: perSlice}
	rounds.Visit = func(ctx context.Context, key string) (bool, error) {
		name, ok := nameOf(key)
		if !ok {
			return false, nil // one of a queue's other keys
		}
		q, err := New(client, name, Config{})
		if err != nil {
			return false, err
		}
		n, err := q.count(ctx, "tend")
		return n > 0, err
	}
	return millrace.Job{Name: "fairqueue.tend", Slice: rounds.Slice}
}
