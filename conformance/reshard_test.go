package conformance

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/expiry"
	"github.com/millrace/millrace/fetch"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/lease"
	"github.com/millrace/millrace/pinned"
	"github.com/millrace/millrace/tracker"
)

// TestResharding moves the slots of structures from node to node and back, key by key,
// while they are in use. No client may notice, but for the time that a structure is in two
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

// reshardings has the structures of which a Cluster may have one. scatter is not for a Cluster,
// since its values have the callers' names, and so lie in any slot.
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
		h, err := expiry.Open(t.Context(), client, name, expiry.Config{Shards: 1})
		must(t, "Open", err)
		for worker := range 6 { // a hash that is not there waits for its slot
			setField(t, h, fmt.Sprint("h", worker), "n", "0", expiry.SetConfig{})
		}
		return &counters{hashes: h}, "mr:hash:{" + name + "/0}"
	}},
	{"keys", false, func(t *testing.T, client rueidis.Client, name string) (traffic, string) {
		t.Helper()
		k, err := pinned.Open(t.Context(), client, name, pinned.Config{Shards: 1})
		must(t, "Open", err)
		return &keepers{keys: k}, "mr:key:{" + name + "/0}"
	}},
	{"queue", false, func(t *testing.T, client rueidis.Client, name string) (traffic, string) {
		t.Helper()
		return newPost(t, openQueue(t, client, name)), "mr:queue:{" + name + "}"
	}},
	{"queue in streams", false, func(t *testing.T, client rueidis.Client, name string) (traffic, string) {
		t.Helper()
		return newPost(t, queueOf(t, client, name, inStreams)), "mr:queue:{" + name + "}"
	}},
	{"queue with limits", false, func(t *testing.T, client rueidis.Client, name string) (traffic, string) {
		t.Helper()
		return newLimitedPost(t, openQueue(t, client, name)), "mr:queue:{" + name + "}"
	}},
	{"fetch", false, func(t *testing.T, client rueidis.Client, name string) (traffic, string) {
		t.Helper()
		_, err := pinned.Open(t.Context(), client, "fetch/"+name, pinned.Config{Shards: 1})
		must(t, "Open", err)
		c, err := fetch.Open(t.Context(), client, name, fetch.Config{TTL: 20 * time.Millisecond})
		must(t, "fetch.Open", err)
		return &fetchers{cache: c, runs: map[string][]interval{}}, "mr:key:{fetch/" + name + "/0}"
	}},
	{"ick", true, func(t *testing.T, client rueidis.Client, name string) (traffic, string) {
		t.Helper()
		k, err := ick.New(client, name, ick.Config{})
		must(t, "ick.New", err)
		return &markers{ick: k, marked: map[string]bool{}}, name
	}},
}
