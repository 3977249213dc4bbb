package lease

import (
	"context"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/script"
)

// reapScan is how many keys, of any kind, one slice looks at.
const reapScan = 200

// ReapJob returns the job that removes abandoned leases: those whose deadline
// came more than an hour ago and that nobody took over. They are in nobody's way
// but take memory; what was released leaves by itself.
//
// There is no index: a zset of deadlines would lie in another cluster slot than
// the leases, and would cost every refresh a second write. A slice looks at about
// 200 keys, of any kind, and the next one goes on where it ended.
func (l *Locker) ReapJob() millrace.Job {
	rounds := &script.Rounds{Client: l.run.Client, Match: keyPrefix + "*", Count: reapScan, Visit: l.reap}
	return millrace.Job{Name: "lease.reap", Slice: rounds.Slice}
}

// reap removes the lease with that key if it is abandoned.
func (l *Locker) reap(ctx context.Context, key string) (bool, error) {
	if _, ok := nameOf(key); !ok {
		return false, nil // a list on which somebody waits
	}
	reply, err := l.run.Run(ctx, "reap", key)
	if err != nil {
		return false, err
	}
	return reply.Bool(), reply.Err()
}
