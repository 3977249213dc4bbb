package expiry

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/internal/test/scripttest"
)

// TestLostHashReplies loses the reply of each call after the server did the work.
// The library asks again, and the answer is the one that was lost.
func TestLostHashReplies(t *testing.T) {
	t.Parallel()
	proxy := redistest.NewProxy(t, redistest.Shared(t).Addr())
	h := openOn(t, proxy.Client(t), redistest.Name(t), Config{Shards: 1})
	ctx := t.Context()
	scripttest.Load(t, h.space.Run.Client, kind.Library)
	losing := func(what string, want any, call func() (any, error)) {
		t.Helper()
		matches := redistest.Script
		if what == "Get" {
			matches = redistest.Named("HGET")
		}
		fault := proxy.DropReply(matches)
		got, err := call()
		if diff := cmp.Diff(want, got); err != nil || diff != "" || fault.Count() != 1 {
			t.Errorf("%s whose reply was lost %d times: %v (-want +got):\n%s", what, fault.Count(), err, diff)
		}
	}
	put(t, h, inHash, "there", "1", 0)
	fields := map[string][]byte{"a": []byte("1"), "b": []byte("2"), "there": []byte("3")}
	losing("SetMany", true, func() (any, error) { return h.SetMany(ctx, inHash, fields, SetConfig{}) })
	losing("Set if none", true, func() (any, error) {
		return h.Set(ctx, inHash, "c", []byte("5"), SetConfig{IfNone: true, TTL: hashLong})
	})
	losing("Incr", int64(12), func() (any, error) { return h.Incr(ctx, inHash, "c", 7) })
	losing("Get", "12", func() (any, error) { v, _, err := h.Get(ctx, inHash, "c"); return string(v), err })
	losing("Persist", []Outcome{Applied, HasNoTTL, HasNoField}, func() (any, error) { return h.Expire(ctx, inHash, NoTTL, ExpireConfig{}, "c", "a", "x") })
	losing("Expire", []Outcome{Applied, HasNoField}, func() (any, error) {
		return h.Expire(ctx, inHash, hashLong, ifNoTTL, "c", "x")
	})
	losing("Expire at once", []Outcome{Removed}, func() (any, error) { return h.Expire(ctx, inHash, 0, ExpireConfig{}, "b") })
	losing("Delete", 1, func() (any, error) { return h.Remove(ctx, inHash, "a", "b") })
	expire(t, h, inHash, "c")
	losing("reap", millrace.Idle, func() (any, error) { // the second run finds nothing
		return h.space.Reap(ctx, baseOf(t, h, inHash), 1, "100", inHash)
	})
	if values, _ := stored(t, h, inHash); values != 1 {
		t.Errorf("%d values are stored, want the reaping done", values)
	}
	losing("RemoveHash", true, func() (any, error) { return h.RemoveHash(ctx, inHash) })

	put(t, h, inHash, "a", "1", 0)
	losing("GetAll", map[string]string{"a": "1"}, func() (any, error) { return all(t, h, inHash), nil })
}

// TestReapAgainstWrites has writers set fields anew at the moment in which they
// expire and are reaped. Values written without a deadline stay.
func TestReapAgainstWrites(t *testing.T) {
	t.Parallel()
	h := open(t, Config{Shards: 1})
	const writers, rounds = 8, 40
	ctx := t.Context()
	var running, reapers sync.WaitGroup
	var stop atomic.Bool
	for range 3 {
		reapers.Go(func() {
			for job := h.Jobs()[0]; !stop.Load(); {
				if _, err := job.Slice(ctx); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for w := range writers {
		running.Go(func() {
			for r := range rounds {
				field := fmt.Sprint("w", w, "-", r)
				if _, err := h.Set(ctx, inHash, field, []byte("short"), SetConfig{TTL: time.Millisecond}); err != nil {
					t.Error(err)
				}
				if _, err := h.Set(ctx, inHash, field, []byte("kept"), SetConfig{}); err != nil {
					t.Error(err)
				}
				if got := value(t, h, inHash, field); got != "kept" {
					t.Errorf("%s = %q right after it was written", field, got)
				}
			}
		})
	}
	running.Wait()
	stop.Store(true)
	reapers.Wait()
	if n := lenOf(t, h, inHash); n != writers*rounds {
		t.Errorf("%d fields, want %d: some that were written again were reaped", n, writers*rounds)
	}
	if values, deadlines := stored(t, h, inHash); values != writers*rounds || deadlines != 0 {
		t.Errorf("stored are %d values and %d deadlines", values, deadlines)
	}
}

// TestWorkOfACallIsBounded takes a hash of 100,000 fields through its life and
// checks how much each call changes.
func TestWorkOfACallIsBounded(t *testing.T) {
	t.Parallel()
	h := openOn(t, redistest.Start(t, redistest.Options{}).Client(t), "n", Config{Shards: 1})
	const n = 100_000
	ctx := t.Context()
	putMany(t, h, inHash, n, hashLong)
	_, err := h.GetAll(ctx, inHash)
	wantHashError(t, "GetAll", err, millrace.ErrTooLarge)
	if got := lenOf(t, h, inHash); got != n {
		t.Errorf("Len = %d, want %d", got, n)
	}

	base := baseOf(t, h, inHash)
	expire(t, h, inHash)
	if got := lenOf(t, h, inHash); got != 0 {
		t.Errorf("Len = %d, want none", got)
	}
	left := int64(n)
	change := func(what string, most int64, call func()) {
		t.Helper()
		call()
		values, _ := stored(t, h, inHash)
		if left-values > most {
			t.Errorf("%s removed %d fields, want at most %d", what, left-values, most)
		}
		left = values
	}
	change("Set", 10, func() { put(t, h, inHash, "new", "1", 0) })
	change("Incr", 10, func() { _, _ = h.Incr(ctx, inHash, "new", 1) })
	change("Expire", 10, func() { _, _ = h.Expire(ctx, inHash, hashLong, ExpireConfig{}, "new") })
	change("Persist", 10, func() { _, _ = h.Expire(ctx, inHash, NoTTL, ExpireConfig{}, "new") })
	change("Delete", 11, func() { _, _ = h.Remove(ctx, inHash, "new") })
	change("reap", reapBudget, func() { _, _ = h.Jobs()[0].Slice(ctx) })
	change("repair", 100, func() {
		if _, err := h.space.Ask(ctx, nil, "repair", base, 1, inHash, "places", "0"); err != nil {
			t.Error(err)
		}
	})
	put(t, h, inHash, "alive", "1", hashLong)
	if got := all(t, h, inHash); len(got) != 1 || got["alive"] != "1" {
		t.Errorf("GetAll = %v", got)
	}
	if was, err := h.RemoveHash(ctx, inHash); err != nil || !was {
		t.Errorf("RemoveHash = %v, %v", was, err)
	}
}

// TestGetAllOfTheMost brings 10,000 fields and refuses one more.
func TestGetAllOfTheMost(t *testing.T) {
	t.Parallel()
	h := open(t, Config{})
	putMany(t, h, inHash, maxAll, 0)
	if got := all(t, h, inHash); len(got) != maxAll {
		t.Errorf("GetAll = %d fields, want %d", len(got), maxAll)
	}
	put(t, h, inHash, "more", "1", hashLong)
	_, err := h.GetAll(t.Context(), inHash)
	wantHashError(t, "GetAll", err, millrace.ErrTooLarge)
	expire(t, h, inHash)
	if got := all(t, h, inHash); len(got) != maxAll {
		t.Errorf("GetAll = %d fields, want %d", len(got), maxAll)
	}
}

// TestHashesOutliveScriptFlush: no call fails.
func TestHashesOutliveScriptFlush(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t, redistest.Options{}).Client(t)
	h := openOn(t, client, "n", Config{})
	for i := range 20 {
		put(t, h, inHash, strconv.Itoa(i), "1", hashLong)
		must(t, client, "SCRIPT", "FLUSH")
		if n := len(all(t, h, inHash)); n != i+1 || lenOf(t, h, inHash) != n {
			t.Errorf("%d fields, want %d", n, i+1)
		}
	}
}

// TestCancelledHashCallsReturn pauses the server, so that only the context can end
// a call. The best of several tries must return within 50 ms of the cancel: a busy
// machine may delay some, but not all.
func TestCancelledHashCallsReturn(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	client := server.Client(t)
	h := openOn(t, client, "n", Config{})
	put(t, h, inHash, "a", "1", 0)
	server.Pause()
	defer server.Resume()
	for name, call := range map[string]func(context.Context) error{
		"Open": func(ctx context.Context) error {
			_, err := Open(ctx, client, "other", Config{})
			return err
		},
		"Set":    func(ctx context.Context) error { _, err := h.Set(ctx, inHash, "a", nil, SetConfig{}); return err },
		"Get":    func(ctx context.Context) error { _, _, err := h.Get(ctx, inHash, "a"); return err },
		"GetAll": func(ctx context.Context) error { _, err := h.GetAll(ctx, inHash); return err },
		"Scan": func(ctx context.Context) error {
			for _, err := range h.Scan(ctx, inHash) {
				return err
			}
			return nil
		},
		"Expire": func(ctx context.Context) error {
			_, err := h.Expire(ctx, inHash, hashLong, ExpireConfig{}, "a")
			return err
		},
		"Stats":  func(ctx context.Context) error { _, err := h.Stats(ctx); return err },
		"reap":   func(ctx context.Context) error { _, err := h.Jobs()[0].Slice(ctx); return err },
		"repair": func(ctx context.Context) error { _, err := Jobs(client)[0].Slice(ctx); return err },
	} {
		best := time.Hour
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			var cancelled time.Time
			time.AfterFunc(5*time.Millisecond, func() {
				cancelled = time.Now()
				cancel()
			})
			if err := call(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("%s = %v, want context.Canceled", name, err)
			}
			best = min(best, time.Since(cancelled))
			cancel()
		}
		if best > 50*time.Millisecond {
			t.Errorf("%s returns %v after the cancel, more than 50 ms", name, best)
		}
	}
}

// TestSeedDefects has the faults that the idea's first implementation has, by
// their place in its list. E6 to E9 are those of other packages: tracker and steal.
func TestSeedDefects(t *testing.T) {
	t.Parallel()
	t.Run("E1 only expired fields were read", func(t *testing.T) {
		t.Parallel()
		h := open(t, Config{})
		put(t, h, inHash, "with", "1", hashLong)
		put(t, h, inHash, "without", "2", 0)
		put(t, h, inHash, "expired", "3", hashLong)
		expire(t, h, inHash, "expired")
		if got := value(t, h, inHash, "with") + value(t, h, inHash, "without") + value(t, h, inHash, "expired"); got != "12-" {
			t.Errorf("values = %s, want 12-", got)
		}
	})
	t.Run("E2 the collector failed and took the page with it", func(t *testing.T) {
		t.Parallel()
		h := open(t, Config{Shards: 2})
		names := [2]string{}
		for i := 0; names[0] == "" || names[1] == ""; i++ {
			name := fmt.Sprint("h", i)
			names[int(crc32.ChecksumIEEE([]byte(name)))%2] = name
		}
		for _, name := range names {
			put(t, h, name, "a", "1", hashLong)
			expire(t, h, name)
		}
		must(t, h.space.Run.Client, "HSET", baseOf(t, h, names[0]), "version", "1")
		_, err := h.Jobs()[0].Slice(t.Context())
		wantHashError(t, "slice", err, millrace.ErrVersion)
		if values, _ := stored(t, h, names[1]); values != 0 {
			t.Error("a shard that fails keeps another from being reaped")
		}
	})
	t.Run("E3 one job a hash", func(t *testing.T) {
		t.Parallel()
		h := open(t, Config{})
		const hashes = 200
		for i := range hashes {
			put(t, h, strconv.Itoa(i), "a", "1", hashLong)
			expire(t, h, strconv.Itoa(i))
		}
		if _, err := h.Jobs()[0].Slice(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := hashStats(t, h); got.Reaped != hashes || got.Hashes != 0 {
			t.Errorf("stats after one slice = %+v, want %d hashes reaped", got, hashes)
		}
	})
	t.Run("E4 the clients' clocks", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t, redistest.Options{})
		h := openOn(t, server.Client(t), "n", Config{})
		put(t, h, inHash, "warm", "1", 0)
		const ttl = 300 * time.Millisecond
		server.Pause() // the request is longer on its way than the field lives
		timer := time.AfterFunc(2*ttl, server.Resume)
		defer timer.Stop()
		put(t, h, inHash, "a", "1", ttl)
		if left := ttlOf(t, h, inHash, "a"); left <= 0 {
			t.Error("the time was counted by the client")
		}
	})
	t.Run("E5 no hash tag", func(t *testing.T) {
		t.Parallel()
		h := openOn(t, redistest.Cluster(t, 3, 0).Client(t), "n", Config{})
		for _, name := range []string{"plain", "with:colons", "with spaces", "x", "ünï", "a*b"} {
			put(t, h, name, "a", "1", hashLong)
			put(t, h, name, "b", "2", hashLong)
			expire(t, h, name, "a")
			if got := all(t, h, name); len(got) != 1 || len(scanned(t, h, name)) != 1 || lenOf(t, h, name) != 1 {
				t.Errorf("fields of %q = %v", name, got)
			}
		}
		if got, err := h.Jobs()[0].Slice(t.Context()); err != nil || got != millrace.Worked {
			t.Errorf("reap = %v, %v", got, err)
		}
		names := map[string]bool{}
		for name, err := range h.Names(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			names[name] = true
		}
		if len(names) != 6 {
			t.Errorf("Names = %v, want 6", names)
		}
		repair := Jobs(h.space.Run.Client)[0]
		base := baseOf(t, h, "x")
		must(t, h.space.Run.Client, "HDEL", valuesKey(base, "x"), "b")
		redistest.Eventually(t, "a deadline without its field is removed", func() bool {
			if _, err := repair.Slice(t.Context()); err != nil {
				t.Fatal(err)
			}
			return integer(t, h.space.Run.Client, "EXISTS", deadlinesKey(base, "x")) == 0
		})
	})
}
