package expiry

import (
	"context"
	"errors"
	"maps"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/internal/test/shardstest"
)

const (
	// hashLong is a time that does not pass during a test.
	hashLong = time.Hour

	// inHash is the hash that most tests work on.
	inHash = "h"
)

// open returns a namespace of the test's own on the shared server.
func open(t *testing.T, cfg Config) *Hashes {
	t.Helper()
	return openOn(t, redistest.Shared(t).Client(t), redistest.Name(t), cfg)
}

func openOn(t *testing.T, client rueidis.Client, namespace string, cfg Config) *Hashes {
	t.Helper()
	h, err := Open(t.Context(), client, namespace, cfg)
	if err != nil {
		t.Fatal(err)
	}
	h.space.Idle = 0
	return h
}

// put sets a field that is to be set.
func put(t *testing.T, h *Hashes, hash, field, value string, ttl time.Duration) {
	t.Helper()
	if got, err := h.Set(t.Context(), hash, field, []byte(value), SetConfig{TTL: ttl}); err != nil || !got {
		t.Fatalf("Set of %q = %+v, %v", field, got, err)
	}
}

// putMany sets fields f0, f1, ... to their number.
func putMany(t *testing.T, h *Hashes, hash string, n int, ttl time.Duration) {
	t.Helper()
	for from := 0; from < n; from += maxFields {
		fields := make(map[string][]byte, maxFields)
		for i := from; i < min(n, from+maxFields); i++ {
			fields["f"+strconv.Itoa(i)] = []byte(strconv.Itoa(i))
		}
		if got, err := h.SetMany(t.Context(), hash, fields, SetConfig{TTL: ttl}); err != nil || !got {
			t.Fatalf("SetMany = %+v, %v", got, err)
		}
	}
}

// value returns the value of a field, "-" if there is none.
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
	ttls, err := timesLeft(t.Context(), h, hash, field)
	if err != nil {
		t.Fatal(err)
	}
	return ttls[0]
}

const noField time.Duration = -2 // the time left of a field that does not exist

// timesLeft returns the time left of each field.
func timesLeft(ctx context.Context, h *Hashes, hash string, fields ...string) ([]time.Duration, error) {
	found, err := h.GetMany(ctx, hash, fields...)
	left := make([]time.Duration, len(fields))
	for i, name := range fields {
		if field, ok := found[name]; ok {
			left[i] = field.TTL
		} else {
			left[i] = noField
		}
	}
	return left, err
}

func lenOf(t *testing.T, h *Hashes, hash string) int {
	t.Helper()
	n, err := h.Len(t.Context(), hash)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func hashStats(t *testing.T, h *Hashes) Stats {
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

// all returns the result of GetAll, as text.
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
	shards, err := h.space.Count(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	return h.space.Base(hash, shards)
}

// valuesKey is the hash that holds the values of a hash.
func valuesKey(base, name string) string { return base + ":h:" + name }

// deadlinesKey is the sorted set that holds the deadlines of its fields.
func deadlinesKey(base, name string) string { return base + ":t:" + name }

// recordOf is the record of a hash that is looked after at a Unix millisecond, or never.
func recordOf(at float64) string {
	return shardstest.HeadOf(time.UnixMilli(int64(min(at, 1<<48-1)))) + "4"
}

// expire ends the life of fields that have a deadline; of all if none is named.
// It does the work of the server's clock, without the wait.
func expire(t *testing.T, h *Hashes, hash string, fields ...string) {
	t.Helper()
	base := baseOf(t, h, hash)
	const script = `
local past = redis.call('TIME')[1] * 1000 - 1000
local name, places, expired = table.remove(ARGV, 1), ARGV, 0
if #places == 0 then places = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', '(+inf') end
local head, rest = '', past
for _ = 1, 6 do head, rest = string.char(rest % 256) .. head, math.floor(rest / 256) end
for _, p in ipairs(places) do
  if (redis.call('ZSCORE', KEYS[1], p) or 'inf') ~= 'inf' then
    redis.call('HSET', KEYS[3], p, '\250\2' .. head .. string.sub(redis.call('HGET', KEYS[3], p), 9))
    redis.call('ZADD', KEYS[1], past, p)
    expired = expired + 1
  end
end
if expired > 0 then
  redis.call('ZADD', KEYS[2], 'LT', past, name)
  redis.call('HSET', KEYS[3], '', '\250\2' .. head .. '4')
end
return expired`
	args := append([]string{"EVAL", script, "3", deadlinesKey(base, hash), base + ":due", valuesKey(base, hash), hash}, placesOf(fields)...)
	must(t, h.space.Run.Client, args...)
}

// These run commands past the library.
var do, must, integer, raw, clock, wantSlice = shardstest.Do, shardstest.Must, shardstest.Integer, shardstest.Raw, shardstest.Clock, shardstest.Slice

// listed returns the names of all namespaces.
func listed(t *testing.T, client rueidis.Client) []string {
	t.Helper()
	var names []string
	for name, err := range List(t.Context(), client) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	return names
}

// stored returns how many fields of a hash take memory, and how many deadlines.
func stored(t *testing.T, h *Hashes, hash string) (values, deadlines int64) {
	t.Helper()
	base, c := baseOf(t, h, hash), h.space.Run.Client
	values = integer(t, c, "HLEN", valuesKey(base, hash)) - integer(t, c, "HEXISTS", valuesKey(base, hash), "") // without the record
	return values, integer(t, c, "ZCOUNT", deadlinesKey(base, hash), "-inf", "(+inf")
}

// indexed returns the time at which the index looks after a hash, 0 for never.
func indexed(t *testing.T, h *Hashes, hash string) int64 {
	t.Helper()
	n, err := do(h.space.Run.Client, "ZSCORE", baseOf(t, h, hash)+":due", hash).AsFloat64()
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

// The conditions of an expire.
var always, ifNoTTL, ifTTL, ifLonger, ifShorter = ExpireConfig{}, ExpireConfig{IfNoTTL: true}, ExpireConfig{IfTTL: true}, ExpireConfig{IfLonger: true}, ExpireConfig{IfShorter: true}

// wantIs checks the result of a call.
func wantIs(t *testing.T, what string, got, want any, err error) {
	t.Helper()
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Fatalf("%s: %v (-want +got):\n%s", what, err, diff)
	}
}

// repairAll repairs all namespaces until nothing is wrong.
func repairAll(t *testing.T, client rueidis.Client) {
	t.Helper()
	job := Jobs(client)[0]
	idle := 0
	for slices := 0; idle < 50 && slices < 1000; slices++ {
		progress, err := job.Slice(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if idle++; progress != millrace.Idle {
			idle = 0
		}
	}
}
