package expiry

import (
	"context"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/script"
)

// KeysStats is what a namespace of values holds.
type KeysStats struct {
	Name   string
	Shards int // 0 for a namespace that does not exist

	Keys          int           // values that are there
	Overdue       int           // values whose time is over and that were not reaped yet
	OldestOverdue time.Duration // for how long the time of the first of those has been over; 0 for none

	Counters KeysCounters
}

// KeysCounters count since the namespace began, over all processes.
type KeysCounters struct {
	Set     int64 // values stored
	Deleted int64 // values removed before their deadline
	Reaped  int64 // values removed after it
}

// Len returns how many values there are: exactly, and without those whose time is
// over. It asks all shards at the same time; each answers for one moment.
func (k *Keys) Len(ctx context.Context) (int, error) {
	s, err := k.Stats(ctx)
	return s.Keys, err
}

// Stats looks at all shards at the same time and changes nothing. With an error it
// returns what the others say. Errors: millrace.ErrBroken, millrace.ErrVersion.
func (k *Keys) Stats(ctx context.Context) (KeysStats, error) {
	s := KeysStats{Name: k.space.name}
	var mu sync.Mutex
	shards, err := k.space.each(ctx, func(base string, shards int) error {
		reply, err := k.space.ask(ctx, nil, "key_stats", base, shards)
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

// add adds what the script answers for one shard.
func (s *KeysStats) add(r *script.Reply) {
	now := r.Int()
	s.Keys += int(r.Int())
	s.Overdue += int(r.Int())
	s.OldestOverdue = max(s.OldestOverdue, time.Duration(now-r.Int())*time.Millisecond)
	s.Counters.Set += r.Int()
	s.Counters.Deleted += r.Int()
	s.Counters.Reaped += r.Int()
}

// ListKeys returns the names of the namespaces of deterministic values that are
// registered, sorted, as [ListHashes] does.
func ListKeys(ctx context.Context, client rueidis.Client) ([]string, error) {
	return kindKeys.list(ctx, client)
}
