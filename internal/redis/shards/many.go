package shards

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/reqid"
)

// perCall is how many keys of a shard one call of AtMany has.
const perCall = 100

// Part is the work of one call of AtMany: some keys of one shard.
type Part struct {
	Base    string
	Shards  int
	Keys    []string
	Request *reqid.Request // nil for a call that only reads
}

// AtMany calls do for the shards of keys, 100 keys of a shard at a time, different shards at
// the same time, and joins their errors. It first validates all keys, and calls nothing if
// the namespace does not exist. As At does, it reads the record again for shards that do
// not exist or belong to another number of shards. Calls that write have a request each.
func (s *Space) AtMany(ctx context.Context, keys []string, write bool, do func(p Part) error) error {
	for _, key := range keys {
		if err := CheckName("key", key); err != nil {
			return err
		}
	}
	shards, err := s.Count(ctx, false)
	for recounts := 0; err == nil && shards > 0 && len(keys) > 0; recounts++ {
		again, err := s.try(ctx, keys, shards, write, do)
		if err != nil || len(again) == 0 {
			return err
		}
		known := shards
		if shards, err = s.recount(ctx, false); err != nil || shards == known {
			return err
		}
		if recounts == maxRecounts {
			return millrace.ErrBroken.Errorf("the number of shards of %q keeps changing", s.Name)
		}
		keys = again
	}
	return err
}

// try calls do for the shards of keys, and returns the keys of those that do not exist or
// belong to another number.
func (s *Space) try(ctx context.Context, keys []string, shards int, write bool, do func(p Part) error) (again []string, err error) {
	byShard := map[string][]string{}
	var bases []string
	for _, key := range keys {
		base := s.Base(key, shards)
		if byShard[base] == nil {
			bases = append(bases, base)
		}
		byShard[base] = append(byShard[base], key)
	}
	// Requests are taken in the order of the keys: with a seed, the order is always the
	// same.
	parts := make([][]Part, len(bases))
	for i, base := range bases {
		for some := range slices.Chunk(byShard[base], perCall) {
			p := Part{Base: base, Shards: shards, Keys: some}
			if write {
				p.Request = s.Run.Request(ctx)
				defer p.Request.Done()
			}
			parts[i] = append(parts[i], p)
		}
	}
	var mu sync.Mutex
	failed := make([]error, len(bases))
	var running sync.WaitGroup
	for i := range parts {
		running.Go(func() {
			for _, p := range parts[i] {
				err := do(p)
				switch {
				case errors.Is(err, errNoShard), errors.Is(err, errShards):
					mu.Lock()
					again = append(again, p.Keys...)
					mu.Unlock()
				case err != nil:
					failed[i] = err
					return
				}
			}
		})
	}
	running.Wait()
	return again, errors.Join(failed...)
}
