package expiry

import (
	"encoding/binary"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redistest"
)

// keyLong outlives every test.
const keyLong = time.Hour

func openKeysOn(t *testing.T, client rueidis.Client, namespace string, cfg KeysConfig) *Keys {
	t.Helper()
	k, err := OpenKeys(t.Context(), client, namespace, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// openKeys returns a namespace of the test's own on the shared server.
func openKeys(t *testing.T, cfg KeysConfig) *Keys {
	t.Helper()
	return openKeysOn(t, redistest.Shared(t).Client(t), redistest.Name(t), cfg)
}

func setKey(t *testing.T, k *Keys, key, value string, ttl time.Duration) {
	t.Helper()
	if ok, err := k.Set(t.Context(), key, []byte(value), ttl, SetKeyConfig{}); err != nil || !ok {
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

// wantKey checks what a call answers.
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
func keyRaw(t *testing.T, client rueidis.Client, args ...string) string {
	t.Helper()
	reply, err := client.Do(t.Context(), client.B().Arbitrary(args...).Build()).ToMessage()
	if rueidis.IsRedisNil(err) {
		return ""
	}
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	if n, err := reply.AsInt64(); err == nil && reply.IsInt64() {
		return strconv.FormatInt(n, 10)
	}
	text, err := reply.ToString()
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return text
}

// keyBase returns the base key of a key's shard.
func keyBase(t *testing.T, k *Keys, key string) string {
	t.Helper()
	shards, err := k.space.count(t.Context(), true)
	if err != nil {
		t.Fatalf("shard of %q: %v", key, err)
	}
	return k.space.base(key, shards)
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
	client, values := k.space.run.Client, shardValues(keyBase(t, k, key))
	keyRaw(t, client, "HSET", values, key, headOf(at)+keyRaw(t, client, "HGET", values, key)[headSize:])
}

// headOf returns what stands in front of a value with that deadline.
func headOf(at time.Time) string {
	head := binary.BigEndian.AppendUint64(nil, uint64(at.UnixMilli()))
	head[0], head[1] = mark, version
	return string(head)
}

// storedDeadline reads the deadline out of what is stored for a value.
func storedDeadline(stored string) time.Time {
	return time.UnixMilli(int64(binary.BigEndian.Uint64([]byte("\x00\x00" + stored[2:headSize]))))
}

// keyIndex writes a time into the index.
func keyIndex(t *testing.T, k *Keys, key string, at time.Time) {
	t.Helper()
	keyRaw(t, k.space.run.Client, "ZADD", dueKey(keyBase(t, k, key)), strconv.FormatInt(at.UnixMilli(), 10), key)
}

// keyStored reports whether a value takes memory.
func keyStored(t *testing.T, k *Keys, key string) bool {
	t.Helper()
	return keyRaw(t, k.space.run.Client, "HEXISTS", shardValues(keyBase(t, k, key)), key) == "1"
}

// wantSlice runs a slice of a job.
func wantSlice(t *testing.T, job millrace.Job, want millrace.Progress) {
	t.Helper()
	got, err := job.Slice(t.Context())
	if err != nil || got != want {
		t.Fatalf("a slice of %s = %v, %v, want %v", job.Name, got, err, want)
	}
}

func keyStats(t *testing.T, k *Keys) KeysStats {
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
