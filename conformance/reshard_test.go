package conformance

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/expiry"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/redistest"
	"github.com/millrace/millrace/lease"
	"github.com/millrace/millrace/tracker"
)

// TestResharding moves the slots of structures from node to node and back, key by key,
// while they are in use. Nobody may notice, but for the time that a structure is in two
// places.
func TestResharding(t *testing.T) {
	t.Parallel()
	for _, s := range reshardings {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			cluster := redistest.Cluster(t, 3, 0)
			name := redistest.Name(t)
			traffic, key := s.start(t, cluster.Client(t), name)
			ctx, stop := context.WithCancel(t.Context())
			var working sync.WaitGroup
			t.Cleanup(working.Wait)
			t.Cleanup(stop)
			for i := range 6 {
				working.Go(func() { traffic.work(ctx, t, i) })
			}
			r := &resharder{t: t, cluster: cluster, key: key, traffic: traffic, waits: s.waits}
			rounds := 3
			if os.Getenv("MILLRACE_SOAK") != "" {
				rounds = 60
			}
			for round := range rounds {
				r.move(orders[round%len(orders)])
			}
			stop()
			working.Wait()
			traffic.check(t)
		})
	}
}

// resharding is a structure whose slot moves.
type resharding struct {
	name string

	// waits says that calls may wait until the slot has moved.
	waits bool

	// start returns the structure in use, and its base key.
	start func(t *testing.T, client rueidis.Client, name string) (traffic, string)
}

// traffic is a structure in use.
type traffic interface {
	// work uses the structure until ctx ends; 6 goroutines do.
	work(ctx context.Context, t *testing.T, worker int)

	// done is how many calls have succeeded.
	done() int64

	// check looks whether all is right when all has ended.
	check(t *testing.T)
}

// orders are those in which keys move: as they come, the base key first, the base key
// last.
var orders = []func(base string, keys []string){
	func(base string, keys []string) {
		slices.SortFunc(keys, func(a, b string) int { return boolToInt(b == base) - boolToInt(a == base) })
	},
	func(base string, keys []string) {
		slices.SortFunc(keys, func(a, b string) int { return boolToInt(a == base) - boolToInt(b == base) })
	},
	func(_ string, keys []string) {
		rand.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	},
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// resharder moves one slot.
type resharder struct {
	t       *testing.T
	cluster *redistest.ClusterServers
	key     string
	traffic traffic
	waits   bool
}

// move moves the slot to another node.
func (r *resharder) move(order func(base string, keys []string)) {
	r.t.Helper()
	r.flows("at rest")
	m := r.cluster.BeginMigration(r.t, r.key)
	if !r.waits {
		r.flows("with nothing moved")
	}
	keys := m.Left(r.t)
	order(r.key, keys)
	for _, key := range keys {
		m.Move(r.t, key)
	}
	m.MoveAll(r.t)
	if !r.waits {
		r.flows("with everything moved")
	}
	m.Finish(r.t)
}

// flows waits until the traffic has gone on for a while.
func (r *resharder) flows(when string) {
	r.t.Helper()
	want := r.traffic.done() + 30
	redistest.Eventually(r.t, "calls go on "+when, func() bool { return r.traffic.done() >= want })
}

// tally counts calls, and fails the test for those that fail.
type tally struct{ n atomic.Int64 }

func (c *tally) done() int64 { return c.n.Load() }

// count reports whether a call succeeded.
func (c *tally) count(ctx context.Context, t *testing.T, what string, err error) bool {
	if ctx.Err() != nil {
		return false
	}
	if err != nil {
		t.Errorf("%s: %v", what, err)
		return false
	}
	c.n.Add(1)
	return true
}

var reshardings = []resharding{
	{"lease", false, func(t *testing.T, client rueidis.Client, name string) (traffic, string) {
		t.Helper()
		l, err := lease.New(client, lease.Config{})
		must(t, "lease.New", err)
		return &contenders{locker: l, name: name}, "mr:lease:{" + name + "}"
	}},
	{"tracker", false, func(t *testing.T, client rueidis.Client, name string) (traffic, string) {
		t.Helper()
		tr, err := tracker.New(client, name, tracker.Config{})
		must(t, "tracker.New", err)
		return &adders{tracker: tr}, "mr:tracker:{" + name + "}"
	}},
	{"channel", false, func(t *testing.T, client rueidis.Client, name string) (traffic, string) {
		t.Helper()
		c, err := ick.NewChannel(client, name, ick.ChannelConfig{Size: 2})
		must(t, "NewChannel", err)
		return &resizers{channel: c}, "mr:channel:{" + name + "}"
	}},
	{"hashes", false, func(t *testing.T, client rueidis.Client, name string) (traffic, string) {
		t.Helper()
		h, err := expiry.OpenHashes(t.Context(), client, name, expiry.HashesConfig{Shards: 1})
		must(t, "OpenHashes", err)
		for worker := range 6 { // a hash that is not there waits for its slot
			setField(t, h, fmt.Sprint("h", worker), "n", "0", expiry.SetConfig{})
		}
		return &counters{hashes: h}, "mr:hash:{" + name + "/0}"
	}},
	{"keys", false, func(t *testing.T, client rueidis.Client, name string) (traffic, string) {
		t.Helper()
		k, err := expiry.OpenKeys(t.Context(), client, name, expiry.KeysConfig{Shards: 1})
		must(t, "OpenKeys", err)
		return &keepers{keys: k}, "mr:key:{" + name + "/0}"
	}},
	{"queue", false, func(t *testing.T, client rueidis.Client, name string) (traffic, string) {
		t.Helper()
		return newPost(t, openQueue(t, client, name)), "mr:queue:{" + name + "}"
	}},
	{"ick", true, func(t *testing.T, client rueidis.Client, name string) (traffic, string) {
		t.Helper()
		k, err := ick.New(client, name, ick.Config{})
		must(t, "ick.New", err)
		return &markers{ick: k, marked: map[string]bool{}}, name
	}},
}

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
		held, err := c.locker.Acquire(ctx, c.name, 20*time.Second, lease.Options{Wait: -1})
		if !c.count(ctx, t, "Acquire", err) {
			if err == nil {
				_ = held.Release(ctx)
			}
			continue
		}
		if n := c.inside.Add(1); n != 1 {
			t.Errorf("%d hold the lease at once", n)
		}
		if before := c.fence.Swap(held.Fence()); before >= held.Fence() {
			t.Errorf("fence %d behind %d", held.Fence(), before)
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
		answer, err := a.tracker.Queued(ctx, id)
		if a.count(ctx, t, "Queued", err) && answer.State != tracker.Queued {
			t.Errorf("%s is %v, and was added before", id, answer.State)
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

// resizers make a channel larger and smaller, and see what they made.
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
				continue // nobody made it yet
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
	ended  [6]int64 // what each counted
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

// keepers store values, read what they stored, and delete it.
type keepers struct {
	tally

	keys *expiry.Keys
}

func (k *keepers) work(ctx context.Context, t *testing.T, worker int) {
	t.Helper()
	key := fmt.Sprint("k", worker)
	for i := 0; ctx.Err() == nil; i++ {
		calls := context.WithoutCancel(ctx)
		value := strconv.Itoa(i)
		stored, err := k.keys.Set(calls, key, []byte(value), time.Hour, expiry.SetKeyConfig{IfNone: true})
		if k.count(calls, t, "Set", err) && !stored {
			t.Errorf("there is a value where one was deleted")
		}
		got, _, err := k.keys.Get(calls, key)
		if k.count(calls, t, "Get", err) && string(got) != value {
			t.Errorf("Get = %q, want %q", got, value)
		}
		n, err := k.keys.Delete(calls, key)
		if k.count(calls, t, "Delete", err) && n != 1 {
			t.Errorf("Delete = %d, want 1", n)
		}
	}
}

func (k *keepers) check(t *testing.T) {
	t.Helper()
	if s, err := k.keys.Stats(t.Context()); err != nil || s.Keys != 0 || s.Counters.Set != s.Counters.Deleted {
		t.Errorf("Stats = %+v, %v, want that each value was stored and deleted once", s, err)
	}
}

// markers mark, reserve and commit. What was marked must be handed out.
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
