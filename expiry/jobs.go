package expiry

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/script"
	"github.com/millrace/millrace/internal/redis/shards"
)

// reapBudget is how many fields and hashes of a shard one call of the script reaps.
const reapBudget = 100

// Stats describes a namespace of hashes.
type Stats struct {
	Name   string
	Shards int // 0 for a namespace that does not exist

	Hashes        int           // hashes that have fields with a deadline
	Overdue       int           // those of them that have expired fields, or whose earliest deadline was moved and was to come by now
	OldestOverdue time.Duration // the time since the first of those deadlines; 0 for none

	// Counters since the namespace was created, over all processes.
	Deleted  int64 // fields removed before they expired, also by past deadlines
	Reaped   int64 // expired fields removed
	Repaired int64 // changes by other programs that the repair job undid
}

// Stats reads all shards at the same time and changes nothing. With an error it returns
// the data of the other shards. Errors: [millrace.ErrBroken], [millrace.ErrVersion].
func (h *Hashes) Stats(ctx context.Context) (Stats, error) {
	s := Stats{Name: h.space.Name}
	var err error
	s.Shards, err = h.space.Stats(ctx, func(r *script.Reply) {
		now := r.Int()
		s.Hashes += int(r.Int())
		s.Overdue += int(r.Int())
		if oldest := r.Int(); oldest > 0 {
			s.OldestOverdue = max(s.OldestOverdue, time.Duration(now-oldest)*time.Millisecond)
		}
		s.Deleted += r.Int()
		s.Reaped += r.Int()
		s.Repaired += r.Int()
	})
	return s, err
}

// Jobs returns the jobs of this namespace.
//
//   - expiry.reap:NAME removes expired fields. They are hidden anyway; the job frees their
//     memory. A slice removes up to 100 of each shard in which something has expired, the
//     hashes that are overdue for longest first, from all shards at the same time. After one
//     that found nothing due, all processes leave the namespace alone until its next
//     deadline, for a second at most.
//   - expiry.policy:NAME asks the servers for their eviction policy, if the last answer is older
//     than a second. It waits for no server: the next slice reports a change. While a server
//     has an allkeys-* policy, Set, SetMany and Incr fail with [millrace.ErrEvictable], or
//     only log a warning with AllowEvictable.
//
// A recruiter finds jobs by their names, so the names contain that of the namespace.
func (h *Hashes) Jobs() []millrace.Job { return h.space.Jobs(h.reap) }

// reap removes expired fields of a shard: it finds out which hashes have some, and runs a
// script on those, because on a Cluster a script has to be given their names.
func (h *Hashes) reap(ctx context.Context, base string, shards int, due bool) (millrace.Progress, error) {
	if !due {
		return h.space.Reap(ctx, base, shards, "1")
	}
	overdue, err := h.space.Overdue(ctx, reapBudget, base)
	if err != nil {
		return millrace.Idle, err
	}
	hashes := slices.DeleteFunc(overdue, func(name string) bool { return name == "" }) // the placeholder
	return h.space.Reap(ctx, base, shards, append([]string{strconv.Itoa(reapBudget)}, hashes...)...)
}

// Jobs returns the jobs of all registered namespaces: expiry.repair undoes changes that
// other programs made to hashes. It removes deadlines without a field, collects deadlines
// that a hash has lost from its fields, corrects the index, removes a Redis TTL, and reaps
// some expired fields.
//
// A slice checks about 50 hashes of each of up to 50 namespaces, at the same time, and
// 10,000 fields of a large one; the next slice continues.
func Jobs(client rueidis.Client) []millrace.Job {
	return []millrace.Job{shards.RepairJob(client, &kind, repairHashes)}
}
