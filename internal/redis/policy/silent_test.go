package policy

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/test/redistest"
)

// forever is longer than a test: a call that waits that long fails it.
const forever = time.Hour

// several is a client of several servers.
type several struct {
	rueidis.Client
	nodes map[string]rueidis.Client
}

func (s *several) Nodes() map[string]rueidis.Client { return s.nodes }

// gated is a node that says nothing while its gate is closed.
type gated struct {
	rueidis.Client
	asked atomic.Int64

	mu   sync.Mutex
	gate chan struct{} // closed when the gate is open
}

func newGated(client rueidis.Client) *gated {
	g := &gated{Client: client, gate: make(chan struct{})}
	g.open()
	return g
}

func (g *gated) open() { close(g.current()) }

func (g *gated) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.gate = make(chan struct{})
}

func (g *gated) current() chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.gate
}

func (g *gated) Do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	g.asked.Add(1)
	select {
	case <-g.current():
		return g.Client.Do(ctx, command)
	case <-ctx.Done():
		return rueidis.NewResult(rueidis.RedisMessage{}, ctx.Err())
	}
}

// pair is a watch over two servers with these policies.
func pair(t *testing.T, policies ...string) (w *Watch, nodes [2]*gated, client *several) {
	t.Helper()
	client = &several{nodes: map[string]rueidis.Client{}}
	for i, policy := range policies {
		nodes[i] = newGated(redistest.Start(t, redistest.Options{MaxMemory: "8mb", Policy: policy}).Client(t))
		client.nodes[policy] = nodes[i]
	}
	w, _ = watch(client, false)
	return w, nodes, client
}

func wantRefused(t *testing.T, what string, w *Watch, want bool) {
	t.Helper()
	if err := w.Check(t.Context()); errors.Is(err, millrace.ErrEvictable) != want || err != nil && !want {
		t.Fatalf("%s: Check = %v, want it refused: %v", what, err, want)
	}
}

// TestReplicas: a replica is not asked for its policy.
func TestReplicas(t *testing.T) {
	t.Parallel()
	servers := redistest.Replicated(t, 1)
	client := &several{nodes: map[string]rueidis.Client{}}
	for _, server := range []*redistest.Server{servers.Master, servers.Replicas[0]} {
		node := server.Client(t)
		set(t, node, "CONFIG", "RESETSTAT")
		client.nodes[server.Addr()] = node
	}
	w, _ := watch(client, false)
	for range 2 {
		if err := refreshed(t, w); err != nil {
			t.Errorf("Check = %v", err)
		}
	}
	master, replica := servers.Master.Info("commandstats"), servers.Replicas[0].Info("commandstats")
	if master["cmdstat_info"] == "" || replica["cmdstat_role"] == "" {
		t.Error("the master was not asked for INFO, or the replica not for its role")
	}
	if got, ok := replica["cmdstat_info"]; ok {
		t.Errorf("the replica was asked for INFO: %s", got)
	}
}

// TestSilentMaster: once there is a verdict no call waits for a master that hangs,
// however old the verdict is.
func TestSilentMaster(t *testing.T) {
	t.Parallel()
	servers := redistest.Cluster(t, 3, 0)
	servers.HoldFailovers()
	w, _ := watch(servers.Client(t), false)
	w.limits = limits{fresh: forever, wait: forever, probe: forever}
	wantRefused(t, "at first", w, false)
	servers.Nodes[1].Pause()
	redistest.Eventually(t, "a refresh waits for the silent node, and no call does", func() bool {
		if !w.refreshing() {
			w.age(forever)
		}
		for range 1000 { // a call that waits does so until the test's time is over
			wantRefused(t, "while a node is silent", w, false)
		}
		return w.refreshing()
	})
	servers.Nodes[1].Resume()
	redistest.Eventually(t, "the refresh is over", func() bool { return !w.refreshing() })
}

// TestFirstVerdict: all nodes are asked at the same time. A silent one delays no
// call beyond the limit, and does not hide that another may evict keys.
func TestFirstVerdict(t *testing.T) {
	t.Parallel()
	w, nodes, _ := pair(t, "volatile-lru", "noeviction")
	w.limits = limits{fresh: forever, wait: forever, probe: forever}
	nodes[0].shut()
	nodes[1].shut()
	checked := make(chan error, 1)
	go func() { checked <- w.Check(t.Context()) }()
	redistest.Eventually(t, "both are asked", func() bool { return nodes[0].asked.Load() == 1 && nodes[1].asked.Load() == 1 })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Check(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Check that is cancelled = %v", err)
	}
	nodes[0].open()
	nodes[1].open()
	if err := <-checked; err != nil {
		t.Errorf("Check = %v", err)
	}

	for _, other := range []string{"volatile-lru", "allkeys-lru"} {
		w, nodes, _ := pair(t, "noeviction", other)
		w.limits = limits{fresh: forever, wait: 300 * time.Millisecond, probe: forever}
		nodes[0].shut()
		wantRefused(t, "beside a silent node", w, other == "allkeys-lru")
		if !w.refreshing() {
			t.Error("the silent node is not waited for in the background")
		}
		nodes[0].open()
	}
}

// TestFirstCallerLeaves: the refresh that a call started goes on without it.
func TestFirstCallerLeaves(t *testing.T) {
	t.Parallel()
	w, nodes, _ := pair(t, "allkeys-lru")
	w.limits = limits{fresh: forever, wait: forever, probe: forever}
	nodes[0].shut()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Check(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Check = %v, want that it was cancelled", err)
	}
	redistest.Eventually(t, "the node is asked", func() bool { return nodes[0].asked.Load() == 1 })
	nodes[0].open()
	wantRefused(t, "by the next call", w, true)
}

// TestSilentAtFirst: a node that has never answered counts as safe only until it
// answers: then calls are refused, or after the next probe if its probe has ended.
func TestSilentAtFirst(t *testing.T) {
	t.Parallel()
	for name, probe := range map[string]time.Duration{"during the probe": forever, "after it": 20 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, nodes, _ := pair(t, "noeviction", "allkeys-lru")
			w.limits = limits{fresh: 60 * time.Millisecond, wait: 10 * time.Millisecond, probe: probe}
			nodes[1].shut()
			wantRefused(t, "at first", w, false)
			if probe != forever {
				redistest.Eventually(t, "it is asked again", func() bool {
					wantRefused(t, "while it is silent", w, false)
					return nodes[1].asked.Load() > 3
				})
			}
			nodes[1].open()
			redistest.Eventually(t, "it is refused", func() bool { return errors.Is(w.Check(t.Context()), millrace.ErrEvictable) })
		})
	}
}

// TestLastWordIsKept: while a node that may evict any key is silent, calls are still
// refused.
func TestLastWordIsKept(t *testing.T) {
	t.Parallel()
	w, nodes, _ := pair(t, "noeviction", "allkeys-lru")
	wantRefused(t, "at first", w, true)
	w.limits = limits{fresh: time.Millisecond, wait: time.Millisecond, probe: 2 * time.Millisecond}
	refreshed(t, w)
	nodes[1].shut()
	before := nodes[1].asked.Load()
	redistest.Eventually(t, "it is asked several times", func() bool {
		wantRefused(t, "while it is silent", w, true)
		return nodes[1].asked.Load() > before+3
	})
}

// TestOneRefreshAtATime: many calls that find the verdict old start one refresh.
func TestOneRefreshAtATime(t *testing.T) {
	t.Parallel()
	w, nodes, _ := pair(t, "noeviction")
	w.limits = limits{fresh: forever, wait: forever, probe: forever}
	wantRefused(t, "at first", w, false)
	redistest.Eventually(t, "the refresh is over", func() bool { return !w.refreshing() })
	w.age(forever)
	nodes[0].shut()
	before := nodes[0].asked.Load()
	var calls sync.WaitGroup
	for range 20 {
		calls.Go(func() {
			for range 50 {
				if err := w.Check(t.Context()); err != nil {
					t.Errorf("Check = %v", err)
				}
			}
		})
	}
	calls.Wait()
	if one, other := w.refresh(t.Context(), forever), w.refresh(t.Context(), forever); one != other {
		t.Error("two refreshes are under way")
	}
	redistest.Eventually(t, "it is asked", func() bool { return nodes[0].asked.Load() > before })
	if got := nodes[0].asked.Load() - before; got != 1 {
		t.Errorf("a node that hangs was asked %d times, want once", got)
	}
	nodes[0].open()
}

// TestKnownToBeSilent: a call that waits for a verdict, after a long time without calls, does
// not wait for a node that was silent the last time.
func TestKnownToBeSilent(t *testing.T) {
	t.Parallel()
	w, nodes, _ := pair(t, "noeviction", "volatile-lru")
	w.limits = limits{fresh: forever, wait: time.Millisecond, probe: 2 * time.Millisecond}
	nodes[1].shut()
	wantRefused(t, "at first", w, false)
	redistest.Eventually(t, "the refresh is over", func() bool { return !w.refreshing() })
	w.limits = limits{fresh: forever, wait: forever, probe: forever}
	w.age(2 * forever)
	asked := nodes[1].asked.Load()
	wantRefused(t, "much later", w, false)
	redistest.Eventually(t, "it is asked all the same", func() bool { return nodes[1].asked.Load() > asked })
	nodes[1].open()
}

// TestProbesEnd: a node that never answers holds no goroutine for longer than the
// limit of a probe, and is then left alone, as are those that have answered.
func TestProbesEnd(t *testing.T) {
	t.Parallel()
	w, nodes, _ := pair(t, "noeviction", "volatile-lru")
	w.limits = limits{fresh: forever, wait: time.Millisecond, probe: 500 * time.Millisecond}
	nodes[1].shut()
	for range 3 {
		wantRefused(t, "beside a silent node", w, false)
		redistest.Eventually(t, "the refresh ends", func() bool { return !w.refreshing() })
	}
	if n := nodes[0].asked.Load(); n != 2 { // for its role and its memory
		t.Errorf("a node whose word is fresh was asked %d times, want twice", n)
	}
	if n := nodes[1].asked.Load(); n != 1 {
		t.Errorf("a silent node was asked %d times at once, want once", n)
	}
}

// TestPauses: the pauses between probes of a silent node double from a sixtieth of the time
// for which an answer is valid to a fourth of it. An answer ends them.
func TestPauses(t *testing.T) {
	t.Parallel()
	var n node
	for failures, most := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 15 * time.Second, 15 * time.Second} {
		n.learn(answer{err: errors.New("silent")}, time.Minute)
		if n.pause < most/2 || n.pause > most {
			t.Errorf("pause after %d failures = %v, want up to %v", failures+1, n.pause, most)
		}
		if n.due(n.at.Add(n.pause-1), 0) || !n.due(n.at.Add(n.pause), forever) {
			t.Error("a silent node is not left alone for its pause")
		}
	}
	n.learn(answer{state: safe}, time.Minute)
	if n.due(n.at.Add(time.Minute-1), time.Minute) || !n.due(n.at.Add(time.Minute), time.Minute) || !n.due(n.at.Add(time.Second), time.Second) {
		t.Errorf("a node that answers is asked at the wrong time: %+v", n)
	}
}

// TestNodesComeAndGo: the next refresh probes a node that has joined, and forgets one that
// has left, even if it may evict keys.
func TestNodesComeAndGo(t *testing.T) {
	t.Parallel()
	w, nodes, client := pair(t, "noeviction", "allkeys-lru")
	both := client.nodes
	client.nodes = map[string]rueidis.Client{"noeviction": nodes[0]}
	if err := refreshed(t, w); err != nil {
		t.Errorf("alone: %v", err)
	}
	client.nodes = both
	if err := refreshed(t, w); !errors.Is(err, millrace.ErrEvictable) {
		t.Errorf("a node has joined: Check = %v, want the refusal", err)
	}
	nodes[1].shut()
	client.nodes = map[string]rueidis.Client{"noeviction": nodes[0]}
	if err := refreshed(t, w); err != nil || len(w.nodes) != 1 {
		t.Errorf("it has left: Check = %v, and %d nodes are remembered, want one", err, len(w.nodes))
	}
}

// TestServerIsGone: a dead server causes no error here, and is probed again.
func TestServerIsGone(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{MaxMemory: "8mb", Policy: "allkeys-lru"})
	w, logged := watch(server.Client(t), false)
	w.limits.fresh = 60 * time.Millisecond
	server.Kill()
	wantRefused(t, "without a server", w, false)
	wantLog(t, logged, 0, 0)
	server.Restart()
	redistest.Eventually(t, "the server is asked again", func() bool { return errors.Is(w.Check(t.Context()), millrace.ErrEvictable) })
	redistest.Eventually(t, "the refresh ends", func() bool { return !w.refreshing() })
	if !strings.Contains(logged.String(), "things are not safe here") {
		t.Errorf("logged %q, want the change", logged.String())
	}
}
