package pinned

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/script"
	"github.com/millrace/millrace/internal/redis/shards"
)

// reapBudget is how many values of a shard one call of the script reaps.
const reapBudget = 100

// Stats describes a namespace of values.
type Stats struct {
	Name   string
	Shards int // 0 for a namespace that does not exist

	Keys          int           // values and claims, without expired ones: exact in each shard
	Overdue       int           // expired values that were not reaped yet
	OldestOverdue time.Duration // the time since the first of those expired; 0 for none

	// Counters since the namespace was created, over all processes.
	Set     int64 // values stored
	Deleted int64 // values removed before they expired
	Reaped  int64 // expired values removed
}

// Stats reads all shards at the same time and changes nothing. With an error it returns
// the data of the other shards. Errors: [millrace.ErrBroken], [millrace.ErrVersion].
func (k *Keys) Stats(ctx context.Context) (Stats, error) {
	s := Stats{Name: k.space.Name}
	var err error
	s.Shards, err = k.space.Stats(ctx, func(r *script.Reply) {
		now := r.Int()
		s.Keys += int(r.Int())
		s.Overdue += int(r.Int())
		s.OldestOverdue = max(s.OldestOverdue, time.Duration(now-r.Int())*time.Millisecond)
		s.Set += r.Int()
		s.Deleted += r.Int()
		s.Reaped += r.Int()
	})
	return s, err
}

// Jobs returns the jobs of this namespace.
//
//   - pinned.reap:NAME removes expired values. They are hidden anyway; the job frees their
//     memory. A slice removes up to 100 of each shard in which something has expired, those
//     that are overdue for longest first, from all shards at the same time. After one that
//     found nothing due, all processes leave the namespace alone until its next deadline,
//     for a second at most.
//   - pinned.policy:NAME asks the servers for their eviction policy, if the last answer is older
//     than a second; Set does so once a minute. It waits for no server: the next slice
//     reports a change. While a server has an allkeys-* policy, Set fails with
//     [millrace.ErrEvictable], or only logs a warning with AllowEvictable.
//
// A recruiter finds jobs by their names, so the names contain that of the namespace.
func (k *Keys) Jobs() []millrace.Job { return k.space.Jobs(k.reap) }

func (k *Keys) reap(ctx context.Context, base string, count int, _ bool) (millrace.Progress, error) {
	return k.space.Reap(ctx, base, count, strconv.Itoa(reapBudget))
}

// Jobs returns the jobs of all registered namespaces: pinned.repair undoes changes that other
// programs made to values. It adds a value that is missing in its index, removes an
// entry of an index without a value, and removes a Redis TTL, by which a server could evict
// a shard.
//
// A slice checks about 100 values of each of up to 50 namespaces, at the same time; the
// next slice continues.
func Jobs(client rueidis.Client) []millrace.Job {
	return []millrace.Job{shards.RepairJob(client, &kind, repairValues)}
}

// repairValues repairs a page of a shard's index or, after that, of its values.
func repairValues(ctx context.Context, s *shards.Space, base string, count int, at shards.Position) (wrong bool, next shards.Position, err error) {
	if at == (shards.Position{}) {
		at = shards.Position{Part: "due", Cursor: "0"}
	}
	reply, err := s.Ask(ctx, nil, "repair", base, count, at.Part, at.Cursor)
	if err != nil {
		return false, at, err
	}
	next = shards.Position{Part: reply.Text(), Cursor: reply.Text()}
	wrong = reply.Int() > 0
	if next.Part == "" {
		next = shards.Position{}
	}
	return wrong, next, reply.Err()
}
