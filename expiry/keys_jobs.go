package expiry

import (
	"context"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
)

// reapPerShard is how many values of a shard one slice reaps.
const reapPerShard = 100

// ReapJob returns the job that removes values whose time is over. They are hidden
// anyway; it is for their memory. A slice removes up to 100 of each shard in which
// something is due, those first that have been overdue for longest, from all shards at
// the same time.
func (k *Keys) ReapJob() millrace.Job {
	return millrace.Job{Name: "expiry.keys_reap:" + k.space.name, Slice: func(ctx context.Context) (millrace.Progress, error) {
		var worked, full atomic.Bool
		err := k.space.eachDue(ctx, func(base string, shards int, _ bool) error {
			looked, more, err := k.reap(ctx, base, shards)
			if looked > 0 {
				worked.Store(true)
			}
			if more {
				full.Store(true)
			}
			return err
		})
		switch {
		case err != nil || !worked.Load():
			return millrace.Idle, err
		case full.Load():
			return millrace.Full, nil
		}
		return millrace.Worked, nil
	}}
}

// reap removes what is overdue in a shard. It returns how much of its index was looked
// at, and whether there is more.
func (k *Keys) reap(ctx context.Context, base string, shards int) (looked int, more bool, err error) {
	reply, err := k.space.ask(ctx, nil, "key_reap", base, shards, strconv.Itoa(reapPerShard))
	if err != nil {
		return 0, false, err
	}
	looked, more = int(reply.Int()), reply.Bool()
	return looked, more, reply.Err()
}

// PolicyJob returns the job that has the servers asked what they may evict, if what
// is known is a second old; Set does so once a minute. It waits for no server: what
// they say is known to the next slice, which has worked if that is a change. While one
// has an allkeys-* policy, Set fails with [millrace.ErrEvictable], or only warns with
// AllowEvictable. It is well again when the policy is.
func (k *Keys) PolicyJob() millrace.Job {
	return millrace.Job{Name: "expiry.keys_policy:" + k.space.name, Slice: func(ctx context.Context) (millrace.Progress, error) {
		if k.policy.Changed(ctx, time.Second) {
			return millrace.Worked, nil
		}
		return millrace.Idle, nil
	}}
}

// RepairKeysJob returns the job that puts the deterministic values of all
// namespaces to rights after others have been at them. A value that is not in its
// index is entered again, a place in an index without a value is removed, and a
// Redis TTL, by which a server could evict a shard, is taken away.
//
// A slice looks at about 100 values of each of up to 50 namespaces, at the same time; the
// next one goes on where it ended.
func RepairKeysJob(client rueidis.Client) millrace.Job {
	return millrace.Job{Name: "expiry.keys_repair", Slice: newRepair(client, kindKeys, repairValues)}
}

// repairValues mends a page of a shard's index or, behind that, of its values.
func repairValues(ctx context.Context, n *namespace, base string, shards int, at spot) (wrong bool, next spot, err error) {
	if at == (spot{}) {
		at = spot{part: "due", cursor: "0"}
	}
	reply, err := n.ask(ctx, nil, "key_repair", base, shards, at.part, at.cursor)
	if err != nil {
		return false, spot{}, err
	}
	next = spot{part: reply.Text(), cursor: reply.Text()}
	wrong = reply.Int() > 0
	if next.part == "" {
		next = spot{}
	}
	return wrong, next, reply.Err()
}
