package conformance

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/lease"
)

// leaseStorm takes a server away while leases are contended, while some are held
// that last longer than that, and some that need to be renewed more often. The
// first go on to change hands, the second stay, and the holders of the third know
// whether they still have them.
func leaseStorm(t *testing.T, on running) {
	one, two := openLocker(t, on.client(t)), openLocker(t, on.client(t))
	contended, lasting, brief := spread(t, on, 1), spread(t, on, 1), spread(t, on, 1)
	victim := contended[0]
	t.Cleanup(on.mend) // should the test end before it does so itself

	var now storm
	contending, stop := context.WithCancel(t.Context())
	var working sync.WaitGroup
	t.Cleanup(working.Wait)
	t.Cleanup(stop)
	var guards []*guard
	for _, name := range contended {
		g := &guard{t: t, name: name, now: &now, given: map[int64]bool{}}
		guards = append(guards, g)
		for _, l := range []*lease.Locker{one, two, two} {
			working.Go(func() { g.contend(contending, l) })
		}
	}
	flow := func(what string) {
		t.Helper()
		for _, g := range guards {
			before := g.count()
			redistest.Eventually(t, what+": leases change hands", func() bool { return g.count() > before+10 })
		}
	}

	flow("before the disturbance")
	var lastingHeld, briefHeld []*lease.Lease
	for _, name := range lasting {
		lastingHeld = append(lastingHeld, acquire(t, one, name, long, lease.AcquireConfig{}))
	}
	for _, name := range brief {
		briefHeld = append(briefHeld, acquire(t, one, name, 500*time.Millisecond, lease.AcquireConfig{MaxHold: long}))
	}
	now.Store(inStorm)
	on.secure(victim)
	on.disturb(victim)
	now.Store(afterStorm)
	flow("after the disturbance")
	on.mend()
	flow("after all servers are back")
	stop()
	working.Wait()

	for _, held := range lastingHeld {
		_, err := two.Acquire(t.Context(), held.Name, long, lease.AcquireConfig{})
		wantError(t, "Acquire of a lease that lasts", err, lease.ErrHeld)
		must(t, "Refresh of a lease that lasts", held.Refresh(t.Context(), 2*long))
		must(t, "Release of a lease that lasts", held.Release(t.Context()))
		wantLater(t, acquire(t, two, held.Name, long, lease.AcquireConfig{}), held)
	}
	for _, held := range briefHeld {
		redistest.Eventually(t, "a brief lease is held, and its holder knows whether by him", func() bool {
			info, err := two.Show(t.Context(), held.Name)
			return held.Context().Err() != nil || err == nil && info.Held && info.Fence == held.Fence
		})
		if cause := context.Cause(held.Context()); cause != nil && !errors.Is(cause, lease.ErrExpired) && !errors.Is(cause, lease.ErrLost) {
			t.Errorf("a brief lease ended with %v, want ErrExpired or ErrLost", cause)
		}
		if err := held.Release(t.Context()); err != nil {
			wantError(t, "Release of a brief lease", err, lease.ErrLost)
		}
		wantLater(t, acquire(t, two, held.Name, long, lease.AcquireConfig{Wait: -1}), held)
	}
}

// storm is the phase: before everything is secured, then until the disturbance is
// over, or after that.
type storm struct{ atomic.Int32 }

const (
	beforeStorm = iota
	inStorm
	afterStorm
)

// guard is a resource that a lease protects. It refuses a holder whose fence is not
// the largest so far.
type guard struct {
	t    *testing.T
	name string
	now  *storm

	mu     sync.Mutex
	inside *visit
	given  map[int64]bool // fences of all visits
	last   int64          // the largest of them
}

// visit is one holder's time with the resource.
type visit struct {
	lease  *lease.Lease
	shaken bool // acquired during the storm: the servers may have forgotten it
}

// contend acquires the lease again and again until ctx ends.
func (g *guard) contend(ctx context.Context, l *lease.Locker) {
	for ctx.Err() == nil {
		began, asked, floor := time.Now(), g.now.Load(), g.largest()
		held, err := l.Acquire(ctx, g.name, time.Second, lease.AcquireConfig{Wait: -1})
		if err != nil {
			if ctx.Err() == nil {
				wantPatient(g.t, "Acquire", began, err)
			}
			continue
		}
		v := &visit{lease: held, shaken: asked == inStorm || asked != g.now.Load()}
		g.enter(v, floor)
		retry.Sleep(held.Context(), pace)
		g.leave(v)
		_ = held.Release(ctx) // one that fails leaves the lease to its deadline
	}
}

// enter checks that a holder may come in: its fence is new and larger than all
// that were there when it asked, and no holder that relies on the lease is inside.
func (g *guard) enter(v *visit, floor int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	fence := v.lease.Fence
	if g.given[fence] || fence <= floor {
		g.t.Errorf("fence %d, after %d and given before: %v", fence, floor, g.given[fence])
	}
	if o := g.inside; o != nil && !o.shaken && time.Now().Before(o.lease.Deadline()) {
		g.t.Errorf("holder %d comes while %d holds for another %v", fence, o.lease.Fence, time.Until(o.lease.Deadline()))
	}
	g.given[fence] = true
	g.last = max(g.last, fence)
	g.inside = v
}

func (g *guard) leave(v *visit) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inside == v {
		g.inside = nil
	}
}

// largest returns the largest fence of all visits so far.
func (g *guard) largest() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.last
}

// count returns how many visits there were.
func (g *guard) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.given)
}
