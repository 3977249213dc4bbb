package expiry

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/reqid"
)

// keysPerCall is how many values one call to Redis reads or deletes at most.
const keysPerCall = 100

// part is what one call works on: some keys of one shard.
type part struct {
	base    string
	shards  int
	keys    []string
	request *reqid.Request // nil for a call that only reads
}

// inParts calls do for parts of the keys, those of different shards at the same time, and
// returns their errors. It checks all keys first, and calls nothing in a namespace that
// does not exist. Calls that write have a request each.
func (k *Keys) inParts(ctx context.Context, keys []string, writes bool, do func(p part) error) error {
	for _, key := range keys {
		if err := checkName("key", key); err != nil {
			return err
		}
	}
	shards, err := k.space.count(ctx, false)
	for recounts := 0; err == nil && shards > 0 && len(keys) > 0; recounts++ {
		again, err := k.try(ctx, keys, shards, writes, do)
		if err != nil || len(again) == 0 {
			return err
		}
		known := shards
		if shards, err = k.space.recount(ctx, false); err != nil || shards == known {
			return err
		}
		if recounts == maxRecounts {
			return millrace.ErrBroken.Errorf("the number of shards of %q does not stay", k.space.name)
		}
		keys = again
	}
	return err
}

// try calls do for parts of the keys of so many shards, and returns the keys of those
// that are not, or not begun.
func (k *Keys) try(ctx context.Context, keys []string, shards int, writes bool, do func(p part) error) (again []string, err error) {
	byShard := map[string][]string{}
	var bases []string
	for _, key := range keys {
		base := k.space.base(key, shards)
		if byShard[base] == nil {
			bases = append(bases, base)
		}
		byShard[base] = append(byShard[base], key)
	}
	// Requests are taken in the order of the keys, so that under a seed it is the same
	// each time.
	parts := make([][]part, len(bases))
	for i, base := range bases {
		for some := range slices.Chunk(byShard[base], keysPerCall) {
			p := part{base: base, shards: shards, keys: some}
			if writes {
				p.request = k.space.run.Request(ctx)
				defer p.request.Done()
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
					again = append(again, p.keys...)
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
