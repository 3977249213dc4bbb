package membership

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/devfleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/failover"
	"github.com/millrace/millrace/internal/redis/redisproc"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/test/redistest"
)

// every is how often agents look in tests.
const every = 50 * time.Millisecond

var (
	quick = directory.Settings{ViewTTL: 300 * time.Millisecond, ReplyTimeout: 250 * time.Millisecond, PlacementTTL: 500 * time.Millisecond}
	quiet = slog.New(slog.DiscardHandler)
)

// world is a fleet of real servers, each of which is started again when it ends.
type world struct {
	t       *testing.T
	servers *devfleet.Fleet
	dir     *directory.Directory
}

func start(t *testing.T, cfg devfleet.Config) *world {
	t.Helper()
	cfg.Binary, cfg.Settings = redistest.Binary(t), quick
	servers, err := devfleet.Start(t.Context(), cfg)
	must(t, err)
	t.Cleanup(func() { must(t, servers.Stop()) })
	dir, err := directory.Dial(rueidis.ClientOption{InitAddress: []string{servers.DirectoryAddr()}})
	must(t, err)
	t.Cleanup(dir.Close)
	return &world{t: t, servers: servers, dir: dir}
}

// spare starts an empty server with a boot fence on a node.
func (w *world) spare(node string) directory.Member {
	w.t.Helper()
	proc, err := redisproc.Start(w.t.Context(), redisproc.Config{Binary: redistest.Binary(w.t), TCP: true, Args: []string{
		"--replicaof", "127.0.0.1", "1", "--replica-serve-stale-data", "no", "--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0",
	}})
	must(w.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var supervisor sync.WaitGroup
	supervisor.Go(func() {
		for {
			select {
			case <-proc.Done():
				if ctx.Err() != nil || proc.Restart(ctx) != nil {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	})
	w.t.Cleanup(func() {
		cancel()
		supervisor.Wait()
		must(w.t, errors.Join(proc.Kill(), proc.Stop()))
	})
	return directory.Member{Addr: proc.Addr(), Node: node}
}

// spareOnNewNode starts an empty server on a node that has none.
func (w *world) spareOnNewNode() directory.Member {
	w.t.Helper()
	m := w.spare("")
	m.Node = "node of " + m.Addr
	return m
}

// agent runs an agent until the test ends.
func (w *world) agent() {
	w.t.Helper()
	servers := failover.NewRedis(rueidis.ClientOption{})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = failover.New(w.dir, servers, failover.Config{Interval: every, Logger: quiet}).Run(ctx) })
	w.t.Cleanup(func() {
		cancel()
		running.Wait()
		servers.Close()
	})
}

// config reports steps to the log of the test.
func (w *world) config(progress func(step string)) *Config {
	servers := failover.NewRedis(rueidis.ClientOption{})
	w.t.Cleanup(servers.Close)
	return &Config{Agent: failover.New(w.dir, servers, failover.Config{Interval: every, Logger: quiet}).Help, Progress: func(step string) {
		w.t.Log(step)
		progress(step)
	}}
}

// do carries out a request as a command does, and returns its plan.
func (w *world) do(ctx context.Context, r Request, progress func(step string)) (*Plan, error) {
	m, err := w.dir.Confirm(ctx, 0)
	if err != nil {
		return nil, err
	}
	p, err := Make(m, r)
	if err != nil || len(p.Tasks) == 0 {
		return p, err
	}
	cfg := w.config(progress)
	if !p.Begun {
		if _, err := cfg.Examine(ctx, m, p); err != nil {
			return nil, err
		}
	}
	_, err = cfg.CarryOut(ctx, w.dir, m, r, p)
	return p, err
}

// done carries out a request to its end.
func (w *world) done(r Request) {
	w.t.Helper()
	began := time.Now()
	if _, err := w.do(w.t.Context(), r, func(string) {}); err != nil {
		w.story()
		w.t.Fatalf("%+v = %v", r, err)
	}
	w.t.Logf("%s took %v", ID(r), time.Since(began).Round(time.Millisecond))
}

// story logs the events of agents.
func (w *world) story() {
	events, err := w.dir.Events(w.t.Context())
	must(w.t, err)
	for _, e := range slices.Backward(events[:min(len(events), 30)]) {
		w.t.Logf("%s partition %d epoch %d: %s", e.At.Format("15:04:05.000"), e.Partition, e.Epoch, e.What)
	}
}

func (w *world) mapNow() *directory.Map {
	w.t.Helper()
	m, err := w.dir.Confirm(w.t.Context(), 0)
	must(w.t, err)
	return m
}

// settled waits until all partitions are healthy, and no tasks are left.
func (w *world) settled(f *fleet.Fleet) {
	w.t.Helper()
	var last any
	healthy := func() bool {
		s, err := f.Status(w.t.Context())
		last = s
		tasks := slices.ContainsFunc(w.mapNow().Partitions, func(p directory.Partition) bool { return p.Task != nil || p.Leaving != nil })
		return err == nil && s.State == fleet.Healthy && !tasks
	}
	for deadline := time.Now().Add(time.Minute); !healthy(); {
		if time.Now().After(deadline) {
			w.story()
			w.t.Fatalf("after a minute the fleet is not healthy: %+v", last)
		}
		retry.Sleep(w.t.Context(), 20*time.Millisecond)
	}
}

// client opens the fleet as a program does whose writes wait for a replica.
func (w *world) client() *fleet.Fleet {
	w.t.Helper()
	f, err := fleet.Open(w.t.Context(), w.dir, fleet.Config{Logger: quiet, WaitReplicas: 1})
	must(w.t, err)
	w.t.Cleanup(f.Close)
	return f
}

// load writes to sets of several tags until it is stopped, and reads its writes.
type load struct {
	f    *fleet.Fleet
	stop func()

	mu        sync.Mutex
	confirmed map[string][]string // members by key
	stale     []string            // reads that missed a confirmed write
}

func (w *world) load() *load {
	w.t.Helper()
	l := &load{f: w.client(), confirmed: map[string][]string{}}
	ctx, cancel := context.WithCancel(context.Background())
	var writing sync.WaitGroup
	for i := range 8 {
		writing.Go(func() {
			key := fmt.Sprintf("{tag-%d}set", i)
			for n := 0; ctx.Err() == nil; n++ {
				l.write(ctx, key, fmt.Sprint(n))
				retry.Sleep(ctx, 3*time.Millisecond)
			}
		})
	}
	l.stop = sync.OnceFunc(func() { cancel(); writing.Wait() })
	w.t.Cleanup(l.stop)
	return l
}

// write adds a member, and looks for it if that was confirmed.
func (l *load) write(ctx context.Context, key, member string) {
	c := l.f.Client()
	if c.Do(ctx, c.B().Sadd().Key(key).Member(member).Build()).Error() != nil {
		return
	}
	there, err := c.Do(ctx, c.B().Sismember().Key(key).Member(member).Build()).AsBool()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.confirmed[key] = append(l.confirmed[key], member)
	if err == nil && !there {
		l.stale = append(l.stale, key+" "+member)
	}
}

func (l *load) count() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, members := range l.confirmed {
		n += len(members)
	}
	return n
}

// goesOn waits until more is confirmed of every tag.
func (l *load) goesOn(t *testing.T) {
	t.Helper()
	before := l.counts()
	redistest.Eventually(t, "writes go on", func() bool {
		for i, n := range l.counts() {
			if n < before[i]+3 {
				return false
			}
		}
		return true
	})
}

func (l *load) counts() [8]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	var counts [8]int
	for i := range counts {
		counts[i] = len(l.confirmed[fmt.Sprintf("{tag-%d}set", i)])
	}
	return counts
}

// check stops the load, and looks for all that was confirmed.
func (l *load) check(t *testing.T) {
	t.Helper()
	l.goesOn(t)
	l.stop()
	lost := 0
	for key, members := range l.confirmed {
		c := l.f.Client()
		var there []string
		must(t, retry.Policy{}.Do(t.Context(), func(int) (err error) {
			there, err = c.Do(t.Context(), c.B().Smembers().Key(key).Build()).AsStrSlice()
			return err
		}))
		for _, m := range members {
			if !slices.Contains(there, m) {
				lost++
			}
		}
	}
	t.Logf("%d writes were confirmed", l.count())
	if lost > 0 || len(l.stale) > 0 {
		t.Errorf("%d of %d confirmed writes are lost, and reads missed %s", lost, l.count(), strings.Join(l.stale, ", "))
	}
}

// soak reports whether there is time for more.
func soak() bool { return os.Getenv("MILLRACE_SOAK") != "" }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
