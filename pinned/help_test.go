package pinned

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/internal/test/shardstest"
)

// keyLong outlives every test.
const keyLong = time.Hour

func openOn(t *testing.T, client rueidis.Client, namespace string, cfg Config) *Keys {
	t.Helper()
	k, err := Open(t.Context(), client, namespace, cfg)
	if err != nil {
		t.Fatal(err)
	}
	k.space.Idle = 0
	return k
}

// open returns a namespace of the test's own on the shared server.
func open(t *testing.T, cfg Config) *Keys {
	t.Helper()
	return openOn(t, redistest.Shared(t).Client(t), redistest.Name(t), cfg)
}

func setKey(t *testing.T, k *Keys, key, value string, ttl time.Duration) {
	t.Helper()
	if ok, err := k.Set(t.Context(), key, []byte(value), ttl, SetConfig{}); err != nil || !ok {
		t.Fatalf("Set of %q = %v, %v", key, ok, err)
	}
}

// getKey returns a value, "" when it is not there.
func getKey(t *testing.T, k *Keys, key string) string {
	t.Helper()
	value, _, err := k.Get(t.Context(), key)
	if err != nil && !errors.Is(err, millrace.ErrNotFound) {
		t.Fatalf("Get of %q: %v", key, err)
	}
	return string(value)
}

// wantKey checks the result of a call.
func wantKey(t *testing.T, what string, got, want any, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

func wantKeyError(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("%s = %v, want %v", what, err, want)
	}
}

// keyRaw runs a command past the library and returns a number or a text.
var keyRaw, headOf, storedDeadline, clock, wantSlice = shardstest.Raw, shardstest.HeadOf, shardstest.DeadlineOf, shardstest.Clock, shardstest.Slice

const headSize = shardstest.HeadSize

// lenOf returns how many values there are.
func lenOf(t *testing.T, k *Keys) (int, error) {
	t.Helper()
	s, err := k.Stats(t.Context())
	return s.Keys, err
}

// ttlOf returns the time that is left of a value.
func ttlOf(ctx context.Context, k *Keys, key string) (time.Duration, error) {
	_, ttl, err := k.Get(ctx, key)
	return ttl, err
}

// keyBase returns the base key of a key's shard.
func keyBase(t *testing.T, k *Keys, key string) string {
	t.Helper()
	shards, err := k.space.Count(t.Context(), true)
	if err != nil {
		t.Fatalf("shard of %q: %v", key, err)
	}
	return k.space.Base(key, shards)
}

// keysOfShard are all keys of the shard of values with that base key.
func keysOfShard(base string) []string {
	return []string{base, shardValues(base), dueKey(base), base + ":lanes:0", base + ":lanes:1"}
}

// shardValues is the hash that holds the values of a shard.
func shardValues(base string) string { return base + ":values" }

// dueKey is the index of a shard.
func dueKey(base string) string { return base + ":due" }

// keyOver moves a value's deadline into the past, in the value and in the index.
func keyOver(t *testing.T, k *Keys, key string) {
	t.Helper()
	keyDeadline(t, k, key, time.Now().Add(-time.Millisecond))
	keyIndex(t, k, key, time.Now().Add(-time.Millisecond))
}

// keyDeadline writes the deadline into a value.
func keyDeadline(t *testing.T, k *Keys, key string, at time.Time) {
	t.Helper()
	client, values := k.space.Run.Client, shardValues(keyBase(t, k, key))
	keyRaw(t, client, "HSET", values, key, headOf(at)+keyRaw(t, client, "HGET", values, key)[headSize:])
}

// keyIndex writes a time into the index.
func keyIndex(t *testing.T, k *Keys, key string, at time.Time) {
	t.Helper()
	keyRaw(t, k.space.Run.Client, "ZADD", dueKey(keyBase(t, k, key)), strconv.FormatInt(at.UnixMilli(), 10), key)
}

// keyStored reports whether a value takes memory.
func keyStored(t *testing.T, k *Keys, key string) bool {
	t.Helper()
	return keyRaw(t, k.space.Run.Client, "HEXISTS", shardValues(keyBase(t, k, key)), key) == "1"
}

func keyStats(t *testing.T, k *Keys) Stats {
	t.Helper()
	s, err := k.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := s.Name, k.Name(); got != want {
		t.Errorf("the Stats are those of %q, want %q", got, want)
	}
	s.Name = "" // which is another one in each test
	return s
}

// namesOf returns the names of the values.
func namesOf(t *testing.T, k *Keys) (names []string) {
	t.Helper()
	for name, err := range k.Names(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	return names
}
