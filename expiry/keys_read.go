package expiry

import (
	"context"
	"encoding/binary"
	"math"
	"sync"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/script"
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
	reply, err := k.space.read(ctx, "key_get", key, key)
	if err != nil {
		return nil, 0, err
	}
	if reply == nil {
		return nil, 0, errNotFound
	}
	value, ttl, err = readStored(reply, reply.Int(), key)
	if err == nil && ttl == 0 {
		err = errNotFound
	}
	return value, ttl, err
}

// TTL returns for how long a value still lives. It costs as much as Get, but is no hit.
// Errors are those of Get.
func (k *Keys) TTL(ctx context.Context, key string) (time.Duration, error) {
	_, ttl, err := k.find(ctx, key)
	return ttl, err
}

// GetMany returns those of the values that are there, by their keys. Each shard is
// read by a call of its own for every 100 keys, and for about every mebibyte of values,
// at the same time as the others, so the values are not all of one moment. With an error
// it returns what it got.
//
// Errors: those of Get, but for millrace.ErrNotFound.
func (k *Keys) GetMany(ctx context.Context, keys ...string) (map[string][]byte, error) {
	values := make(map[string][]byte, len(keys))
	var mu sync.Mutex
	err := k.inParts(ctx, keys, false, func(p part) error {
		for len(p.keys) > 0 {
			reply, err := k.space.ask(ctx, nil, "key_get", p.base, p.shards, p.keys...)
			if err != nil {
				return err
			}
			now, read := reply.Int(), 0
			for ; read < len(p.keys) && (read == 0 || reply.More()); read++ {
				value, ttl, err := readStored(reply, now, p.keys[read])
				if err != nil {
					return err
				}
				if ttl > 0 {
					mu.Lock()
					values[p.keys[read]] = value
					mu.Unlock()
				}
			}
			p.keys = p.keys[read:]
		}
		return nil
	})
	if len(values) > 0 {
		k.enlist(ctx)
	}
	return values, err
}

const (
	// headSize is how many bytes stand in front of a value: a mark, the version, and the
	// deadline, six bytes with the most significant first.
	headSize = 8

	mark, version = 250, 2
)

// readStored reads a value as it is stored, by the server's clock in microseconds. The ttl
// is 0 if there is none, or its time is over.
func readStored(r *script.Reply, now int64, key string) (value []byte, ttl time.Duration, err error) {
	stored, ok := r.Maybe()
	if !ok || r.Err() != nil {
		return nil, 0, r.Err()
	}
	if len(stored) < headSize || stored[0] != mark || stored[1] != version {
		return nil, 0, millrace.ErrBroken.Saying("what is stored for %q is no value of version %d", key, version)
	}
	whole := []byte(stored)
	deadline := int64(binary.BigEndian.Uint64(whole) & (1<<48 - 1))
	if deadline*1000 <= now {
		return nil, 0, nil
	}
	return whole[headSize:], max(time.Millisecond, lifetime(deadline-(now+999)/1000)), nil
}

// lifetime is a time in milliseconds, or the longest that there is.
func lifetime(ms int64) time.Duration {
	if ms > math.MaxInt64/int64(time.Millisecond) {
		return math.MaxInt64
	}
	return time.Duration(ms) * time.Millisecond
}
