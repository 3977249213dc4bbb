package conformance

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/lease"
)

var leaseBehaviours = []behaviour{
	{"one holder until the release", leaseOneHolder},
	{"many contenders go one by one", leaseContenders},
	{"it is taken over at the deadline", leaseTakeOver},
	{"a refresh keeps it", leaseRefresh},
	{"the watchdog keeps it", leaseWatchdog},
	{"a lost one ends its context", leaseLost},
	{"a token hands it on", leaseToken},
	{"a release wakes one who waits", leaseReleaseWakes},
	{"do holds while it runs", leaseDo},
	{"work is done once in a period", leaseOnce},
	{"abandoned ones are reaped on all masters", leaseReap},
	{"a storm leaves one holder", leaseStorm},
}

// long is a time that does not pass during a test.
const long = time.Minute

func openLocker(t *testing.T, client rueidis.Client, hooks ...millrace.Hook) *lease.Locker {
	t.Helper()
	l, err := lease.New(client, lease.Config{Hooks: hooks})
	must(t, "lease.New", err)
	return l
}

// acquire takes a lease and releases it when the test ends.
func acquire(t *testing.T, l *lease.Locker, name string, ttl time.Duration, opts lease.AcquireConfig) *lease.Lease {
	t.Helper()
	held, err := l.Acquire(t.Context(), name, ttl, opts)
	must(t, "Acquire", err)
	t.Cleanup(func() { _ = held.Release(context.Background()) })
	return held
}

func wantError(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s = %v, want %v", what, err, want)
	}
}

// wantEnd waits until a lease has ended and checks why.
func wantEnd(t *testing.T, held *lease.Lease, want error) {
	t.Helper()
	redistest.Eventually(t, "the context of the lease ends", func() bool { return held.Context().Err() != nil })
	wantError(t, "cause of the end", context.Cause(held.Context()), want)
}

// wantLater checks that a fence is larger than the one before.
func wantLater(t *testing.T, next, before *lease.Lease) {
	t.Helper()
	if next.Fence <= before.Fence {
		t.Errorf("fence = %d after %d, want a larger one", next.Fence, before.Fence)
	}
}

func leaseOneHolder(t *testing.T, on running) {
	l, other := openLocker(t, on.client(t)), openLocker(t, on.client(t))
	for _, name := range spread(t, on, 1) {
		first := acquire(t, l, name, long, lease.AcquireConfig{Metadata: "host a"})
		_, err := other.Acquire(t.Context(), name, long, lease.AcquireConfig{})
		wantError(t, "Acquire of a held lease", err, lease.ErrHeld)
		held, ok := lease.Holder(err)
		if !ok || held.Name != name || held.Metadata != "host a" || held.Fence != first.Fence || held.Remaining <= 0 || held.Remaining > long {
			t.Errorf("error = %+v, want one that tells of the holder", held)
		}
		info, err := other.Show(t.Context(), name)
		if err != nil || !info.Held || info.Token != first.Token || info.Fence != first.Fence || info.Metadata != "host a" {
			t.Errorf("Show = %+v, %v, want the holder", info, err)
		}
		for range 2 {
			must(t, "Release", first.Release(t.Context()))
		}
		wantEnd(t, first, context.Canceled)
		info, err = other.Show(t.Context(), name)
		want(t, "Show of a free lease", info, lease.Info{Name: name, Fence: first.Fence}, err)
		wantLater(t, acquire(t, other, name, long, lease.AcquireConfig{}), first)
	}
}

func leaseOnce(t *testing.T, on running) {
	replicas := []*lease.Locker{openLocker(t, on.client(t)), openLocker(t, on.client(t))}
	failed := errors.New("failed")
	for _, name := range spread(t, on, 1) {
		for i, c := range []struct {
			result error
			ran    bool
		}{{failed, true}, {nil, true}, {failed, false}, {failed, false}} {
			ran, err := replicas[i%2].Once(t.Context(), name, long, lease.Every(24*time.Hour), func(context.Context, int64) error { return c.result })
			if ran != c.ran || ran && !errors.Is(err, c.result) || !ran && err != nil {
				t.Errorf("call %d of Once = %v, %v, want %v", i+1, ran, err, c.ran)
			}
		}
		info, err := replicas[0].Show(t.Context(), name)
		must(t, "Show", err)
		must(t, "Release of what is done", replicas[1].Release(t.Context(), name, info.Token))
	}
}

func leaseContenders(t *testing.T, on running) {
	const contenders, rounds = 6, 3
	lockers := []*lease.Locker{openLocker(t, on.client(t)), openLocker(t, on.client(t))}
	name := redistest.Name(t)
	var inside atomic.Int64
	var last int64 // guarded by the lease, as is runs: the race detector watches
	var runs int
	var all sync.WaitGroup
	for i := range contenders {
		all.Go(func() {
			for range rounds {
				_, err := lockers[i%2].Do(t.Context(), name, long, lease.AcquireConfig{Wait: -1}, func(_ context.Context, fence int64) error {
					if n := inside.Add(1); n != 1 {
						t.Errorf("%d holders at once", n)
					}
					if fence <= last {
						t.Errorf("fence %d after %d", fence, last)
					}
					last = fence
					runs++
					inside.Add(-1)
					return nil
				})
				if err != nil {
					t.Errorf("Do = %v", err)
				}
			}
		})
	}
	all.Wait()
	want(t, "runs", runs, contenders*rounds, nil)
}

func leaseTakeOver(t *testing.T, on running) {
	l, other := openLocker(t, on.client(t)), openLocker(t, on.client(t))
	name := redistest.Name(t)
	stale := acquire(t, l, name, 700*time.Millisecond, lease.AcquireConfig{})
	var next *lease.Lease
	redistest.Eventually(t, "the lease is free", func() bool {
		var err error
		next, err = other.Acquire(t.Context(), name, long, lease.AcquireConfig{})
		return err == nil
	})
	if !time.Now().After(stale.Deadline()) {
		t.Error("taken over before the holder's deadline")
	}
	wantLater(t, next, stale)
	wantEnd(t, stale, lease.ErrExpired)
	_, err := l.Refresh(t.Context(), name, stale.Token, long)
	wantError(t, "Refresh by token", err, lease.ErrLost)
	wantError(t, "Release", stale.Release(t.Context()), lease.ErrLost)
	info, err := other.Show(t.Context(), name)
	if err != nil || info.Token != next.Token {
		t.Errorf("Show = %+v, %v, want the new holder untouched", info, err)
	}
}

func leaseRefresh(t *testing.T, on running) {
	l := openLocker(t, on.client(t))
	held := acquire(t, l, redistest.Name(t), long, lease.AcquireConfig{})
	before := held.Deadline()
	must(t, "Refresh", held.Refresh(t.Context(), 3*long))
	later := held.Deadline()
	if !later.After(before.Add(long)) {
		t.Errorf("deadline moved by %v, want two minutes", later.Sub(before))
	}
	must(t, "Refresh for less", held.Refresh(t.Context(), long))
	if held.Deadline().Before(later) {
		t.Error("a refresh for less moved the deadline nearer")
	}
	info, err := l.Show(t.Context(), held.Name)
	if err != nil || info.Remaining <= 2*long {
		t.Errorf("Show = %+v, %v, want it refreshed", info, err)
	}
}

func leaseWatchdog(t *testing.T, on running) {
	l := openLocker(t, on.client(t))
	held := acquire(t, l, redistest.Name(t), 1500*time.Millisecond, lease.AcquireConfig{MaxHold: long})
	first := held.Deadline()
	redistest.Eventually(t, "the lease is renewed", func() bool { return held.Deadline().After(first) })
	must(t, "the lease", held.Context().Err())
}

// leaseLost has another client release the lease by its token.
func leaseLost(t *testing.T, on running) {
	l, other := openLocker(t, on.client(t)), openLocker(t, on.client(t))
	held := acquire(t, l, redistest.Name(t), long, lease.AcquireConfig{})
	must(t, "Release by token", other.Release(t.Context(), held.Name, held.Token))
	wantError(t, "Refresh", held.Refresh(t.Context(), long), lease.ErrLost)
	wantEnd(t, held, lease.ErrLost)
	wantLater(t, acquire(t, other, held.Name, long, lease.AcquireConfig{}), held)
}

func leaseToken(t *testing.T, on running) {
	l, other := openLocker(t, on.client(t)), openLocker(t, on.client(t))
	name := redistest.Name(t)
	one := acquire(t, l, name, long, lease.AcquireConfig{Token: "mine"})
	two := acquire(t, other, name, 2*long, lease.AcquireConfig{Token: "mine"})
	want(t, "fence of who adopts it", two.Fence, one.Fence, nil)
	info, err := other.Refresh(t.Context(), name, "mine", 2*long)
	if err != nil || info.Remaining <= long || info.Remaining > 2*long {
		t.Errorf("Refresh by token = %+v, %v, want two minutes", info, err)
	}
	wantError(t, "Release by another token", other.Release(t.Context(), name, "other"), lease.ErrLost)
	must(t, "Release by token", other.Release(t.Context(), name, "mine"))
	wantError(t, "Refresh after that", one.Refresh(t.Context(), long), lease.ErrLost)
}

// leaseReleaseWakes releases a lease for which a caller has just begun to wait.
// A caller that is not woken looks after a second, so the quickest of several
// waits decides.
func leaseReleaseWakes(t *testing.T, on running) {
	seen := &calls{}
	l, waiter := openLocker(t, on.client(t)), openLocker(t, on.client(t), seen)
	name := redistest.Name(t)
	quickest := time.Hour
	for range 5 {
		held := acquire(t, l, name, long, lease.AcquireConfig{})
		asked := seen.of("lease.acquire")
		woken := make(chan *lease.Lease, 1)
		go func() {
			next, err := waiter.Acquire(t.Context(), name, long, lease.AcquireConfig{Wait: -1})
			if err != nil {
				t.Errorf("Acquire: %v", err)
			}
			woken <- next
		}()
		redistest.Eventually(t, "the waiter has asked", func() bool { return seen.of("lease.acquire") > asked })
		released := time.Now()
		must(t, "Release", held.Release(t.Context()))
		next := <-woken
		quickest = min(quickest, time.Since(released))
		if next == nil {
			return
		}
		must(t, "Release", next.Release(t.Context()))
		if quickest < 250*time.Millisecond {
			return
		}
	}
	t.Errorf("the quickest waiter had the lease after %v: it looked and was not woken", quickest)
}

func leaseDo(t *testing.T, on running) {
	l, other := openLocker(t, on.client(t)), openLocker(t, on.client(t))
	name := redistest.Name(t)
	odd := errors.New("odd")
	_, err := l.Do(t.Context(), name, long, lease.AcquireConfig{}, func(ctx context.Context, fence int64) error {
		info, err := l.Show(ctx, name)
		if err != nil || !info.Held || info.Fence != fence {
			t.Errorf("Show = %+v, %v, want it held with fence %d", info, err, fence)
		}
		return odd
	})
	wantError(t, "Do", err, odd)
	info, err := l.Show(t.Context(), name)
	if err != nil || info.Held {
		t.Errorf("Show after Do = %+v, %v, want it free", info, err)
	}
	_, err = l.Do(t.Context(), name, 300*time.Millisecond, lease.AcquireConfig{}, func(ctx context.Context, _ int64) error {
		if info, err := other.Show(ctx, name); err == nil {
			_ = other.Release(ctx, name, info.Token) // behind its back
		}
		<-ctx.Done()
		return nil
	})
	wantError(t, "Do whose lease was lost", err, lease.ErrLost)
}

// setLeaseBack sets a lease's deadline back, as docs/WIRE.md has it, and returns 1.
const setLeaseBack = `local v, n = string.gsub(redis.call('GET', KEYS[1]), '^(3 %d+ )%d+', '%10000000000001')
	redis.call('SET', KEYS[1], v, 'KEEPTTL')
	return n`

// leaseReap abandons leases by setting their deadlines back, as docs/WIRE.md has
// them.
func leaseReap(t *testing.T, on running) {
	client := on.client(t)
	l := openLocker(t, client)
	key := func(name string) string { return "mr:lease:{" + name + "}" }
	exists := func(name string) bool {
		n, err := client.Do(t.Context(), client.B().Exists().Key(key(name)).Build()).AsInt64()
		must(t, "EXISTS", err)
		return n == 1
	}
	abandoned, kept := spread(t, on, 3), spread(t, on, 1)
	for _, name := range append(abandoned, kept...) {
		_, err := l.Acquire(t.Context(), name, long, lease.AcquireConfig{})
		must(t, "Acquire", err)
	}
	redistest.Eventually(t, "all are in the index", func() bool {
		listed := 0
		for _, err := range lease.List(t.Context(), client) {
			must(t, "List", err)
			listed++
		}
		return listed >= len(abandoned)+len(kept)
	})
	for _, name := range abandoned {
		index := fmt.Sprintf("mr:leases:{%d}", crc32.ChecksumIEEE([]byte(name))%64)
		must(t, "ZADD", client.Do(t.Context(), client.B().Zadd().Key(index).ScoreMember().ScoreMember(1, name).Build()).Error())
		must(t, "EVAL", client.Do(t.Context(), client.B().Eval().Script(setLeaseBack).Numkeys(1).Key(key(name)).Build()).Error())
	}
	job := lease.Jobs(client)[0]
	redistest.Eventually(t, "the abandoned leases are reaped", func() bool {
		_, err := job.Slice(t.Context())
		must(t, "Slice", err)
		return !slices.ContainsFunc(abandoned, exists)
	})
	for _, name := range kept {
		if !exists(name) {
			t.Error("a lease that is held was reaped")
		}
	}
}
