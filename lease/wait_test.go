package lease

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/test/redistest"
)

// TestAllWhoWatchAreWoken: one release wakes callers that wait for the holder's result, in
// all processes, over one blocking connection each.
func TestAllWhoWatchAreWoken(t *testing.T) {
	t.Parallel()
	const processes, each = 4, 10
	server := redistest.Start(t, redistest.Options{})
	holder := openOn(t, server.Client(t), Config{})
	lease := acquire(t, holder, "x", long)
	made, together := make(chan struct{}), make(chan struct{})
	var looking atomic.Int64
	errMade := errors.New("it is there")
	ended := make(chan time.Time, processes*each)
	unless := func(context.Context) error {
		select {
		case <-made:
		default:
			return nil
		}
		ended <- time.Now()
		if looking.Add(1) == processes*each { // all look at the same time, not one after the other
			close(together)
		}
		select {
		case <-together:
		case <-time.After(time.Minute):
			t.Error("not all were woken")
		}
		return errMade
	}
	var tried atomic.Int64
	var waiting sync.WaitGroup
	for range processes {
		l := openOn(t, server.Client(t), Config{Hooks: []millrace.Hook{afterAcquire{}}})
		for range each {
			waiting.Go(func() {
				first := sync.OnceFunc(func() { tried.Add(1) })
				_, err := l.Acquire(context.WithValue(t.Context(), afterAcquireKey{}, first), "x", long, AcquireConfig{Wait: -1, Unless: unless})
				wantError(t, err, errMade)
				if errors.Is(err, ErrHeld) {
					t.Errorf("Acquire = %v, want only what Unless returned", err)
				}
			})
		}
	}
	redistest.Eventually(t, "all wait", func() bool { // one that tries for the first time later takes the lease
		text, err := do(t, holder.run.Client, "GET", baseKey("x")).ToString()
		return err == nil && tried.Load() == processes*each && countWaiters(text) == processes && server.Info("clients")["blocked_clients"] == "4"
	})
	close(made)
	released := time.Now()
	if err := lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	waiting.Wait()
	close(ended)
	soon := 0
	for at := range ended {
		if at.Sub(released) < 500*time.Millisecond { // who looks each second does not come so soon, but for half of them
			soon++
		}
	}
	if soon < processes*each*9/10 {
		t.Errorf("%d of %d were woken within half a second", soon, processes*each)
	}
}

func countWaiters(text string) (n int) {
	for _, c := range text {
		if c == ';' {
			n++
		}
	}
	return n
}

// afterAcquire calls the function in the context of an acquire after each try.
type afterAcquire struct{}

type afterAcquireKey struct{}

func (afterAcquire) OnCall(ctx context.Context, call millrace.Call) (context.Context, func(error)) {
	if f, ok := ctx.Value(afterAcquireKey{}).(func()); ok && call.Script == "lease.acquire" {
		return ctx, func(error) { f() }
	}
	return ctx, nil
}

// onAcquire calls the function in the context of an acquire before each try.
type onAcquire struct{}

type onAcquireKey struct{}

func (onAcquire) OnCall(ctx context.Context, call millrace.Call) (context.Context, func(error)) {
	if f, ok := ctx.Value(onAcquireKey{}).(func()); ok && call.Script == "lease.acquire" {
		f()
	}
	return ctx, nil
}

// TestWhoGivesUpPassesOn: the next in line is woken when the one that was woken gives up.
func TestWhoGivesUpPassesOn(t *testing.T) {
	t.Parallel()
	const tries = 5 // a waiter that is not woken looks within a second, and so may come as soon by chance
	slow := 0
	for range tries {
		l := open(t, Config{Hooks: []millrace.Hook{onAcquire{}}})
		name := redistest.Name(t)
		lease := acquire(t, l, name, long)
		ctx, cancel := context.WithCancel(t.Context())
		var released atomic.Bool
		quits := context.WithValue(ctx, onAcquireKey{}, func() {
			if released.Load() {
				cancel()
			}
		})
		first, next := make(chan error, 1), make(chan error, 1)
		waits := func(ctx context.Context, ended chan<- error) {
			_, err := l.Acquire(ctx, name, long, AcquireConfig{Wait: -1})
			ended <- err
		}
		go waits(quits, first)
		redistest.Eventually(t, "the first waits", func() bool {
			text, err := do(t, l.run.Client, "GET", baseKey(name)).ToString()
			return err == nil && countWaiters(text) == 1
		})
		asked := make(chan struct{}, 100)
		go waits(context.WithValue(t.Context(), onAcquireKey{}, func() { asked <- struct{}{} }), next)
		<-asked
		released.Store(true)
		began := time.Now()
		if err := lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-next; err != nil {
			t.Error(err)
		}
		wantError(t, <-first, context.Canceled)
		if time.Since(began) > 500*time.Millisecond {
			slow++
		}
		cancel()
	}
	if slow > 1 {
		t.Errorf("%d of %d next in line were not woken", slow, tries)
	}
}

// TestManyInLine: one of the callers that wait in a process is woken by a release, and then the
// next, also when one of them gives up at that moment.
func TestManyInLine(t *testing.T) {
	t.Parallel()
	const callers = 30
	l := open(t, Config{})
	name := redistest.Name(t)
	lease := acquire(t, l, name, long)
	var waiting sync.WaitGroup
	var mu sync.Mutex
	had := 0
	for i := range callers {
		waiting.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if i%5 == 4 {
				time.AfterFunc(20*time.Millisecond, cancel)
			}
			got, err := l.Acquire(ctx, name, long, AcquireConfig{Wait: -1})
			switch {
			case err == nil:
				mu.Lock()
				had++
				mu.Unlock()
				err = got.Release(t.Context())
			case ctx.Err() != nil:
				return
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	waiting.Wait()
	if had < callers*4/5 {
		t.Errorf("%d had the lease, want %d at least", had, callers*4/5)
	}
	if took := time.Since(began); took > 10*time.Second { // 24 seconds if each looked by itself
		t.Errorf("the last waiter got the lease after %v", took)
	}
}

// TestWaiterInADeadProcess: a process that waited and died blocks no other, and is dropped.
func TestWaiterInADeadProcess(t *testing.T) {
	t.Parallel()
	l := open(t, Config{})
	name := redistest.Name(t)
	lease := acquire(t, l, name, long)
	wait(t, l, name, "dead")
	got := make(chan error, 1)
	go func() {
		next, err := l.Acquire(t.Context(), name, long, AcquireConfig{Wait: -1})
		if err == nil {
			err = next.Release(t.Context())
		}
		got <- err
	}()
	redistest.Eventually(t, "two processes wait", func() bool {
		text, err := do(t, l.run.Client, "GET", baseKey(name)).ToString()
		return err == nil && countWaiters(text) == 2
	})
	if err := lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-got; err != nil {
		t.Errorf("Acquire = %v", err)
	}
}
