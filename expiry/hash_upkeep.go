package expiry

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	script "github.com/millrace/millrace/internal/oldscript"
)

const (
	// hashReapBudget is how many fields and hashes of a shard one slice reaps.
	hashReapBudget = 100

	// sampleBudget is how many fields of a hash one sample reaps.
	sampleBudget = 5

	// hashRepairScan is how many keys, of any kind, one slice of the repair looks
	// at.
	hashRepairScan = 100

	// repairPage is how many deadlines one call of the repair looks at, and
	// repairPages how many calls it makes for one key.
	repairPage  = 500
	repairPages = 10
)

// HashesStats is what a namespace of hashes holds at one moment.
type HashesStats struct {
	Name   string
	Shards int // 0 for a namespace that does not exist

	// Hashes is how many hashes have fields with a deadline.
	Hashes int

	// Overdue is for how many of them the index says that a deadline has come. Its
	// times are lower bounds until the next slice of the reap job, so it may be
	// fewer.
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

// Stats looks at the namespace and changes nothing. Errors: [ErrBroken],
// [ErrVersion].
func (h *Hashes) Stats(ctx context.Context) (HashesStats, error) {
	s := HashesStats{Name: h.space.name}
	bases, err := h.space.bases(ctx)
	if err != nil {
		return s, err
	}
	s.Shards = len(bases)
	var mu sync.Mutex
	err = atOnce(bases, func(base string) error {
		reply, err := h.space.call(ctx, h.scripts.stats, base)
		if err != nil {
			return err
		}
		parts, err := reply.ToArray()
		if err != nil || len(parts) != 8 {
			return fmt.Errorf("expiry.hash_stats answered %d parts: %w", len(parts), err)
		}
		mu.Lock()
		defer mu.Unlock()
		return s.add(parts)
	})
	return s, err
}

// add adds what the script says of a shard.
func (s *HashesStats) add(parts []rueidis.RedisMessage) error {
	var n [8]int64
	for i, p := range parts {
		if p.IsNil() {
			continue
		}
		var err error
		if n[i], err = p.AsInt64(); err != nil {
			return ErrBroken.With(err)
		}
	}
	s.Hashes += int(n[1])
	s.Overdue += int(n[2])
	if oldest := n[3]; oldest > 0 {
		s.OldestOverdue = max(s.OldestOverdue, time.Duration(n[0]-oldest)*time.Millisecond)
	}
	s.Counters.Set += n[4]
	s.Counters.Deleted += n[5]
	s.Counters.Reaped += n[6]
	s.Counters.Repaired += n[7]
	return nil
}

// ReapJob returns the job that removes expired fields. They are hidden anyway; it
// is for their memory. A slice removes up to 100 of each shard, from as many
// hashes as that takes, those first that have been overdue for longest, and from
// all shards at the same time.
func (h *Hashes) ReapJob() millrace.Job {
	return millrace.Job{Name: "expiry.hash_reap:" + h.space.name, Slice: func(ctx context.Context) (millrace.Progress, error) {
		bases, err := h.space.bases(ctx)
		if err != nil {
			return millrace.Idle, err
		}
		var mu sync.Mutex
		progress := millrace.Idle
		err = atOnce(bases, func(base string) error {
			r, err := h.reap(ctx, base, hashReapBudget, "due", "")
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
		bases, err := h.space.bases(ctx)
		if err != nil || len(bases) == 0 {
			return millrace.Idle, err
		}
		r, err := h.reap(ctx, bases[rand.IntN(len(bases))], sampleBudget, "any", "")
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

// reap removes expired fields of a shard.
func (h *Hashes) reap(ctx context.Context, base string, budget int, which, hash string) (reaping, error) {
	reply, err := h.space.call(ctx, h.scripts.reap, base, strconv.Itoa(budget), which, hash)
	if err != nil {
		return reaping{}, err
	}
	n, err := reply.AsIntSlice()
	if err != nil || len(n) != 2 {
		return reaping{}, fmt.Errorf("expiry.hash_reap answered %d numbers: %w", len(n), err)
	}
	return reaping{reaped: int(n[0]), full: n[1] == 1}, nil
}

// RepairHashesJob returns the job that puts the hashes of all namespaces to rights
// after others have been at them. A deadline without its field is removed, a hash
// with deadlines that its index has lost is put back, a Redis TTL is taken away,
// and some of what is expired is removed.
//
// A slice looks at about 100 keys, of any kind, and at 5,000 deadlines of a hash at
// most, where the others come in later rounds; the next one goes on where it
// ended.
func RepairHashesJob(client rueidis.Client) millrace.Job {
	r := &hashRepair{run: script.Runner{Client: client}, repair: standardHashScripts.repair}
	rounds := &script.Rounds{Client: client, Match: string(kindHashes) + "*", Count: hashRepairScan, Visit: r.visit}
	return millrace.Job{Name: "expiry.hash_repair", Slice: rounds.Slice}
}

type hashRepair struct {
	run    script.Runner
	repair *script.Script
}

// visit mends the hash that a key belongs to.
func (r *hashRepair) visit(ctx context.Context, key string) (bool, error) {
	name, shard, ok := kindHashes.shardOf(key)
	if !ok {
		return false, nil
	}
	base := kindHashes.shardKey(name, shard)
	if key == base {
		return r.keepRecord(ctx, name)
	}
	hash, ok := hashOf(base, key)
	if !ok {
		return false, nil
	}
	done := false
	for page, from := 0, 0; page < repairPages; page++ {
		mended, err := r.mend(ctx, base, hash, from)
		done = done || mended.things+mended.reaped > 0
		if err != nil || mended.next >= mended.size {
			return done, err
		}
		if from = mended.next; page == 0 && mended.size > repairPage*repairPages {
			from = rand.IntN(mended.size - repairPage*(repairPages-1) + 1)
		}
	}
	return done, nil
}

// keepRecord takes a Redis TTL from the record of a namespace.
func (r *hashRepair) keepRecord(ctx context.Context, name string) (bool, error) {
	c := r.run.Client
	return script.Prompt(ctx, func(ctx context.Context) (bool, error) {
		return c.Do(ctx, c.B().Persist().Key(kindHashes.recordKey(name)).Build()).AsBool()
	})
}

// mending is what one call of the script did.
type mending struct {
	things, reaped int
	size, next     int // how many deadlines there are, and the rank to go on from
}

func (r *hashRepair) mend(ctx context.Context, base, hash string, from int) (mending, error) {
	reply, err := r.run.Run(ctx, r.repair, base, hash, strconv.Itoa(from), strconv.Itoa(repairPage))
	if err != nil {
		return mending{}, err
	}
	n, err := reply.AsIntSlice()
	if err != nil || len(n) != 4 {
		return mending{}, fmt.Errorf("expiry.hash_repair answered %d numbers: %w", len(n), err)
	}
	return mending{things: int(n[0]), reaped: int(n[1]), size: int(n[2]), next: int(n[3])}, nil
}
