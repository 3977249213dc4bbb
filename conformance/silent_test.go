package conformance

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/expiry"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/fetch"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/redis/shards"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/lease"
	"github.com/millrace/millrace/pinned"
)

const (
	// waited is how long a call takes at least that waited for a silent node: less
	// than the time limits of the library, more than a busy machine adds to a call.
	waited = 400 * time.Millisecond

	// lost is which part of its calls may wait, and which part of its rate a caller
	// may lose.
	lost = 0.2
)

// errBypassed means that a cache did without Redis.
var errBypassed = errors.New("a value is computed and not kept")

// TestSilentNode: a master of a Cluster hangs and is not replaced. Calls that do not
// need it go on, through structures that were used before and through those that
// are opened meanwhile, although calls that need it hang beside them.
//
// With MILLRACE_SOAK the node hangs for two minutes, so that all that the structures
// know of the servers gets old, and the callers, without a pause between calls, must
// keep 80 % of their rate. A machine that is busy slows a bare GET as well, so rates
// are compared with its.
func TestSilentNode(t *testing.T) {
	t.Parallel()
	soak := os.Getenv("MILLRACE_SOAK") != ""
	period, pause := 3*time.Second, 5*time.Millisecond
	c := startSilentCluster(t)
	used := append(c.callers(""), c.channel(), c.bare())
	for _, u := range used {
		must(t, u.name, u.elsewhere(t.Context()))
		must(t, u.name, u.there(t.Context()))
	}
	var before map[string]measured
	if soak {
		period, pause = 2*time.Minute, 0
		before = measure(t.Context(), period/4, pause, used, false)
	}

	c.silent.Pause()
	during := measure(t.Context(), period, pause, used, true)
	opened := c.callers(", opened meanwhile")
	for _, o := range opened {
		within, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		if err := o.elsewhere(within); err != nil {
			t.Errorf("%s, the first call: %v", o.name, err)
		}
		cancel()
	}
	maps.Copy(during, measure(t.Context(), 3*time.Second, pause, opened, true))
	for _, name := range slices.Sorted(maps.Keys(during)) {
		d := during[name]
		t.Logf("%s: %d calls, of which %d waited", name, d.calls, d.waits)
		if d.err != nil {
			t.Errorf("%s: %v", name, d.err)
		}
		if d.calls == 0 || float64(d.waits) > lost*float64(d.calls) {
			t.Errorf("%s: %d of %d calls waited", name, d.waits, d.calls)
		}
		if b, ok := before[name]; ok {
			kept := d.rate() / b.rate() * before[bare].rate() / during[bare].rate()
			t.Logf("%s keeps %.0f %% of its rate", name, 100*kept)
			if kept < 1-lost {
				t.Errorf("%s keeps %.0f %% of its rate", name, 100*kept)
			}
		}
	}

	c.silent.Resume()
	for _, a := range slices.Concat(used, opened) {
		redistest.Eventually(t, a.name+" goes on where the node was silent", func() bool { return a.there(t.Context()) == nil })
	}
}

// silentCluster is a Cluster one of whose masters will be silent.
type silentCluster struct {
	t       *testing.T
	servers *redistest.ClusterServers
	silent  *redistest.Server
	client  rueidis.Client
}

func startSilentCluster(t *testing.T) *silentCluster {
	t.Helper()
	servers := redistest.Cluster(t, clusterMasters, 0)
	servers.HoldFailovers()
	return &silentCluster{t: t, servers: servers, silent: servers.Nodes[1], client: servers.Client(t)}
}

// has reports whether the node that will be silent has the keys of that name.
func (c *silentCluster) has(name string) bool { return c.servers.MasterOf("{"+name+"}") == c.silent }

func (c *silentCluster) elsewhere(name string) bool { return !c.has(name) }

// name returns a new name of which ok is true.
func (c *silentCluster) name(ok func(name string) bool) string {
	c.t.Helper()
	var name string
	redistest.Eventually(c.t, "there is a name", func() bool {
		name = redistest.Name(c.t)
		return ok(name)
	})
	return name
}

// shard names the shard of a namespace that a hash or key lies in, as docs/WIRE.md
// has it.
func shard(namespace, member string) string {
	return fmt.Sprintf("%s/%d", namespace, crc32.ChecksumIEEE([]byte(member))%shards.Default)
}

// caller calls one structure over and over.
type caller struct {
	name      string
	elsewhere func(ctx context.Context) error // a call that does not need the silent node
	there     func(ctx context.Context) error // one that does
}

// callers opens structures of each kind. Those that lie on one node are opened
// twice, for a call elsewhere and one there.
func (c *silentCluster) callers(suffix string) []caller {
	c.t.Helper()
	name, silentName := c.name(c.elsewhere), c.name(c.has)
	var list []caller
	add := func(name string, elsewhere, there func(context.Context) error) {
		list = append(list, caller{name + suffix, elsewhere, there})
	}

	mark := func(name string) func(context.Context) error {
		k := openIck(c.t, c.client, name)
		return func(ctx context.Context) error {
			_, err := k.AddNow(ctx, "m")
			return err
		}
	}
	add("ick", mark(name), mark(silentName))

	write := func(name string) func(context.Context) error {
		q := openQueue(c.t, c.client, name)
		return func(ctx context.Context) error {
			_, err := q.Write(ctx, fairqueue.Draft{Tenant: "a"})
			return err
		}
	}
	add("queue", write(name), write(silentName))

	track := func(name string) func(context.Context) error {
		tr := openTracker(c.t, c.client, name, &table{})
		return func(ctx context.Context) error { return tr.Add(ctx, "id") }
	}
	add("tracker", track(name), track(silentName))

	locker := openLocker(c.t, c.client)
	lock := func(name string) func(context.Context) error {
		return func(ctx context.Context) error {
			held, err := locker.Acquire(ctx, name, time.Second, lease.AcquireConfig{}) // it may be lost with the call
			if err != nil {
				return err
			}
			return held.Release(ctx)
		}
	}
	add("lease", lock(name), lock(silentName))

	hashes, keys := openHashes(c.t, c.client, name), openKeys(c.t, c.client, name)
	setField := func(hash string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := hashes.Set(ctx, hash, "field", nil, expiry.SetConfig{TTL: long})
			return err
		}
	}
	setKey := func(key string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := keys.Set(ctx, key, nil, long, pinned.SetConfig{})
			return err
		}
	}
	member := c.name(func(member string) bool { return c.elsewhere(shard(name, member)) })
	silentMember := c.name(func(member string) bool { return c.has(shard(name, member)) })
	add("hashes", setField(member), setField(silentMember))
	add("keys", setKey(member), setKey(silentMember))

	namespace := c.name(func(name string) bool { return c.elsewhere("fetch/" + name) })
	cache := openCache(c.t, c.client, namespace, fetch.Config{})
	space := "fetch/" + namespace
	hit := func(key string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, r, err := fetch.Get(ctx, cache, key, says("v"))
			if err == nil && r.Outcome == fetch.Bypass {
				err = errBypassed
			}
			return err
		}
	}
	miss := func(key string) func(context.Context) error {
		get := hit(key)
		return func(ctx context.Context) error {
			if err := cache.Forget(ctx, key); err != nil {
				return err
			}
			return get(ctx)
		}
	}
	key := func(value, lease func(name string) bool) string {
		return c.name(func(key string) bool { return value(shard(space, key)) && lease(space+"/"+key) })
	}
	add("fetch, hits", hit(key(c.elsewhere, c.elsewhere)), hit(key(c.has, c.elsewhere)))
	add("fetch, misses", miss(key(c.elsewhere, c.elsewhere)), miss(key(c.elsewhere, c.has)))
	return list
}

// channel marks in a channel whose own record lies on the node that will be silent.
func (c *silentCluster) channel() caller {
	c.t.Helper()
	name := c.name(c.has)
	channel, err := ick.NewChannel(c.client, name, ick.ChannelConfig{})
	must(c.t, "NewChannel", err)
	mark := func(on func(name string) bool) func(context.Context) error {
		member := c.name(func(member string) bool {
			return on(fmt.Sprintf("%s/%d", name, crc32.ChecksumIEEE([]byte(member))%4))
		})
		return func(ctx context.Context) error {
			_, err := channel.AddNow(ctx, member)
			return err
		}
	}
	// Icks of a channel are few: perhaps none lies on the node.
	return caller{"channel", mark(c.elsewhere), func(ctx context.Context) error {
		_, err := channel.Stats(ctx)
		return err
	}}
}

// bare names the caller that uses no structure.
const bare = "GET"

func (c *silentCluster) bare() caller {
	c.t.Helper()
	get := func(name string) func(context.Context) error {
		return func(ctx context.Context) error {
			err := c.client.Do(ctx, c.client.B().Get().Key(name).Build()).Error()
			if rueidis.IsRedisNil(err) {
				return nil
			}
			return err
		}
	}
	return caller{bare, get(c.name(c.elsewhere)), get(c.name(c.has))}
}

// measured is the results of a caller's calls elsewhere.
type measured struct {
	calls, waits int
	took         time.Duration // of all calls
	err          error         // the first
}

func (m measured) rate() float64 { return float64(m.calls) / m.took.Seconds() }

// measure has all callers call for a time, with a pause between calls, elsewhere, and
// there as well if that is set.
func measure(ctx context.Context, period, pause time.Duration, callers []caller, there bool) map[string]measured {
	ctx, cancel := context.WithTimeout(ctx, period)
	defer cancel()
	var mu sync.Mutex
	all := make(map[string]measured, len(callers))
	var calling sync.WaitGroup
	for _, c := range callers {
		calling.Go(func() {
			m := measured{}
			for retry.Sleep(ctx, pause) {
				began := time.Now()
				err := c.elsewhere(ctx)
				took := time.Since(began)
				if ctx.Err() != nil && took < waited {
					break // cut off by the end
				}
				m.calls++
				m.took += took
				switch {
				case took >= waited || errors.Is(err, errBypassed):
					m.waits++
				case m.err == nil:
					m.err = err
				}
			}
			mu.Lock()
			defer mu.Unlock()
			all[c.name] = m
		})
		calling.Go(func() {
			for there && retry.Sleep(ctx, pause) {
				short, cancel := context.WithTimeout(ctx, 3*time.Second)
				_ = c.there(short)
				cancel()
			}
		})
	}
	calling.Wait()
	return all
}
