package pinned

import (
	"context"
	"sync"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/shards"
)

var errNotFound = millrace.ErrNotFound.Errorf("there is no such value, or it has expired")

// Get returns a value and the time that was left when the server read it.
//
// Errors: [millrace.ErrNotFound]; [millrace.ErrBadName], before Redis was asked;
// [millrace.ErrBroken], [millrace.ErrVersion].
func (k *Keys) Get(ctx context.Context, key string) (value []byte, ttl time.Duration, err error) {
	if err := shards.CheckName("key", key); err != nil {
		return nil, 0, err
	}
	err = k.space.At(ctx, false, key, func(base string, shards int) error {
		return k.read(ctx, base, shards, []string{key}, func(_ int, v []byte, left time.Duration) { value, ttl = v, left })
	})
	switch {
	case err != nil:
		return nil, 0, err
	case value == nil:
		return nil, 0, errNotFound
	}
	k.space.Enlist(ctx)
	return value, ttl, nil
}

// read calls found for those values of a shard that exist.
func (k *Keys) read(ctx context.Context, base string, shards int, keys []string, found shards.Found) error {
	return k.space.ReadMany(ctx, base, shards, base+":values", keys, found)
}

// GetMany returns those of the values that exist, by their keys. It reads all shards at the
// same time: first 10 values of each, and then as many as a mebibyte holds if they are as
// large as the largest so far, up to 100; so the values are not all of one moment. With an
// error it returns the values it got.
//
// Errors: those of Get, except [millrace.ErrNotFound].
func (k *Keys) GetMany(ctx context.Context, keys ...string) (map[string][]byte, error) {
	values := make(map[string][]byte, len(keys))
	var mu sync.Mutex
	err := k.space.AtMany(ctx, keys, false, func(p shards.Part) error {
		return k.read(ctx, p.Base, p.Shards, p.Keys, func(i int, value []byte, _ time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			values[p.Keys[i]] = value
		})
	})
	if len(values) > 0 {
		k.space.Enlist(ctx)
	}
	return values, err
}
