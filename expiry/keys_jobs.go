package expiry

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	script "github.com/millrace/millrace/internal/oldscript"
)

const (
	// reapPerShard is how many values of a shard one slice reaps.
	reapPerShard = 100

	// repairScan is how many keys, of any kind, one slice of the repair looks at.
	repairScan = 100
)

// ReapJob returns the job that removes values whose time is over. They are hidden
// anyway; it is for their memory. A slice removes up to 100 of each shard, those
// first that have been overdue for longest, from all shards at the same time.
func (k *Keys) ReapJob() millrace.Job {
	return millrace.Job{Name: "expiry.keys_reap:" + k.space.name, Slice: func(ctx context.Context) (millrace.Progress, error) {
		bases, err := k.space.bases(ctx)
		if err != nil {
			return millrace.Idle, err
		}
		var worked, full atomic.Bool
		err = atOnce(bases, func(base string) error {
			n, err := k.reap(ctx, base)
			if n > 0 {
				worked.Store(true)
			}
			if n >= reapPerShard {
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

// reap removes what is overdue in a shard and returns how much of its index was
// looked at.
func (k *Keys) reap(ctx context.Context, base string) (int, error) {
	return k.ask(ctx, k.scripts.reap, base, strconv.Itoa(reapPerShard))
}

// PolicyJob returns the job that has the servers asked what they may evict, if what
// is known is a second old; Set does so once a minute. It waits for no server: what
// they say is known to the next slice, which has worked if that is a change. While one
// has an allkeys-* policy, Set fails with [ErrEvictable], or only warns with
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
// Redis TTL, by which a server could evict a value, is taken away.
//
// A slice looks at about 100 keys, of any kind, and at about 100 places of one
// index; the next one goes on where it ended.
func RepairKeysJob(client rueidis.Client) millrace.Job {
	return millrace.Job{Name: "expiry.keys_repair", Slice: newKeyRepair(client, standardKeyScripts).slice}
}

// keyRepair goes round all keys, and through the indexes that it comes across.
type keyRepair struct {
	run     script.Runner
	rounds  script.Rounds
	scripts *keyScripts

	mu     sync.Mutex
	places []place // where to go on, each in the index of another shard
}

// place is how far a walk through the index of a shard has come.
type place struct{ base, cursor string }

func newKeyRepair(client rueidis.Client, scripts *keyScripts) *keyRepair {
	r := &keyRepair{run: script.Runner{Client: client}, scripts: scripts}
	r.rounds = script.Rounds{Client: client, Match: string(kindKeys) + "*", Count: repairScan, Visit: r.visit}
	return r
}

func (r *keyRepair) slice(ctx context.Context) (millrace.Progress, error) {
	values, err := r.rounds.Slice(ctx)
	if err != nil {
		return millrace.Idle, err
	}
	index, err := r.audit(ctx)
	return max(values, index), err
}

// visit mends the value with that key, and notes an index.
func (r *keyRepair) visit(ctx context.Context, key string) (bool, error) {
	name, shard, ok := kindKeys.shardOf(key)
	if !ok {
		return false, nil
	}
	base := kindKeys.shardKey(name, shard)
	if key == dueKey(base) {
		r.note(base)
		return false, nil
	}
	member, ok := strings.CutPrefix(key, valueKey(base, ""))
	if !ok {
		return false, nil // one of a shard's other keys
	}
	reply, err := r.run.Run(ctx, r.scripts.mend, base, member)
	if err != nil {
		return false, err
	}
	n, err := reply.AsInt64()
	return n > 0, err
}

// note remembers to go through the index of a shard.
func (r *keyRepair) note(base string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.ContainsFunc(r.places, func(p place) bool { return p.base == base }) {
		r.places = append(r.places, place{base, "0"})
	}
}

// take returns the place where to go on first, which is then this caller's.
func (r *keyRepair) take() (place, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.places) == 0 {
		return place{}, false
	}
	p := r.places[0]
	r.places = r.places[1:]
	return p, true
}

// audit looks at the next names of an index. One that fails is left until the
// keys have been gone round again, so that it does not keep the others.
func (r *keyRepair) audit(ctx context.Context) (millrace.Progress, error) {
	p, ok := r.take()
	if !ok {
		return millrace.Idle, nil
	}
	reply, err := r.run.Run(ctx, r.scripts.audit, p.base, p.cursor)
	if err != nil {
		return millrace.Idle, err
	}
	parts, err := reply.ToArray()
	if err != nil {
		return millrace.Idle, err
	}
	if len(parts) != 2 {
		return millrace.Idle, fmt.Errorf("expiry.key_audit answered %d parts", len(parts))
	}
	if p.cursor, err = parts[0].ToString(); err != nil {
		return millrace.Idle, err
	}
	if p.cursor != "0" {
		r.mu.Lock()
		r.places = append(r.places, p)
		r.mu.Unlock()
	}
	switch wrong, err := parts[1].AsInt64(); {
	case err != nil || wrong == 0:
		return millrace.Idle, err
	case p.cursor == "0":
		return millrace.Worked, nil
	}
	return millrace.Full, nil
}
