package lease

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/redistest"
)

// TestAllWhoWatchAreWoken: those who wait for what the holder makes are woken in all
// processes by one release, over one blocking connection each.
func TestAllWhoWatchAreWoken(t *testing.T) {
	t.Parallel()
	const processes, each = 4, 10
	server := redistest.Start(t, redistest.Options{})
	holder := openOn(t, server.Client(t), Config{})
	lease := acquire(t, holder, "x", long)
	made := make(chan struct{})
	errMade := errors.New("it is there")
	unless := func(context.Context) error {
		select {
		case <-made:
			return errMade
		default:
			return nil
		}
	}
	var waiting sync.WaitGroup
	ended := make(chan time.Time, processes*each)
	for range processes {
		l := openOn(t, server.Client(t), Config{})
		for range each {
			waiting.Go(func() {
				_, err := l.Acquire(t.Context(), "x", long, Options{Wait: -1, Unless: unless})
				wantError(t, err, errMade)
				if errors.Is(err, ErrHeld) {
					t.Errorf("Acquire = %v, want only what Unless returned", err)
				}
				ended <- time.Now()
			})
		}
	}
	redistest.Eventually(t, "all processes wait", func() bool {
		text, err := do(t, holder.run.Client, "GET", baseKey("x")).ToString()
		return err == nil && countWaiters(text) == processes && server.Info("clients")["blocked_clients"] == "4"
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

// TestManyInLine: one of those who wait in a process is woken by a release, and then the
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
			got, err := l.Acquire(ctx, name, long, Options{Wait: -1})
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
		t.Errorf("it went round in %v", took)
	}
}

// TestWaiterInADeadProcess: a process that waited and died keeps nobody, and is forgotten.
func TestWaiterInADeadProcess(t *testing.T) {
	t.Parallel()
	l := open(t, Config{})
	name := redistest.Name(t)
	lease := acquire(t, l, name, long)
	wait(t, l, name, "dead")
	got := make(chan error, 1)
	go func() {
		next, err := l.Acquire(t.Context(), name, long, Options{Wait: -1})
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
