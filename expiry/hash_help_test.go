package expiry

import (
	"context"
	"errors"
	"maps"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redistest"
)

const (
	// hashLong is a time that does not pass during a test.
	hashLong = time.Hour

	// inHash is the hash that most tests work on.
	inHash = "h"
)

// openHashes returns a namespace of the test's own on the shared server.
func openHashes(t *testing.T, cfg HashesConfig) *Hashes {
	t.Helper()
	return openHashesOn(t, redistest.Shared(t).Client(t), redistest.Name(t), cfg)
}

func openHashesOn(t *testing.T, client rueidis.Client, namespace string, cfg HashesConfig) *Hashes {
	t.Helper()
	h, err := OpenHashes(t.Context(), client, namespace, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// put sets a field that is to be set.
func put(t *testing.T, h *Hashes, hash, field, value string, ttl time.Duration) {
	t.Helper()
	if got, err := h.Set(t.Context(), hash, field, []byte(value), SetConfig{TTL: ttl}); err != nil || !got.Set {
		t.Fatalf("Set of %q = %+v, %v", field, got, err)
	}
}

// putMany sets fields f0, f1, ... to their number.
func putMany(t *testing.T, h *Hashes, hash string, n int, ttl time.Duration) {
	t.Helper()
	for from := 0; from < n; from += MaxFields {
		fields := make(map[string][]byte, MaxFields)
		for i := from; i < min(n, from+MaxFields); i++ {
			fields["f"+strconv.Itoa(i)] = []byte(strconv.Itoa(i))
		}
		if got, err := h.SetMany(t.Context(), hash, fields, SetConfig{TTL: ttl}); err != nil || !got.Set {
			t.Fatalf("SetMany = %+v, %v", got, err)
		}
	}
}

// value returns what a field holds, and "-" for one that is not there.
func value(t *testing.T, h *Hashes, hash, field string) string {
	t.Helper()
	got, _, err := h.Get(t.Context(), hash, field)
	if errors.Is(err, millrace.ErrNotFound) {
		return "-"
	}
	if err != nil {
		t.Fatalf("Get of %q: %v", field, err)
	}
	return string(got)
}

func ttlOf(t *testing.T, h *Hashes, hash, field string) time.Duration {
	t.Helper()
	ttls, err := h.TTL(t.Context(), hash, field)
	if err != nil {
		t.Fatal(err)
	}
	return ttls[0]
}

func lenOf(t *testing.T, h *Hashes, hash string) int {
	t.Helper()
	n, err := h.Len(t.Context(), hash)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func hashStats(t *testing.T, h *Hashes) HashesStats {
	t.Helper()
	s, err := h.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// scanned returns all fields of a scan.
func scanned(t *testing.T, h *Hashes, hash string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for f, err := range h.Scan(t.Context(), hash) {
		if err != nil {
			t.Fatal(err)
		}
		all[f.Name] = string(f.Value)
	}
	return all
}

// all returns what GetAll brings, as text.
func all(t *testing.T, h *Hashes, hash string) map[string]string {
	t.Helper()
	got, err := h.GetAll(t.Context(), hash)
	if err != nil {
		t.Fatal(err)
	}
	text := map[string]string{}
	for field, v := range got {
		text[field] = string(v)
	}
	return text
}

// baseOf returns the base key of the shard of a hash, in a namespace that exists.
func baseOf(t *testing.T, h *Hashes, hash string) string {
	t.Helper()
	shards, err := h.space.count(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	return h.space.base(hash, shards)
}

// valuesKey is the hash that holds the values of a hash.
func valuesKey(base, name string) string { return base + ":h:" + name }

// deadlinesKey is the sorted set that holds the deadlines of its fields.
func deadlinesKey(base, name string) string { return base + ":t:" + name }

// expire lets the deadline of fields come, if they have one; of all if none is named.
// It is what the server's clock does, without the wait.
func expire(t *testing.T, h *Hashes, hash string, fields ...string) {
	t.Helper()
	base := baseOf(t, h, hash)
	const script = `
local past = redis.call('TIME')[1] * 1000 - 1000
local name, places, expired = table.remove(ARGV, 1), {}, 0
local function place(field) return (string.byte(field) or 0) == 0 and '\0' .. field or field end
for i, f in ipairs(ARGV) do places[i] = place(f) end
if #places == 0 then places = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', '(+inf') end
local head, rest = '', past
for _ = 1, 6 do head, rest = string.char(rest % 256) .. head, math.floor(rest / 256) end
for _, p in ipairs(places) do
  local f = string.byte(p) == 0 and string.sub(p, 2) or p
  if (redis.call('ZSCORE', KEYS[1], p) or 'inf') ~= 'inf' then
    redis.call('HSET', KEYS[3], f, '\250\2' .. head .. string.sub(redis.call('HGET', KEYS[3], f), 9))
    redis.call('ZADD', KEYS[1], past, p)
    expired = expired + 1
  end
end
if expired > 0 then redis.call('ZADD', KEYS[2], 'LT', past, name) end
return expired`
	args := append([]string{"EVAL", script, "3", deadlinesKey(base, hash), base + ":due", valuesKey(base, hash), hash}, fields...)
	must(t, h.space.run.Client, args...)
}

// setDeadline writes a deadline in front of a value, and nowhere else.
func setDeadline(t *testing.T, h *Hashes, hash, field string, at time.Time) {
	t.Helper()
	client, key := h.space.run.Client, valuesKey(baseOf(t, h, hash), hash)
	must(t, client, "HSET", key, field, headOf(at)+keyRaw(t, client, "HGET", key, field)[headSize:])
}

// do runs a command past the library.
func do(client rueidis.Client, args ...string) rueidis.RedisResult {
	return client.Do(context.Background(), client.B().Arbitrary(args...).Build())
}

func must(t *testing.T, client rueidis.Client, args ...string) {
	t.Helper()
	if err := do(client, args...).Error(); err != nil && !rueidis.IsRedisNil(err) {
		t.Fatalf("%q: %v", args[0], err)
	}
}

// integer runs a command that answers with a number.
func integer(t *testing.T, client rueidis.Client, args ...string) int64 {
	t.Helper()
	n, err := do(client, args...).AsInt64()
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return n
}

// stored returns how many fields of a hash take memory, and how many deadlines.
func stored(t *testing.T, h *Hashes, hash string) (values, deadlines int64) {
	t.Helper()
	base, c := baseOf(t, h, hash), h.space.run.Client
	return integer(t, c, "HLEN", valuesKey(base, hash)), integer(t, c, "ZCOUNT", deadlinesKey(base, hash), "-inf", "(+inf")
}

// indexed returns the time at which the index looks after a hash, 0 for never.
func indexed(t *testing.T, h *Hashes, hash string) int64 {
	t.Helper()
	n, err := do(h.space.run.Client, "ZSCORE", baseOf(t, h, hash)+":due", hash).AsFloat64()
	if err != nil && !rueidis.IsRedisNil(err) {
		t.Fatal(err)
	}
	if math.IsInf(n, 1) {
		return 0
	}
	return int64(n)
}

func wantHashError(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s = %v, want %v", what, err, want)
	}
}

func text(fields map[string]string) map[string][]byte {
	all := make(map[string][]byte, len(fields))
	for f, v := range maps.All(fields) {
		all[f] = []byte(v)
	}
	return all
}

// clock returns the server's time.
func clock(t *testing.T, client rueidis.Client) time.Time {
	t.Helper()
	parts, err := client.Do(t.Context(), client.B().Time().Build()).AsIntSlice()
	if err != nil {
		t.Fatal(err)
	}
	return time.Unix(parts[0], parts[1]*1000)
}
