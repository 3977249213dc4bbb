package conformance

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fetch"
	"github.com/millrace/millrace/internal/test/redistest"
)

var fetchBehaviours = []behaviour{
	{"many callers everywhere, one computation", fetchOnce},
	{"an old value is given while a new one is computed", fetchStale},
	{"that there is none is remembered, errors are not", fetchNone},
	{"what is forgotten is computed again", fetchForget},
	{"values whose time is over are reaped", fetchReap},
}

func openCache(t *testing.T, client rueidis.Client, name string, cfg fetch.Config) *fetch.Cache {
	t.Helper()
	c, err := fetch.Open(t.Context(), client, name, cfg)
	must(t, "fetch.Open", err)
	return c
}

// caches returns two that share their values, as two processes have them.
func caches(t *testing.T, on running, cfg fetch.Config) [2]*fetch.Cache {
	t.Helper()
	name := redistest.Name(t)
	return [2]*fetch.Cache{openCache(t, on.client(t), name, cfg), openCache(t, on.client(t), name, cfg)}
}

// says is a load that returns a value.
func says(value string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return value, nil }
}

// wantFetch checks the result of a call and its outcome.
func wantFetch(t *testing.T, c *fetch.Cache, key string, load func(context.Context) (string, error), value string, outcome fetch.Outcome) {
	t.Helper()
	got, r, err := fetch.Get(t.Context(), c, key, load)
	want(t, "Get "+key, got, value, err)
	want(t, "outcome of Get "+key, string(r.Outcome), string(outcome), nil)
}

// fetchOnce lets a computation end when all callers have found that there is no
// value, and the other process has asked for the lease.
func fetchOnce(t *testing.T, on running) {
	const callers = 10
	seen := &calls{}
	both := caches(t, on, fetch.Config{Hooks: []millrace.Hook{seen}})
	wantFetch(t, both[0], "first", says("1"), "1", fetch.Miss)
	wantFetch(t, both[1], "first", says("2"), "1", fetch.Hit) // from here on, both look
	for i := range 2 * on.homes() {
		key, value := fmt.Sprint("key", i), fmt.Sprint("value", i)
		looks, asked := seen.of("pinned.get"), seen.of("lease.acquire")
		var loads atomic.Int32
		load := func(context.Context) (string, error) {
			loads.Add(1)
			redistest.Eventually(t, "all callers wait", func() bool {
				return seen.of("pinned.get") >= looks+callers && seen.of("lease.acquire") >= asked+len(both)
			})
			return value, nil
		}
		var all sync.WaitGroup
		for j := range callers {
			all.Go(func() {
				if got, _, err := fetch.Get(t.Context(), both[j%2], key, load); err != nil || got != value {
					t.Errorf("Fetch = %q, %v, want %q", got, err, value)
				}
			})
		}
		all.Wait()
		want(t, "computations", loads.Load(), int32(1), nil)
		wantFetch(t, both[1], key, says("another"), value, fetch.Hit)
	}
}

// fetchStale computes a value whose time is over at once, and has one caller
// compute another while one asks elsewhere.
func fetchStale(t *testing.T, on running) {
	both := caches(t, on, fetch.Config{TTL: time.Millisecond, Stale: long})
	wantFetch(t, both[0], "key", says("one"), "one", fetch.Miss)
	computing, release := make(chan struct{}), make(chan struct{})
	type result struct {
		Value   string
		Outcome fetch.Outcome
	}
	done := make(chan result, 1)
	go func() {
		load := func(context.Context) (string, error) {
			close(computing)
			<-release
			return "two", nil
		}
		for {
			value, r, err := fetch.Get(t.Context(), both[0], "key", load)
			if err != nil || r.Outcome != fetch.Hit { // a hit is too early: the value is not old yet
				done <- result{value, r.Outcome}
				return
			}
		}
	}()
	select {
	case <-computing:
	case r := <-done:
		t.Fatalf("Get = %+v without a computation", r)
	}
	value, r, err := fetch.Get(t.Context(), both[1], "key", says("three"))
	close(release)
	want(t, "Get of an old value", value, "one", err)
	want(t, "its outcome", string(r.Outcome), string(fetch.Stale), nil)
	if r.Age <= 0 {
		t.Errorf("age of an old value = %v", r.Age)
	}
	want(t, "what was computed meanwhile", <-done, result{"two", fetch.Miss}, nil)
}

func fetchNone(t *testing.T, on running) {
	both := caches(t, on, fetch.Config{Negative: long, Errors: -1})
	odd := errors.New("odd")
	for _, failure := range []error{odd, millrace.ErrNotFound} {
		_, _, err := fetch.Get(t.Context(), both[0], "key", func(context.Context) (string, error) { return "", failure })
		wantError(t, "Get whose load fails", err, failure)
	}
	_, r, err := fetch.Get(t.Context(), both[1], "key", says("value"))
	wantError(t, "Get of what there is not", err, millrace.ErrNotFound)
	want(t, "its outcome", string(r.Outcome), string(fetch.Negative), nil)
}

func fetchForget(t *testing.T, on running) {
	both := caches(t, on, fetch.Config{})
	wantFetch(t, both[0], "key", says("one"), "one", fetch.Miss)
	must(t, "Forget", both[1].Forget(t.Context(), "key"))
	wantFetch(t, both[0], "key", says("two"), "two", fetch.Miss)
	// A computation that was under way when its value was forgotten is not kept.
	must(t, "Forget", both[1].Forget(t.Context(), "key"))
	wantFetch(t, both[0], "key", func(ctx context.Context) (string, error) {
		return "old", both[1].Forget(ctx, "key")
	}, "old", fetch.Miss)
	wantFetch(t, both[1], "key", says("three"), "three", fetch.Miss)
}

func fetchReap(t *testing.T, on running) {
	both := caches(t, on, fetch.Config{TTL: brief})
	for i := range 50 {
		key := fmt.Sprint("key", i)
		wantFetch(t, both[0], key, says(key), key, fetch.Miss)
	}
	runUntil(t, both[1].Jobs()[0], "no value is stored", func() bool {
		return valuesStored(t, on, "fetch/"+both[0].Name()) == 0
	})
}
