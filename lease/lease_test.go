package lease

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/names"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/steal"
)

func TestLife(t *testing.T) {
	t.Parallel()
	idle := &moments{}
	l := open(t, Config{Enlister: idle})
	name := redistest.Name(t)
	ctx := t.Context()
	before := time.Now()
	first := acquireWith(t, l, name, long, AcquireConfig{Metadata: "host a"})
	if d := first.Deadline(); d.After(before.Add(long)) || d.Before(before.Add(long-time.Second)) {
		t.Errorf("Deadline = %v after the call, want a little less than a minute", d.Sub(before))
	}
	if first.Fence <= 0 || first.Fence >= 1<<53 || len(first.Token) != 32 || first.Name != name {
		t.Errorf("lease = %d %q %q, want a fence below 2^53 and a token of 128 bits", first.Fence, first.Token, first.Name)
	}
	if ttl := integer(t, l.run.Client, "PTTL", baseKey(name)); ttl != -1 {
		t.Errorf("PTTL of a held lease = %d, want none", ttl)
	}

	_, err := l.Acquire(ctx, name, long, AcquireConfig{})
	wantError(t, err, ErrHeld)
	held, ok := Holder(err)
	if !ok || held.Metadata != "host a" || held.Fence != first.Fence || held.Remaining <= 0 || held.Remaining > long || held.Name != name {
		t.Errorf("error = %+v, want one that tells of the holder", held)
	}
	if got := idle.n.Load(); got != 1 {
		t.Errorf("enlisted %d times, want once for the held answer", got)
	}
	info, err := l.Show(ctx, name)
	if err != nil || !info.Held || info.Token != first.Token || info.Fence != first.Fence || info.Metadata != "host a" || info.Remaining <= 0 {
		t.Errorf("Show = %+v, %v", info, err)
	}

	if err := first.Refresh(ctx, 2*long); err != nil || !first.Deadline().After(before.Add(long)) {
		t.Errorf("Refresh = %v, deadline %v, want it later", err, first.Deadline())
	}
	later := first.Deadline()
	if err := first.Refresh(ctx, time.Second); err != nil || first.Deadline().Before(later) {
		t.Errorf("Refresh for less = %v, deadline %v, want %v still", err, first.Deadline(), later)
	}
	for range 2 {
		if err := first.Release(ctx); err != nil {
			t.Errorf("Release = %v", err)
		}
	}
	wantEnd(t, first, context.Canceled)
	wantError(t, first.Refresh(ctx, long), ErrLost)
	if info, err := l.Show(ctx, name); err != nil || info.Held || info.Fence != first.Fence || info.Token != "" {
		t.Errorf("Show after the release = %+v, %v, want only the fence", info, err)
	}
	if ttl := integer(t, l.run.Client, "PTTL", baseKey(name)); ttl <= 0 || ttl > time.Minute.Milliseconds() {
		t.Errorf("PTTL of a released lease = %d, want a minute at most", ttl)
	}
	second := acquire(t, l, name, long)
	if second.Fence <= first.Fence {
		t.Errorf("fence = %d after %d, want a larger one", second.Fence, first.Fence)
	}
}

// moments counts enlistments.
type moments struct{ n atomic.Int64 }

func (m *moments) Enlist(context.Context) { m.n.Add(1) }

func TestArguments(t *testing.T) {
	t.Parallel()
	l := open(t, Config{})
	name := redistest.Name(t)
	for _, opts := range []AcquireConfig{{MaxHold: -1}, {Metadata: string(make([]byte, 4097))}, {Token: string(make([]byte, 65))}} {
		_, err := l.Acquire(t.Context(), name, long, opts)
		wantError(t, err, millrace.ErrBadArgument)
	}
	for _, ttl := range []time.Duration{-1, 0, names.MinLeaseTTL - 1, names.MaxLeaseTTL + 1} {
		_, err := l.Acquire(t.Context(), name, ttl, AcquireConfig{})
		wantError(t, err, millrace.ErrBadArgument)
		_, err = l.Refresh(t.Context(), name, "t", ttl)
		wantError(t, err, millrace.ErrBadArgument)
	}
	wantError(t, l.Release(t.Context(), name, ""), millrace.ErrBadArgument)
	for _, ttl := range []time.Duration{names.MinLeaseTTL, names.MaxLeaseTTL} {
		_, err := l.Refresh(t.Context(), name, "t", ttl)
		wantError(t, err, ErrLost) // and so the arguments are valid
	}
	if _, err := New(nil, Config{MaxHold: -1}); !errors.Is(err, millrace.ErrBadArgument) {
		t.Errorf("New = %v, want millrace.ErrBadArgument", err)
	}
	if exists(t, l, name) {
		t.Error("refused calls left a key")
	}
}

// TestOneHolderAtATime lets many goroutines of two clients read and write a
// counter under a lease.
func TestOneHolderAtATime(t *testing.T) {
	t.Parallel()
	name := redistest.Name(t)
	lockers := []*Locker{open(t, Config{}), open(t, Config{})}
	var inside, total atomic.Int64
	var last int64 // guarded by the lease: the race detector watches
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			for range 5 {
				_, err := lockers[i%2].Do(t.Context(), name, 10*time.Second, AcquireConfig{Wait: -1}, func(_ context.Context, fence int64) error {
					if n := inside.Add(1); n != 1 {
						t.Errorf("%d holders at once", n)
					}
					if fence <= last {
						t.Errorf("fence %d after %d", fence, last)
					}
					last = fence
					total.Add(1)
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
	if got, want := total.Load(), int64(80); got != want {
		t.Errorf("runs = %d, want %d", got, want)
	}
}

// TestTakeOver waits for the deadline of a holder that does nothing any more.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	l := open(t, Config{})
	name := redistest.Name(t)
	stale := acquire(t, l, name, short)
	began := time.Now()
	next := acquireWith(t, l, name, long, AcquireConfig{Wait: 10 * time.Second})
	if !time.Now().After(stale.Deadline()) {
		t.Error("taken over before the holder's deadline")
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("taken over after %v, want soon after the deadline", took)
	}
	wantEnd(t, stale, ErrExpired)
	if next.Fence <= stale.Fence {
		t.Errorf("fence = %d after %d, want a larger one", next.Fence, stale.Fence)
	}
	wantError(t, stale.Refresh(t.Context(), long), ErrLost)
	wantError(t, stale.Release(t.Context()), ErrLost)
	_, err := l.Refresh(t.Context(), name, stale.Token, long)
	wantError(t, err, ErrLost)
	wantError(t, l.Release(t.Context(), name, stale.Token), ErrLost)
	if info, err := l.Show(t.Context(), name); err != nil || info.Token != next.Token {
		t.Errorf("Show = %+v, %v, want the new holder untouched", info, err)
	}
}

// TestServerDeadline compares the deadline in all replies with the number in Redis.
func TestServerDeadline(t *testing.T) {
	t.Parallel()
	l := open(t, Config{})
	name := redistest.Name(t)
	stored := func() time.Time {
		text, err := do(t, l.run.Client, "GET", baseKey(name)).ToString()
		if err != nil {
			t.Fatal(err)
		}
		ms, err := strconv.ParseInt(strings.Split(text, " ")[2], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return time.UnixMilli(ms)
	}
	shown := func() time.Time {
		t.Helper()
		info, err := l.Show(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		return info.Deadline
	}
	check := func(what string, deadlines ...time.Time) {
		t.Helper()
		for _, got := range deadlines {
			if want := stored(); !got.Equal(want) {
				t.Errorf("deadline %s = %v, want %v", what, got, want)
			}
		}
	}
	lease := acquireWith(t, l, name, long, AcquireConfig{Token: "mine"})
	adopted := acquireWith(t, l, name, 2*long, AcquireConfig{Token: "mine"})
	check("when acquired", lease.Until, adopted.Until, shown())
	first := stored()
	if !lease.Deadline().Before(first) {
		t.Errorf("Deadline = %v, want it before the server's, %v", lease.Deadline(), first)
	}
	if err := lease.Refresh(t.Context(), 2*long); err != nil {
		t.Fatal(err)
	}
	check("when refreshed", shown())
	if got := stored(); !got.After(first) {
		t.Errorf("deadline when refreshed = %v, want it after %v", got, first)
	}
	info, err := l.Refresh(t.Context(), name, "mine", 3*long)
	if err != nil {
		t.Fatal(err)
	}
	check("when refreshed by the token", info.Deadline, shown())
	if err := lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := shown(); !got.IsZero() {
		t.Errorf("deadline of a free lease = %v, want none", got)
	}
}

// TestExpiredIsLost: a lease that expired is lost even if no other holder took it.
func TestExpiredIsLost(t *testing.T) {
	t.Parallel()
	l := open(t, Config{})
	name := redistest.Name(t)
	lease := acquire(t, l, name, long)
	pass(t, l, name)
	wantError(t, lease.Refresh(t.Context(), long), ErrLost)
	wantEnd(t, lease, ErrLost)
	wantError(t, lease.Release(t.Context()), ErrLost)
	gone := acquire(t, l, name, long)
	must(t, l.run.Client, "DEL", baseKey(name))
	wantError(t, gone.Refresh(t.Context(), long), ErrLost)
	if exists(t, l, name) {
		t.Error("a refresh created the lease")
	}
}

func TestWaiting(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	l := openOn(t, server.Client(t), Config{})
	name := redistest.Name(t)
	holder := acquire(t, l, name, long)
	await := func() { // until a waiter is registered
		t.Helper()
		redistest.Eventually(t, "one waits", func() bool {
			text, err := do(t, l.run.Client, "GET", baseKey(name)).ToString()
			return err == nil && strings.HasSuffix(text, ";")
		})
	}

	ctx, cancel := context.WithCancelCause(t.Context())
	ended := errors.New("ended")
	refused := make(chan error, 1)
	go func() {
		_, err := l.Acquire(ctx, name, long, AcquireConfig{Wait: -1})
		refused <- err
	}()
	await()
	blocks := func() bool { return server.Info("clients")["blocked_clients"] == "1" }
	redistest.Eventually(t, "it was told who holds the lease, and blocks", blocks)
	cancel(ended)
	err := <-refused
	wantError(t, err, ended)
	wantError(t, err, ErrHeld)
	_, err = l.Acquire(t.Context(), name, long, AcquireConfig{Wait: 20 * time.Millisecond})
	wantError(t, err, ErrHeld)
	redistest.Eventually(t, "no client blocks", func() bool { return server.Info("clients")["blocked_clients"] == "0" })

	got := make(chan *Lease, 1)
	go func() {
		lease, err := l.Acquire(t.Context(), name, long, AcquireConfig{Wait: -1})
		if err != nil {
			t.Errorf("Acquire = %v", err)
		}
		got <- lease
	}()
	redistest.Eventually(t, "it blocks", blocks)
	released := time.Now()
	if err := holder.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if lease := <-got; lease != nil && lease.Release(t.Context()) != nil {
		t.Error("the next holder cannot release")
	}
	if took := time.Since(released); took > 900*time.Millisecond {
		t.Errorf("the next holder came after %v: it polled and was not woken", took)
	}
}

// TestAdopt: the same token is the same acquisition.
func TestAdopt(t *testing.T) {
	t.Parallel()
	l := open(t, Config{})
	name := redistest.Name(t)
	one := acquireWith(t, l, name, long, AcquireConfig{Token: "mine"})
	two := acquireWith(t, l, name, 2*long, AcquireConfig{Token: "mine"})
	if one.Fence != two.Fence || two.Deadline().After(time.Now().Add(long)) {
		t.Errorf("adopted fence %d, deadline in %v; want fence %d and the first deadline", two.Fence, time.Until(two.Deadline()), one.Fence)
	}
	if info, err := l.Refresh(t.Context(), name, "mine", 2*long); err != nil || info.Remaining <= long || info.Remaining > 2*long ||
		info.Token != "mine" || info.Fence != one.Fence {
		t.Errorf("Refresh by token = %+v, %v", info, err)
	}
	if err := l.Release(t.Context(), name, "mine"); err != nil {
		t.Errorf("Release by token = %v", err)
	}
	wantError(t, l.Release(t.Context(), name, "other"), ErrLost)
}

// TestWatchdog: a lease outlives its TTL while it is renewed, and not the cap.
func TestWatchdog(t *testing.T) {
	t.Parallel()
	l := open(t, Config{})
	name := redistest.Name(t)
	const ttl, most = 300 * time.Millisecond, 900 * time.Millisecond
	began := time.Now()
	lease := acquireWith(t, l, name, ttl, AcquireConfig{MaxHold: most})
	wantEnd(t, lease, ErrExpired)
	if held := time.Since(began); held < 2*ttl || held > most+ttl {
		t.Errorf("held for %v, want about the cap of %v", held, most)
	}
	lease.renews.Wait()

	lost := acquireWith(t, l, name, ttl, AcquireConfig{Wait: -1, MaxHold: long})
	must(t, l.run.Client, "DEL", baseKey(name))
	wantEnd(t, lost, ErrLost)
	lost.renews.Wait()
}

// TestContextOfAcquireIsNotTheLease: the context bounds the acquiring. A
// caller that wants it to end the holding as well uses Do.
func TestContextOfAcquireIsNotTheLease(t *testing.T) {
	t.Parallel()
	l := open(t, Config{})
	name := redistest.Name(t)
	const ttl = 300 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	lease, err := l.Acquire(ctx, name, ttl, AcquireConfig{MaxHold: long})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	before := lease.Deadline()
	redistest.Eventually(t, "the lease is renewed", func() bool { return lease.Deadline().After(before) })
	if err := lease.Context().Err(); err != nil {
		t.Errorf("the lease ended with the context of its acquire: %v", err)
	}
	if err := lease.Release(ctx); err != nil {
		t.Errorf("Release = %v", err)
	}
}

// TestJobUnderALease has several processes recruit for a job that must be alone.
// Those that miss the lease report an idle slice and do not wait. Without a
// lease all of them would do the same slice at once (W10 in docs/DEFECTS.md).
func TestJobUnderALease(t *testing.T) {
	t.Parallel()
	name := redistest.Name(t)
	var inside, worked, missed atomic.Int64
	var once sync.Once
	first := make(chan struct{}) // closed when the first one has missed it
	var processes sync.WaitGroup
	for range 4 {
		l := open(t, Config{})
		r := steal.New(steal.Config{Budget: 5 * time.Second})
		err := r.Install(millrace.Job{Name: "alone", Slice: func(ctx context.Context) (millrace.Progress, error) {
			held, err := l.Acquire(ctx, name, long, AcquireConfig{})
			if errors.Is(err, ErrHeld) {
				missed.Add(1)
				once.Do(func() { close(first) })
				return millrace.Idle, nil
			}
			if err != nil {
				return millrace.Idle, err
			}
			if n := inside.Add(1); n != 1 {
				t.Errorf("%d slices at once", n)
			}
			worked.Add(1)
			select {
			case <-first: // so a caller meets the lease held
			case <-ctx.Done():
				t.Error("no slice missed the lease")
				once.Do(func() { close(first) })
			}
			inside.Add(-1)
			return millrace.Worked, held.Release(ctx)
		}}, 1)
		if err != nil {
			t.Fatal(err)
		}
		processes.Go(func() {
			for range 20 {
				r.Enlist(t.Context())
			}
			if got := r.Stats().Jobs[0]; got.Aborted != 0 || got.Recruited() != 20 {
				t.Errorf("stats = %+v, want 20 recruits and no abort", got)
			}
		})
	}
	processes.Wait()
	if missed.Load()+worked.Load() != 80 {
		t.Errorf("%d worked and %d missed, want 80 in all", worked.Load(), missed.Load())
	}
}

func TestDo(t *testing.T) {
	t.Parallel()
	l := open(t, Config{})
	name := redistest.Name(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	odd := errors.New("odd")
	_, err := l.Do(ctx, name, long, AcquireConfig{}, func(ctx context.Context, fence int64) error {
		if info, err := l.Show(ctx, name); err != nil || !info.Held || info.Fence != fence {
			t.Errorf("Show = %+v, %v, want it held with fence %d", info, err, fence)
		}
		return odd
	})
	wantError(t, err, odd)
	free := func() {
		t.Helper()
		if info, err := l.Show(t.Context(), name); err != nil || info.Held {
			t.Errorf("Show = %+v, %v, want it free", info, err)
		}
	}
	free()

	_, err = l.Do(ctx, name, 2*time.Second, AcquireConfig{}, func(ctx context.Context, _ int64) error {
		must(t, l.run.Client, "DEL", baseKey(name))
		<-ctx.Done()
		wantError(t, context.Cause(ctx), ErrLost)
		return nil
	})
	wantError(t, err, ErrLost)

	_, err = l.Do(ctx, name, long, AcquireConfig{}, func(context.Context, int64) error {
		pass(t, l, name) // not noticed before the release
		return nil
	})
	wantError(t, err, ErrLost)

	func() {
		defer func() {
			if got := recover(); got != "panic" {
				t.Errorf("recovered %v, want the panic of the function", got)
			}
		}()
		_, _ = l.Do(ctx, name, long, AcquireConfig{}, func(context.Context, int64) error { panic("panic") })
	}()
	free()

	_, err = l.Do(ctx, name, long, AcquireConfig{}, func(ctx context.Context, _ int64) error {
		cancel()
		<-ctx.Done()
		return ctx.Err()
	})
	wantError(t, err, context.Canceled)
	free() // the release does not need the context
}
