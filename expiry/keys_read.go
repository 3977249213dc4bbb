package expiry

import (
	"context"
	"sync"
	"time"
)

// Get returns a value and for how long it still lives. The ttl is that of the
// moment in which the server read it.
//
// Errors: [millrace.ErrNotFound]; [millrace.ErrBadName], before Redis was asked; millrace.ErrBroken,
// millrace.ErrVersion.
func (k *Keys) Get(ctx context.Context, key string) (value []byte, ttl time.Duration, err error) {
	value, ttl, err = k.find(ctx, key)
	if err == nil {
		k.enlist(ctx)
	}
	return value, ttl, err
}

func (k *Keys) find(ctx context.Context, key string) (value []byte, ttl time.Duration, err error) {
	if err := checkName("key", key); err != nil {
		return nil, 0, err
	}
	err = k.space.at(ctx, false, key, func(base string, shards int) error {
		return k.read(ctx, base, shards, []string{key}, func(_ int, v Value) { value, ttl = v.Value, v.TTL })
	})
	if err == nil && value == nil {
		err = errNotFound
	}
	return value, ttl, err
}

// read tells of those values of a shard that are there.
func (k *Keys) read(ctx context.Context, base string, shards int, keys []string, found func(i int, v Value)) error {
	return k.space.readMany(ctx, "expiry.key_get", base, shards, base+":values", keys, found)
}

// TTL returns for how long a value still lives. It costs as much as Get, but is no hit.
// Errors are those of Get.
func (k *Keys) TTL(ctx context.Context, key string) (time.Duration, error) {
	_, ttl, err := k.find(ctx, key)
	return ttl, err
}

// GetMany returns those of the values that are there, by their keys. Each shard is read at
// the same time as the others, first 10 values, and then as many as a mebibyte holds if
// they are as large as the largest so far, up to 100; so the values are not all of one
// moment. With an error it returns what it got.
//
// Errors: those of Get, but for millrace.ErrNotFound.
func (k *Keys) GetMany(ctx context.Context, keys ...string) (map[string][]byte, error) {
	values := make(map[string][]byte, len(keys))
	var mu sync.Mutex
	err := k.inParts(ctx, keys, false, func(p part) error {
		return k.read(ctx, p.base, p.shards, p.keys, func(i int, v Value) {
			mu.Lock()
			defer mu.Unlock()
			values[p.keys[i]] = v.Value
		})
	})
	if len(values) > 0 {
		k.enlist(ctx)
	}
	return values, err
}
