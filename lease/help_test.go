package lease

import (
	"context"
	"errors"
	"hash/crc32"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/redis/registry"
	"github.com/millrace/millrace/internal/test/redistest"
)

const (
	// long is a time that does not pass during a test.
	long = time.Minute

	// short is a time that a test waits for.
	short = 100 * time.Millisecond
)

func open(t *testing.T, cfg Config) *Locker {
	t.Helper()
	return openOn(t, redistest.Shared(t).Client(t), cfg)
}

func openOn(t *testing.T, client rueidis.Client, cfg Config) *Locker {
	t.Helper()
	l, err := New(client, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// acquire takes a lease that must be free.
func acquire(t *testing.T, l *Locker, name string, ttl time.Duration) *Lease {
	t.Helper()
	return acquireWith(t, l, name, ttl, AcquireConfig{})
}

func acquireWith(t *testing.T, l *Locker, name string, ttl time.Duration, opts AcquireConfig) *Lease {
	t.Helper()
	lease, err := l.Acquire(t.Context(), name, ttl, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lease.cancel(nil) })
	return lease
}

func wantError(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error = %v, want %v", err, want)
	}
}

// wantEnd waits until a lease has ended and checks why.
func wantEnd(t *testing.T, lease *Lease, want error) {
	t.Helper()
	select {
	case <-lease.Context().Done():
		wantError(t, context.Cause(lease.Context()), want)
	case <-time.After(20 * time.Second):
		t.Fatal("the lease does not end")
	}
}

// do runs a command that the package itself has no use for.
func do(t *testing.T, client rueidis.Client, args ...string) rueidis.RedisResult {
	t.Helper()
	return client.Do(context.Background(), client.B().Arbitrary(args...).Build())
}

func must(t *testing.T, client rueidis.Client, args ...string) {
	t.Helper()
	if err := do(t, client, args...).Error(); err != nil {
		t.Fatal(err)
	}
}

// integer runs a command that answers with a number.
func integer(t *testing.T, client rueidis.Client, args ...string) int64 {
	t.Helper()
	n, err := do(t, client, args...).AsInt64()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func exists(t *testing.T, l *Locker, name string) bool {
	t.Helper()
	c := l.run.Client
	n, err := c.Do(t.Context(), c.B().Exists().Key(baseKey(name)).Build()).AsInt64()
	if err != nil {
		t.Fatal(err)
	}
	return n == 1
}

// fields are the words of a lease that numbers stand in, see docs/WIRE.md.
var fields = map[string]string{"fence": "^(3 )%d+( .*)", "deadline_ms": "^(3 %d+ )%d+( .*)"}

// set changes a number of a lease past the library.
func set(t *testing.T, l *Locker, name, field string, value int64) {
	t.Helper()
	const edit = `local v, n = string.gsub(redis.call('GET', KEYS[1]), ARGV[1], '%1' .. ARGV[2] .. '%2')
		redis.call('SET', KEYS[1], v, 'KEEPTTL')
		return n`
	if n := integer(t, l.run.Client, "EVAL", edit, "1", baseKey(name), fields[field], strconv.FormatInt(value, 10)); n != 1 {
		t.Fatalf("%s has no %s", name, field)
	}
}

// pass makes a lease's deadline pass on the server.
func pass(t *testing.T, l *Locker, name string) {
	t.Helper()
	set(t, l, name, "deadline_ms", time.Now().Add(-time.Millisecond).UnixMilli())
}

// abandon makes a lease's deadline pass so long ago that it may be reaped.
func abandon(t *testing.T, l *Locker, name string) {
	t.Helper()
	set(t, l, name, "deadline_ms", time.Now().Add(-time.Minute-time.Millisecond).UnixMilli())
	due(t, l, name)
}

// indexKey is the key of the shard of the index that has a lease.
func indexKey(name string) string {
	return registry.LeasesKey(int(crc32.ChecksumIEEE([]byte(name)) % registry.DueShards))
}

// due has a lease looked at by the next reaper.
func due(t *testing.T, l *Locker, name string) {
	t.Helper()
	registry.Settle(t.Context(), l.run.Client)
	must(t, l.run.Client, "ZADD", indexKey(name), "1", name)
}

// score returns when a lease is to be looked at, in milliseconds from now, and whether
// it is at all.
func score(t *testing.T, l *Locker, name string) (left time.Duration, ok bool) {
	t.Helper()
	registry.Settle(t.Context(), l.run.Client)
	ms, err := do(t, l.run.Client, "ZSCORE", indexKey(name), name).AsFloat64()
	if err != nil && !rueidis.IsRedisNil(err) {
		t.Fatal(err)
	}
	return time.Until(time.UnixMilli(int64(ms))), err == nil
}
