package expiry

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/script"
)

const (
	// hashReapBudget is how many fields and hashes of a shard one slice reaps.
	hashReapBudget = 100

	// sampleBudget is how many fields of a hash one sample reaps.
	sampleBudget = 5
)

// HashesStats is what a namespace of hashes holds at one moment.
type HashesStats struct {
	Name   string
	Shards int // 0 for a namespace that does not exist

	// Hashes is how many hashes have fields with a deadline.
	Hashes int

	// Overdue is how many of them have fields whose deadline has come.
	Overdue int

	// OldestOverdue is for how long the first of those has been overdue; 0 for
	// none. Without a job that runs, it grows.
	OldestOverdue time.Duration

	Counters HashesCounters
}

// HashesCounters count since the namespace began, over all processes.
type HashesCounters struct {
	Set      int64 // fields written, by Incr too
	Deleted  int64 // fields removed while they were there, by deadlines that were past too
	Reaped   int64 // expired fields removed
	Repaired int64 // what others had done and the repair job undid
}

// Stats looks at the namespace and changes nothing. Errors: millrace.ErrBroken,
// millrace.ErrVersion.
func (h *Hashes) Stats(ctx context.Context) (HashesStats, error) {
	s := HashesStats{Name: h.space.name}
	var mu sync.Mutex
	shards, err := h.space.each(ctx, func(base string, shards int) error {
		reply, err := h.space.ask(ctx, nil, "hash_stats", base, shards)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		s.add(reply)
		return reply.Err()
	})
	s.Shards = shards
	return s, err
}

// add adds what the script says of a shard.
func (s *HashesStats) add(r *script.Reply) {
	now := r.Int()
	s.Hashes += int(r.Int())
	s.Overdue += int(r.Int())
	if oldest := r.Int(); oldest > 0 {
		s.OldestOverdue = max(s.OldestOverdue, time.Duration(now-oldest)*time.Millisecond)
	}
	s.Counters.Set += r.Int()
	s.Counters.Deleted += r.Int()
	s.Counters.Reaped += r.Int()
	s.Counters.Repaired += r.Int()
}

// ReapJob returns the job that removes expired fields. They are hidden anyway; it
// is for their memory. A slice removes up to 100 of each shard in which something is due,
// from as many hashes as that takes, those first that have been overdue for longest, and
// from all shards at the same time.
func (h *Hashes) ReapJob() millrace.Job {
	return millrace.Job{Name: "expiry.hash_reap:" + h.space.name, Slice: func(ctx context.Context) (millrace.Progress, error) {
		var mu sync.Mutex
		progress := millrace.Idle
		err := h.space.eachDue(ctx, func(base string, shards int, due bool) error {
			budget := 1
			if due {
				budget = hashReapBudget
			}
			r, err := h.reap(ctx, base, shards, budget)
			mu.Lock()
			defer mu.Unlock()
			progress = max(progress, r.progress())
			return err
		})
		return progress, err
	}}
}

// SampleJob returns a job that removes at most 5 expired fields of one hash, chosen
// at random among those of one shard. It needs no order in the index, but where
// some hashes expire more than others it falls behind, while ReapJob does not: it
// is there to compare the two.
func (h *Hashes) SampleJob() millrace.Job {
	return millrace.Job{Name: "expiry.hash_sample:" + h.space.name, Slice: func(ctx context.Context) (millrace.Progress, error) {
		shards, err := h.space.recount(ctx, false)
		if err != nil || shards == 0 {
			return millrace.Idle, err
		}
		base, c := h.space.kind.shardKey(h.space.name, rand.IntN(shards)), h.space.run.Client
		hash, err := script.Prompt(ctx, func(ctx context.Context) (string, error) {
			return c.Do(ctx, c.B().Zrandmember().Key(base+":due").Build()).ToString()
		})
		if hash == "" { // there is none, or it is the placeholder
			if rueidis.IsRedisNil(err) {
				err = nil
			}
			return millrace.Idle, err
		}
		r, err := h.reapHashes(ctx, base, shards, sampleBudget, hash)
		return r.progress(), err
	}}
}

// reaping is what one call of the script did.
type reaping struct {
	reaped int
	full   bool // as much as it may do
}

func (r reaping) progress() millrace.Progress {
	switch {
	case r.full:
		return millrace.Full
	case r.reaped > 0:
		return millrace.Worked
	}
	return millrace.Idle
}

// reap removes expired fields of a shard: it finds out which hashes have some, and has a
// script work on those, whose names it must be given on a Cluster.
func (h *Hashes) reap(ctx context.Context, base string, shards, budget int) (reaping, error) {
	hashes, err := h.space.overdue(ctx, budget, base)
	if err != nil {
		return reaping{}, err
	}
	some := slices.DeleteFunc(hashes[0], func(name string) bool { return name == "" }) // which is the placeholder
	return h.reapHashes(ctx, base, shards, budget, some...)
}

// reapHashes removes expired fields of hashes of a shard, at most so many.
func (h *Hashes) reapHashes(ctx context.Context, base string, shards, budget int, hashes ...string) (reaping, error) {
	reply, err := h.space.ask(ctx, nil, "hash_reap", base, shards, append([]string{strconv.Itoa(budget)}, hashes...)...)
	if err != nil {
		return reaping{}, err
	}
	r := reaping{reaped: int(reply.Int()), full: reply.Bool()}
	return r, reply.Err()
}
