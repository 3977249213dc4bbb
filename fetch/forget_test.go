package fetch

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/test/redistest"
)

// after calls a function when a call of that script has ended.
type after struct {
	script string
	do     func()
}

func (a after) OnCall(ctx context.Context, call millrace.Call) (context.Context, func(error)) {
	return ctx, func(error) {
		if call.Script == a.script {
			a.do()
		}
	}
}

func forget(t *testing.T, c *Cache) {
	t.Helper()
	if err := c.Forget(t.Context(), "k"); err != nil {
		t.Fatalf("Forget = %v", err)
	}
}

// TestForgetWhileAThirdLoads: another process takes the lease as soon as Forget has released it,
// and its load fails. The first load ends meanwhile.
func TestForgetWhileAThirdLoads(t *testing.T) {
	t.Parallel()
	name := redistest.Name(t)
	first := openOn(t, redistest.Shared(t).Client(t), name, Config{})
	third := openOn(t, redistest.Shared(t).Client(t), name, Config{Errors: -1})
	before, finish := blocked(t, "before")
	loading := start(t.Context(), first, "k", before)
	<-before.begun
	failing, fail := blocked(t, "")
	failing.err = errLoad
	var others <-chan got
	forgetter := openOn(t, redistest.Shared(t).Client(t), name, Config{Hooks: []millrace.Hook{after{"lease.release", sync.OnceFunc(func() {
		others = start(t.Context(), third, "k", failing)
		<-failing.begun
	})}}})
	forget(t, forgetter)
	if others == nil {
		t.Fatal("Forget released no lease")
	}
	finish()
	wantFrom(t, loading, "before", Miss, nil)
	redistest.Eventually(t, "the first load has ended", func() bool { return first.callers() < 0 })
	fail()
	wantFrom(t, others, "", Failed, errLoad)
	want(t, forgetter, "k", &source{value: "after"}, "after", Miss, nil)
}

// TestForgetBeforeItsLoaderIsKilled: a process loads a key that is forgotten meanwhile, stores the value, and is
// killed before it releases the lease.
func TestForgetBeforeItsLoaderIsKilled(t *testing.T) {
	t.Parallel()
	name, proxy := redistest.Name(t), redistest.NewProxy(t, redistest.Shared(t).Addr())
	c := openOn(t, redistest.Shared(t).Client(t), name, Config{})
	want(t, c, "k", &source{value: "first"}, "first", Miss, nil) // now its shard has begun
	forget(t, c)
	stored := make(chan struct{})
	killed := openOn(t, proxy.Client(t), name, Config{Hooks: []millrace.Hook{after{"pinned.set", sync.OnceFunc(func() {
		proxy.Close()
		close(stored)
	})}}})
	killed.timeout = 100 * time.Millisecond
	s, finish := blocked(t, "before")
	loading := start(t.Context(), killed, "k", s)
	<-s.begun
	forget(t, c)
	finish()
	<-stored
	want(t, c, "k", &source{value: "after"}, "after", Miss, nil)
	wantFrom(t, loading, "before", Miss, nil)
}

// TestForgetAndThoseWhoCome: a call after Forget does not get the value that a load in its process
// began to compute before.
func TestForgetAndThoseWhoCome(t *testing.T) {
	t.Parallel()
	c := open(t, Config{})
	s, finish := blocked(t, "before")
	loading := start(t.Context(), c, "k", s)
	<-s.begun
	forget(t, openOn(t, redistest.Shared(t).Client(t), c.name, Config{}))
	late := start(t.Context(), c, "k", &source{value: "after"})
	awaitCallers(t, c, 2)
	finish()
	wantFrom(t, loading, "before", Miss, nil)
	wantFrom(t, late, "after", Miss, nil)
}

// TestForgetDuringALook: a call that read the old value before Forget does not have its process
// remember it after.
func TestForgetDuringALook(t *testing.T) {
	t.Parallel()
	proxy := redistest.NewProxy(t, redistest.Shared(t).Addr())
	var c *Cache
	var armed atomic.Bool
	c = openOn(t, proxy.Client(t), redistest.Name(t), Config{Hooks: []millrace.Hook{after{"pinned.get", func() {
		if armed.CompareAndSwap(true, false) {
			forget(t, c)
		}
	}}}})
	want(t, c, "k", &source{value: "before"}, "before", Miss, nil)
	armed.Store(true)
	want(t, c, "k", &source{}, "before", Hit, nil)
	if armed.Load() {
		t.Fatal("nothing was forgotten")
	}
	proxy.Close()
	c.timeout = 100 * time.Millisecond
	want(t, c, "k", &source{value: "after"}, "after", Bypass, nil)
}

// TestForgetModel: processes read a key whose source changes, loads fail, leases end early and
// replies are lost. No call that begins after Forget gets an older value of the source.
func TestForgetModel(t *testing.T) {
	t.Parallel()
	const processes, forgets = 4, 150
	name := redistest.Name(t)
	var version, floor atomic.Int64 // of the source; the least that a call may get
	load := func(ctx context.Context) (string, error) {
		v := version.Load()
		if rand.N(2) == 0 {
			retry.Sleep(ctx, rand.N(4*time.Millisecond))
		}
		if rand.N(3) == 0 {
			return "", errLoad
		}
		return strconv.FormatInt(v, 10), nil
	}
	ctx, stop := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	var caches []*Cache
	var values atomic.Int64
	for i := range processes {
		proxy := redistest.NewProxy(t, redistest.Shared(t).Addr())
		c := openOn(t, proxy.Client(t), name, Config{Errors: -1, Stale: time.Minute, Memory: -1})
		if i > 0 {
			c.hold = 10 * time.Millisecond // leases end while they load
		}
		var calls atomic.Int64
		proxy.DropReplyWhen(func(cmd []string) bool { return redistest.Script(cmd) && calls.Add(1)%97 == 0 })
		caches = append(caches, c)
		for range 3 {
			readers.Go(func() {
				for ctx.Err() == nil {
					least := floor.Load()
					text, _, err := Get(ctx, c, "k", load)
					if err != nil {
						if !errors.Is(err, errLoad) && ctx.Err() == nil {
							t.Errorf("Get = %v", err)
						}
						continue
					}
					values.Add(1)
					if got, err := strconv.ParseInt(text, 10, 64); got < least || err != nil {
						t.Errorf("Get = %q, want at least %d, which Forget had returned for", text, least)
					}
				}
			})
		}
	}
	for i := range forgets {
		v := version.Add(1)
		forget(t, caches[i%processes])
		floor.Store(v)
	}
	stop()
	readers.Wait()
	if values.Load() < forgets {
		t.Errorf("%d values were returned, want at least %d: the test says little", values.Load(), forgets)
	}
}
