package pinned

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/shards"
	"github.com/millrace/millrace/internal/test/redistest"
)

// TestKeyLife follows a value from nothing to nothing.
func TestKeyLife(t *testing.T) {
	t.Parallel()
	k := open(t, Config{})
	ctx := t.Context()
	if _, _, err := k.Get(ctx, "a"); err != nil {
		wantKeyError(t, "Get of nothing", err, millrace.ErrNotFound)
	}
	setKey(t, k, "a", "one", keyLong)
	value, ttl, err := k.Get(ctx, "a")
	wantKey(t, "Get", string(value), "one", err)
	if ttl <= keyLong-time.Minute || ttl > keyLong {
		t.Errorf("ttl = %v, want %v", ttl, keyLong)
	}
	setKey(t, k, "a", "", 2*keyLong)
	value, ttl, err = k.Get(ctx, "a")
	wantKey(t, "Get of an empty value", string(value), "", err)
	if ttl <= keyLong {
		t.Errorf("ttl = %v, want more than %v", ttl, keyLong)
	}
	ok, err := k.Expire(ctx, "a", time.Minute)
	wantKey(t, "Expire", ok, true, err)
	ttl, err = ttlOf(ctx, k, "a")
	wantKey(t, "TTL is near", ttl <= time.Minute && ttl > 0, true, err)
	ok, err = k.Expire(ctx, "a", keyLong)
	wantKey(t, "Expire", ok, true, err)
	ttl, err = ttlOf(ctx, k, "a")
	wantKey(t, "TTL is far", ttl > time.Minute, true, err)
	n, err := k.Remove(ctx, "a", "b", "a")
	wantKey(t, "Delete", n, 1, err)
	_, err = ttlOf(ctx, k, "a")
	wantKeyError(t, "TTL of nothing", err, millrace.ErrNotFound)
	ok, err = k.Expire(ctx, "a", keyLong)
	wantKey(t, "Expire of nothing", ok, false, err)
	if got, want := keyStats(t, k), (Stats{Shards: shards.Default, Set: 2, Deleted: 1}); got != want {
		t.Errorf("Stats = %+v, want %+v", got, want)
	}
}

// TestKeyIsGoneAtItsTime waits for a deadline by the server's clock.
func TestKeyIsGoneAtItsTime(t *testing.T) {
	t.Parallel()
	k := open(t, Config{Shards: 1})
	const ttl = 100 * time.Millisecond
	before := time.Now()
	setKey(t, k, "a", "x", ttl)
	setKey(t, k, "b", "x", keyLong)
	redistest.Eventually(t, "the value is gone", func() bool { return getKey(t, k, "a") == "" })
	if lived := time.Since(before); lived < ttl {
		t.Errorf("the value lived %v, want %v", lived, ttl)
	}
	_, err := ttlOf(t.Context(), k, "a")
	wantKeyError(t, "TTL", err, millrace.ErrNotFound)
	ok, err := k.Expire(t.Context(), "a", keyLong)
	wantKey(t, "Expire of what is over", ok, false, err)
	n, err := lenOf(t, k)
	wantKey(t, "Len", n, 1, err)
	s := keyStats(t, k)
	if s.Overdue != 1 || s.OldestOverdue < 0 || s.OldestOverdue > time.Minute || !keyStored(t, k, "a") {
		t.Errorf("Stats = %+v, want one overdue value", s)
	}
	n, err = k.Remove(t.Context(), "a")
	wantKey(t, "Delete of what is over", n, 0, err)
	wantKey(t, "stored", keyStored(t, k, "a"), false, nil)
}

func TestKeyConditions(t *testing.T) {
	t.Parallel()
	k := open(t, Config{})
	for _, step := range []struct {
		value string
		cfg   SetConfig
		want  bool
		left  string
	}{
		{"1", SetConfig{IfExist: true}, false, ""},
		{"2", SetConfig{IfNone: true}, true, "2"},
		{"3", SetConfig{IfNone: true}, false, "2"},
		{"4", SetConfig{IfExist: true}, true, "4"},
		{"5", SetConfig{}, true, "5"},
	} {
		ok, err := k.Set(t.Context(), "a", []byte(step.value), keyLong, step.cfg)
		wantKey(t, "Set of "+step.value, ok, step.want, err)
		wantKey(t, "the value after "+step.value, getKey(t, k, "a"), step.left, nil)
	}
	keyOver(t, k, "a")
	ok, err := k.Set(t.Context(), "a", nil, keyLong, SetConfig{IfExist: true})
	wantKey(t, "Set of what is over", ok, false, err)
	ok, err = k.Set(t.Context(), "a", []byte("6"), keyLong, SetConfig{IfNone: true})
	wantKey(t, "Set where one is over", ok, true, err)
}

// TestKeyBytes: a value is any bytes, and as long as Redis takes.
func TestKeyBytes(t *testing.T) {
	t.Parallel()
	k := open(t, Config{})
	for _, value := range []string{"", " ", "\x00\r\n\xff", "12345 67", strings.Repeat("x", 1<<20)} {
		setKey(t, k, "a", value, keyLong)
		if got := getKey(t, k, "a"); got != value {
			t.Errorf("a value of %d bytes came back as %d others", len(value), len(got))
		}
	}
}

// TestKeyReadsCreateNothing: a namespace begins with the first Set.
func TestKeyReadsCreateNothing(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t, redistest.Options{}).Client(t)
	k := openOn(t, client, "n", Config{})
	ctx := t.Context()
	_, _, err := k.Get(ctx, "a")
	wantKeyError(t, "Get", err, millrace.ErrNotFound)
	_, err = ttlOf(ctx, k, "a")
	wantKeyError(t, "TTL", err, millrace.ErrNotFound)
	many, err := k.GetMany(ctx, "a", "b")
	wantKey(t, "GetMany", len(many), 0, err)
	n, err := k.Remove(ctx, "a", "b")
	wantKey(t, "Delete", n, 0, err)
	ok, err := k.Expire(ctx, "a", keyLong)
	wantKey(t, "Expire", ok, false, err)
	n, err = lenOf(t, k)
	wantKey(t, "Len", n, 0, err)
	wantKey(t, "Stats", keyStats(t, k), Stats{}, nil)
	wantSlice(t, k.Jobs()[0], millrace.Idle)
	wantSlice(t, Jobs(client)[0], millrace.Idle)
	for name, err := range List(ctx, client) {
		t.Errorf("List has %q, %v", name, err)
	}
	wantKey(t, "keys", keyRaw(t, client, "DBSIZE"), "0", nil)

	setKey(t, k, "a", "x", keyLong)
	listed := 0
	for name, err := range List(ctx, client) {
		wantKey(t, "List", name, "n", err)
		listed++
	}
	wantKey(t, "namespaces", listed, 1, nil)
	_, err = ttlOf(ctx, k, "b")
	wantKeyError(t, "TTL", err, millrace.ErrNotFound)
	ok, err = k.Expire(ctx, "b", keyLong)
	wantKey(t, "Expire", ok, false, err)
	ok, err = k.Set(ctx, "b", nil, keyLong, SetConfig{IfExist: true})
	wantKey(t, "Set", ok, false, err)
	if got, want := keyRaw(t, client, "DBSIZE"), "7"; got != want { // the record, its entry in the registry, and those of one shard
		t.Errorf("%s keys for one value, want %s", got, want)
	}
}

// TestKeysOfManyShards counts, reads, reaps and deletes over all shards.
func TestKeysOfManyShards(t *testing.T) {
	t.Parallel()
	k := open(t, Config{Shards: 3})
	const n = 700 // more than 100 for each shard
	names := make([]string, n)
	want := map[string][]byte{}
	for i := range names {
		names[i] = "key " + strconv.Itoa(i)
		want[names[i]] = []byte(strconv.Itoa(i))
		setKey(t, k, names[i], strconv.Itoa(i), keyLong)
	}
	count, err := lenOf(t, k)
	wantKey(t, "Len", count, n, err)
	got, err := k.GetMany(t.Context(), append([]string{"none", names[0]}, names...)...)
	wantKey(t, "GetMany", got, want, err)

	other := openOn(t, k.space.Run.Client, k.space.Name, Config{Shards: 7}) // the stored number holds
	wantKey(t, "shards", keyStats(t, other).Shards, 3, nil)
	wantKey(t, "a value as another process reads it", getKey(t, other, names[5]), "5", nil)

	for _, name := range names[:n/2] {
		keyOver(t, k, name)
	}
	s := keyStats(t, k)
	wantKey(t, "alive and overdue", [2]int{s.Keys, s.Overdue}, [2]int{n / 2, n / 2}, nil)
	wantSlice(t, k.Jobs()[0], millrace.More)
	wantSlice(t, k.Jobs()[0], millrace.Worked)
	wantSlice(t, k.Jobs()[0], millrace.Idle)
	s = keyStats(t, k)
	wantKey(t, "after reaping", s, Stats{Shards: 3, Keys: n / 2, Set: n, Reaped: n / 2}, nil)
	deleted, err := k.Remove(t.Context(), names...)
	wantKey(t, "Delete", deleted, n/2, err)
	count, err = lenOf(t, k)
	wantKey(t, "Len", count, 0, err)
}

// TestKeyWritesReap: the writes of a program without a recruiter remove its expired values.
func TestKeyWritesReap(t *testing.T) {
	t.Parallel()
	k := open(t, Config{Shards: 1})
	const n = 20
	for i := range n {
		setKey(t, k, fmt.Sprint("over", i), "x", keyLong)
		keyOver(t, k, fmt.Sprint("over", i))
	}
	for i := range n {
		setKey(t, k, fmt.Sprint("alive", i), "x", keyLong)
		if _, err := k.Expire(t.Context(), "alive0", keyLong); err != nil {
			t.Fatal(err)
		}
	}
	if s := keyStats(t, k); s.Overdue != 0 || s.Keys != n || s.Reaped != n {
		t.Errorf("Stats = %+v, want %d alive and none overdue", s, n)
	}
}

func TestKeyArguments(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	ctx := t.Context()
	_, err := Open(ctx, client, "a{b", Config{})
	wantKeyError(t, "Open", err, millrace.ErrBadName)
	for _, n := range []int{-1, 257} {
		_, err = Open(ctx, client, "n", Config{Shards: n})
		wantKeyError(t, "Open", err, millrace.ErrBadArgument)
	}
	k := open(t, Config{Shards: 256})
	for _, ttl := range []time.Duration{-time.Second, 0, time.Millisecond - 1} {
		_, err = k.Set(ctx, "a", nil, ttl, SetConfig{})
		wantKeyError(t, "Set", err, millrace.ErrBadArgument)
		_, err = k.Expire(ctx, "a", ttl)
		wantKeyError(t, "Expire", err, millrace.ErrBadArgument)
	}
	_, err = k.Set(ctx, "a", nil, keyLong, SetConfig{IfNone: true, IfExist: true})
	wantKeyError(t, "Set", err, millrace.ErrBadArgument)
	for _, name := range []string{"", "a\nb", "}", strings.Repeat("n", 513)} {
		_, err = k.Set(ctx, name, nil, keyLong, SetConfig{})
		wantKeyError(t, "Set", err, millrace.ErrBadName)
		_, _, err = k.Get(ctx, name)
		wantKeyError(t, "Get", err, millrace.ErrBadName)
		_, err = k.GetMany(ctx, "a", name)
		wantKeyError(t, "GetMany", err, millrace.ErrBadName)
		_, err = ttlOf(ctx, k, name)
		wantKeyError(t, "TTL", err, millrace.ErrBadName)
		_, err = k.Expire(ctx, name, keyLong)
		wantKeyError(t, "Expire", err, millrace.ErrBadName)
		_, err = k.Remove(ctx, "a", name)
		wantKeyError(t, "Delete", err, millrace.ErrBadName)
	}
	const longest = time.Duration(1<<63 - 1)
	setKey(t, k, "a", "x", longest)
	ttl, err := ttlOf(ctx, k, "a")
	wantKey(t, "the longest ttl", ttl > longest-time.Minute, true, err)
	for d, want := range map[time.Duration]string{time.Millisecond: "1", time.Millisecond + 1: "2", longest: "9223372036855"} {
		if got := shards.CeilMillis(d); got != want {
			t.Errorf("CeilMillis(%v) = %s, want %s", d, got, want)
		}
	}
}

// enlisted counts the moments that were offered.
type enlisted struct{ n atomic.Int64 }

func (e *enlisted) Enlist(context.Context) { e.n.Add(1) }

// TestKeyHitsEnlist: a hit is a moment for upkeep, a miss is not, and a batch is
// one moment.
func TestKeyHitsEnlist(t *testing.T) {
	t.Parallel()
	e := &enlisted{}
	k := open(t, Config{Enlister: e})
	setKey(t, k, "a", "x", keyLong)
	setKey(t, k, "b", "x", keyLong)
	for _, step := range []struct {
		what string
		call func() error
		want int64
	}{
		{"a miss", func() error { getKey(t, k, "none"); return nil }, 0},
		{"a hit", func() error { getKey(t, k, "a"); return nil }, 1},
		{"a batch", func() error { _, err := k.GetMany(t.Context(), "a", "b", "none"); return err }, 2},
		{"a batch without a hit", func() error { _, err := k.GetMany(t.Context(), "none", "nil"); return err }, 2},
	} {
		if err := step.call(); err != nil {
			t.Fatal(err)
		}
		if got := e.n.Load(); got != step.want {
			t.Errorf("after %s, enlisted %d times, want %d", step.what, got, step.want)
		}
	}
}

// TestKeysOnACluster runs values through their life on several masters.
func TestKeysOnACluster(t *testing.T) {
	t.Parallel()
	client := redistest.Cluster(t, 3, 0).Client(t)
	k := openOn(t, client, "n:s p ü*", Config{})
	names := []string{"plain", "with:colons", "with spaces", ":v:", "ünï", "a*b", "a/b", "due"}
	for _, name := range names {
		setKey(t, k, name, name, keyLong)
	}
	many, err := k.GetMany(t.Context(), names...)
	wantKey(t, "GetMany", len(many), len(names), err)
	for _, name := range names {
		keyOver(t, k, name)
	}
	wantSlice(t, k.Jobs()[0], millrace.Worked)
	for _, name := range names {
		wantKey(t, "stored", keyStored(t, k, name), false, nil)
		setKey(t, k, name, name, keyLong)
	}
	n, err := k.Remove(t.Context(), names...)
	wantKey(t, "Delete", n, len(names), err)
}
