package expiry

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redis/rueidis"
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
// returns what the others say. Errors: [ErrBroken], [ErrVersion].
func (k *Keys) Stats(ctx context.Context) (KeysStats, error) {
	s := KeysStats{Name: k.space.name}
	bases, err := k.space.bases(ctx)
	if err != nil {
		return s, err
	}
	s.Shards = len(bases)
	var mu sync.Mutex
	err = atOnce(bases, func(base string) error {
		reply, err := k.space.call(ctx, k.scripts.stats, base)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		return s.add(reply)
	})
	return s, err
}

// add adds what the script answers for one shard.
func (s *KeysStats) add(reply rueidis.RedisMessage) error {
	n, err := reply.AsIntSlice()
	if err != nil {
		return err
	}
	if len(n) != 7 {
		return fmt.Errorf("expiry.key_stats answered %d numbers", len(n))
	}
	s.Keys += int(n[1])
	s.Overdue += int(n[2])
	s.OldestOverdue = max(s.OldestOverdue, time.Duration(n[0]-n[3])*time.Millisecond)
	s.Counters.Set += n[4]
	s.Counters.Deleted += n[5]
	s.Counters.Reaped += n[6]
	return nil
}

// ListKeys returns the names of the namespaces of deterministic values that are
// registered, sorted, as [ListHashes] does.
func ListKeys(ctx context.Context, client rueidis.Client) ([]string, error) {
	return kindKeys.list(ctx, client)
}
