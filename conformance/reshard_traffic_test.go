package conformance

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/expiry"
	"github.com/millrace/millrace/fetch"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/lease"
	"github.com/millrace/millrace/pinned"
	"github.com/millrace/millrace/tracker"
)

// contenders take turns with a lease.
type contenders struct {
	tally

	locker *lease.Locker
	name   string
	inside atomic.Int64
	fence  atomic.Int64
}

func (c *contenders) work(ctx context.Context, t *testing.T, _ int) {
	t.Helper()
	for ctx.Err() == nil {
		held, err := c.locker.Acquire(ctx, c.name, 20*time.Second, lease.AcquireConfig{Wait: -1})
		if !c.count(ctx, t, "Acquire", err) {
			if err == nil {
				_ = held.Release(ctx)
			}
			continue
		}
		if n := c.inside.Add(1); n != 1 {
			t.Errorf("%d hold the lease at once", n)
		}
		if before := c.fence.Swap(held.Fence); before >= held.Fence {
			t.Errorf("fence %d behind %d", held.Fence, before)
		}
		c.inside.Add(-1)
		c.count(ctx, t, "Release", held.Release(ctx))
	}
}

func (c *contenders) check(*testing.T) {}

// adders add identifiers to a tracker, which must know them from then on.
type adders struct {
	tally

	tracker *tracker.Tracker
	added   atomic.Int64
}

func (a *adders) work(ctx context.Context, t *testing.T, worker int) {
	t.Helper()
	for i := 0; ctx.Err() == nil; i++ {
		id := fmt.Sprint(worker, "/", i)
		if !a.count(ctx, t, "Add", a.tracker.Add(context.WithoutCancel(ctx), id)) {
			continue
		}
		a.added.Add(1)
		answers, err := a.tracker.Queued(ctx, id)
		if a.count(ctx, t, "Queued", err) && answers[0].State != tracker.Queued {
			t.Errorf("%s is %v, and was added before", id, answers[0].State)
		}
	}
}

func (a *adders) check(t *testing.T) {
	t.Helper()
	s, err := a.tracker.Stats(t.Context())
	// The last add of each worker may have been done and not been counted here.
	if extra := int64(s.Tracked) - a.added.Load(); err != nil || extra < 0 || extra > 6 || s.Counters.Added != int64(s.Tracked) {
		t.Errorf("Stats = %+v, %v, want %d tracked and each added once", s, err, a.added.Load())
	}
}

// resizers make a channel larger and smaller, and check its size.
type resizers struct {
	tally

	channel *ick.Channel
	mu      sync.Mutex
	size    int
}

func (r *resizers) work(ctx context.Context, t *testing.T, worker int) {
	t.Helper()
	for ctx.Err() == nil {
		if worker > 0 {
			s, err := r.channel.Stats(ctx)
			if errors.Is(err, millrace.ErrNotFound) {
				continue // no process made it yet
			}
			if r.count(ctx, t, "Stats", err) && (s.Size < 1 || s.Size > 3) {
				t.Errorf("Stats = %+v, want a size of 1 to 3", s)
			}
			continue
		}
		size := 1 + rand.IntN(3)
		if r.count(ctx, t, "Resize", r.channel.Resize(context.WithoutCancel(ctx), size)) {
			r.mu.Lock()
			r.size = size
			r.mu.Unlock()
		}
	}
}

func (r *resizers) check(t *testing.T) {
	t.Helper()
	if s, err := r.channel.Stats(t.Context()); err != nil || s.Size != r.size && r.size != 0 {
		t.Logf("the last resize may have been under way: %+v, %v, want size %d", s, err, r.size)
		if err != nil {
			t.Error(err)
		}
	}
}

// counters count fields up, each its own hash, and have others expire.
type counters struct {
	tally

	hashes *expiry.Hashes
	ended  [6]int64 // counts of each process
}

func (c *counters) work(ctx context.Context, t *testing.T, worker int) {
	t.Helper()
	hash := fmt.Sprint("h", worker)
	for n := int64(1); ctx.Err() == nil; n++ {
		got, err := c.hashes.Incr(context.WithoutCancel(ctx), hash, "n", 1)
		if !c.count(context.WithoutCancel(ctx), t, "Incr", err) {
			return
		}
		if c.ended[worker] = got; got != n {
			t.Errorf("Incr = %d, want %d", got, n)
			return
		}
		_, err = c.hashes.Set(ctx, hash, "brief", []byte("x"), expiry.SetConfig{TTL: time.Millisecond})
		c.count(ctx, t, "Set", err)
		if _, _, err = c.hashes.Get(ctx, hash, "brief"); errors.Is(err, millrace.ErrNotFound) {
			err = nil // its time is over
		}
		c.count(ctx, t, "Get", err)
		all, err := c.hashes.GetAll(ctx, hash)
		if c.count(ctx, t, "GetAll", err) && string(all["n"]) != strconv.FormatInt(n, 10) {
			t.Errorf("GetAll = %q, want n to be %d", all, n)
		}
	}
}

func (c *counters) check(t *testing.T) {
	t.Helper()
	for worker, want := range c.ended {
		got, _, err := c.hashes.Get(t.Context(), fmt.Sprint("h", worker), "n")
		if err != nil || string(got) != strconv.FormatInt(want, 10) {
			t.Errorf("worker %d counted to %d, and there is %q, %v", worker, want, got, err)
		}
	}
}

// keepers store values, read them, and delete them.
type keepers struct {
	tally

	keys *pinned.Keys
}

func (k *keepers) work(ctx context.Context, t *testing.T, worker int) {
	t.Helper()
	key := fmt.Sprint("k", worker)
	for i := 0; ctx.Err() == nil; i++ {
		calls := context.WithoutCancel(ctx)
		value := strconv.Itoa(i)
		stored, err := k.keys.Set(calls, key, []byte(value), time.Hour, pinned.SetConfig{IfNone: true})
		if k.count(calls, t, "Set", err) && !stored {
			t.Errorf("there is a value where one was deleted")
		}
		got, _, err := k.keys.Get(calls, key)
		if k.count(calls, t, "Get", err) && string(got) != value {
			t.Errorf("Get = %q, want %q", got, value)
		}
		n, err := k.keys.Remove(calls, key)
		if k.count(calls, t, "Delete", err) && n != 1 {
			t.Errorf("Delete = %d, want 1", n)
		}
	}
}

func (k *keepers) check(t *testing.T) {
	t.Helper()
	if s, err := k.keys.Stats(t.Context()); err != nil || s.Keys != 0 || s.Set != s.Deleted {
		t.Errorf("Stats = %+v, %v, want that each value was stored and deleted once", s, err)
	}
}

// fetchers fetch a few values that run out again and again. Each is the right one, and is
// computed by one of them at a time.
type fetchers struct {
	tally

	cache *fetch.Cache
	mu    sync.Mutex
	runs  map[string][]interval
}

func (f *fetchers) work(ctx context.Context, t *testing.T, worker int) {
	t.Helper()
	for i := 0; ctx.Err() == nil; i++ {
		key, run := fmt.Sprint("key", (worker+i)%3), interval{}
		value, r, err := fetch.Get(ctx, f.cache, key, func(ctx context.Context) (string, error) {
			run.began = time.Now()
			retry.Sleep(ctx, time.Millisecond)
			run.ended = time.Now()
			return "value of " + key, nil
		})
		if !f.count(ctx, t, "Get", err) {
			continue
		}
		if value != "value of "+key || r.Outcome == fetch.Bypass {
			t.Errorf("Get = %+v, want the value of %s from Redis or under a lease", r, key)
		}
		if r.Outcome == fetch.Miss {
			f.mu.Lock()
			f.runs[key] = append(f.runs[key], run)
			f.mu.Unlock()
		}
	}
}

func (f *fetchers) check(t *testing.T) {
	t.Helper()
	for key, runs := range f.runs {
		slices.SortFunc(runs, func(a, b interval) int { return a.began.Compare(b.began) })
		for i := 1; i < len(runs); i++ {
			if runs[i].began.Before(runs[i-1].ended) {
				t.Errorf("two computed %s at once", key)
			}
		}
	}
	if len(f.runs) != 3 {
		t.Errorf("%d of 3 values were computed under a lease", len(f.runs))
	}
}

// markers mark, reserve and commit. Each marked member must be handed out.
type markers struct {
	tally

	ick    *ick.Ick
	mu     sync.Mutex
	marked map[string]bool // and not handed out since
}

func (m *markers) work(ctx context.Context, t *testing.T, worker int) {
	t.Helper()
	for i := 0; ctx.Err() == nil; i++ {
		if worker == 0 {
			m.drain(ctx, t)
			continue
		}
		member := fmt.Sprint(worker, "/", i)
		m.mu.Lock()
		m.marked[member] = true
		m.mu.Unlock()
		for { // until it is marked: an Ick waits for its slot
			_, err := m.ick.AddNow(context.WithoutCancel(ctx), member)
			if err == nil || !strings.HasPrefix(err.Error(), "TRYAGAIN") {
				m.count(context.WithoutCancel(ctx), t, "AddNow", err)
				break
			}
		}
	}
}

// drain has one batch handed out.
func (m *markers) drain(ctx context.Context, t *testing.T) int {
	t.Helper()
	r, err := m.ick.Reserve(ctx, 100)
	if err != nil && strings.HasPrefix(err.Error(), "TRYAGAIN") || !m.count(ctx, t, "Reserve", err) || len(r.Entries) == 0 {
		return 0
	}
	m.mu.Lock()
	for _, e := range r.Entries {
		delete(m.marked, e.Member)
	}
	m.mu.Unlock()
	_, err = m.ick.Commit(context.WithoutCancel(ctx), r.Token, r.Members()...)
	if err == nil || !strings.HasPrefix(err.Error(), "TRYAGAIN") {
		m.count(ctx, t, "Commit", err)
	}
	return len(r.Entries)
}

func (m *markers) check(t *testing.T) {
	t.Helper()
	for m.drain(t.Context(), t) > 0 {
	}
	for member := range m.marked {
		t.Errorf("%s was marked and never handed out", member)
	}
}
