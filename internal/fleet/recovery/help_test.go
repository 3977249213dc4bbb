package recovery_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/fleet/etcd"
	"github.com/millrace/millrace/internal/devfleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/failover"
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/fleet/recovery"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/redis/script"
	"github.com/millrace/millrace/internal/test/etcdtest"
	"github.com/millrace/millrace/internal/test/redistest"
)

var (
	quick  = directory.Settings{ViewTTL: 500 * time.Millisecond, ReplyTimeout: 400 * time.Millisecond, PlacementTTL: time.Second}
	silent = slog.New(slog.DiscardHandler)
)

// world is a fleet of real servers.
type world struct {
	t       *testing.T
	servers *devfleet.Fleet
	dir     *directory.Directory
}

func start(t *testing.T, cfg devfleet.Config) *world {
	t.Helper()
	cfg.Binary = redistest.Binary(t)
	if cfg.Settings == (directory.Settings{}) {
		cfg.Settings = quick
	}
	servers, err := devfleet.Start(t.Context(), cfg)
	must(t, err)
	t.Cleanup(func() { must(t, servers.Stop()) })
	w := &world{t: t, servers: servers}
	if cfg.Directory == nil {
		w.dir = w.dial(servers.DirectoryAddr())
	}
	return w
}

func (w *world) dial(addr string) *directory.Directory {
	w.t.Helper()
	dir, err := directory.Dial(rueidis.ClientOption{InitAddress: []string{addr}})
	must(w.t, err)
	w.t.Cleanup(dir.Close)
	return dir
}

// inEtcd starts an empty directory in etcd.
func (w *world) inEtcd() *directory.Directory {
	w.t.Helper()
	dir, _, err := etcd.Open(etcdtest.Start(w.t, etcdtest.Options{Members: 1}).URL("f"))
	must(w.t, err)
	w.t.Cleanup(dir.Close)
	return dir
}

// elsewhere starts an empty directory.
func (w *world) elsewhere() *directory.Directory {
	w.t.Helper()
	return w.dial(redistest.Durable(w.t).Addr())
}

// agent runs an agent that keeps copies until stop is called, or the test ends.
func (w *world) agent(dir *directory.Directory) (stop func()) {
	w.t.Helper()
	return w.agentWith(dir, "")
}

func (w *world) agentWith(dir *directory.Directory, archive string) (stop func()) {
	w.t.Helper()
	servers := failover.NewRedis(rueidis.ClientOption{})
	agent := failover.New(dir, servers, failover.Config{Interval: 100 * time.Millisecond, Archive: archive, Logger: silent})
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { _ = agent.Run(ctx) })
	stop = sync.OnceFunc(func() {
		cancel()
		work.Wait()
		servers.Close()
	})
	w.t.Cleanup(stop)
	return stop
}

func (w *world) client(dir *directory.Directory, cfg fleet.Config) *fleet.Fleet {
	w.t.Helper()
	cfg.Logger = silent
	f, err := fleet.Open(w.t.Context(), dir, cfg)
	must(w.t, err)
	w.t.Cleanup(f.Close)
	return f
}

func mapOf(t *testing.T, dir *directory.Directory) *directory.Map {
	t.Helper()
	m, err := dir.Confirm(t.Context(), 0)
	must(t, err)
	return m
}

func (w *world) server(addr string) devfleet.Server {
	w.t.Helper()
	all := w.servers.Servers()
	i := slices.IndexFunc(all, func(s devfleet.Server) bool { return s.Addr == addr })
	if i < 0 {
		w.t.Fatalf("no server listens at %s", addr)
	}
	return all[i]
}

// lose deletes all that the directory has.
func (w *world) lose() { w.do(w.servers.DirectoryAddr(), "FLUSHALL") }

// loseWhole deletes all that the directory has, at a moment when all members have a copy of
// its map: an agent may change it at any time. It returns that map.
func (w *world) loseWhole() (m *directory.Map) {
	w.t.Helper()
	const script = "if string.match(redis.call('HGET', KEYS[1], 'epoch'), ' v2 (%d+) ') ~= ARGV[1] then return 0 end redis.call('FLUSHALL') return 1"
	redistest.Eventually(w.t, "the map that all members have is lost", func() bool {
		m = mapOf(w.t, w.dir)
		for _, copied := range w.copiesOf() {
			if copied != m.Epoch {
				return false
			}
		}
		lost, err := w.do(w.servers.DirectoryAddr(), "EVAL", script, "1", "mr:fleet:{directory}", fmt.Sprint(m.Epoch)).ToInt64()
		must(w.t, err)
		return lost == 1
	})
	return m
}

// do sends a command to one server.
func (w *world) do(addr string, args ...string) rueidis.RedisResult {
	w.t.Helper()
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true, ForceSingleClient: true})
	must(w.t, err)
	defer c.Close()
	result := c.Do(w.t.Context(), c.B().Arbitrary(args...).Build())
	if err := result.Error(); err != nil && !rueidis.IsRedisNil(err) {
		w.t.Fatalf("%s: %v: %v", addr, args, err)
	}
	return result
}

// copiesOf returns the epochs of the copies of all members, by address.
func (w *world) copiesOf() map[string]int64 {
	w.t.Helper()
	epochs := map[string]int64{}
	for _, s := range w.servers.Servers() {
		text, _ := w.do(s.Addr, "GET", members.MapKey).ToString()
		epochs[s.Addr] = members.ParseCopy(text).Epoch
	}
	return epochs
}

// option is how to connect to members.
func (*world) option() rueidis.ClientOption { return rueidis.ClientOption{} }

// settled waits until all partitions are healthy, and all members have the present map.
func (w *world) settled(dir *directory.Directory, f *fleet.Fleet) {
	w.t.Helper()
	w.serves(f, fleet.Healthy)
	redistest.Eventually(w.t, "all members have the present map", func() bool {
		epoch := mapOf(w.t, dir).Epoch
		for _, copied := range w.copiesOf() {
			if copied != epoch {
				return false
			}
		}
		return true
	})
}

// serves waits until the fleet is in a state.
func (w *world) serves(f *fleet.Fleet, state fleet.State) {
	w.t.Helper()
	redistest.Eventually(w.t, "the fleet is "+string(state), func() bool {
		s, err := f.Status(w.t.Context())
		return err == nil && s.State == state
	})
}

// find calls Find, by default for the fleet's own directory.
func (w *world) find(cfg recovery.Config) *recovery.Found {
	w.t.Helper()
	if cfg.Directory == nil {
		cfg.Directory = w.dir
	}
	f, err := find(w.t, cfg)
	must(w.t, err)
	return f
}

func find(t *testing.T, cfg recovery.Config) (*recovery.Found, error) {
	t.Helper()
	servers := failover.NewRedis(rueidis.ClientOption{})
	defer servers.Close()
	cfg.Servers = servers
	return recovery.Find(t.Context(), cfg)
}

// load writes to several tags until it is stopped, and records the writes that a replica
// confirmed.
type load struct {
	w    *world
	f    *fleet.Fleet
	stop func()

	mu   sync.Mutex
	done map[string][]string // members by tag
	n    int
}

func (w *world) load(f *fleet.Fleet, tags ...string) *load {
	l := &load{w: w, f: f, done: map[string][]string{}}
	ctx, cancel := context.WithCancel(context.Background())
	var writing sync.WaitGroup
	for i, tag := range tags {
		writing.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				member := fmt.Sprint(i, "-", n)
				if add(ctx, f, tag, member) == nil {
					l.mu.Lock()
					l.done[tag] = append(l.done[tag], member)
					l.n++
					l.mu.Unlock()
				}
				retry.Sleep(ctx, 2*time.Millisecond)
			}
		})
	}
	l.stop = sync.OnceFunc(func() { cancel(); writing.Wait() })
	w.t.Cleanup(l.stop)
	return l
}

func add(ctx context.Context, f *fleet.Fleet, tag, member string) error {
	c := f.Client()
	return c.Do(ctx, c.B().Sadd().Key("{"+tag+"}set").Member(member).Build()).Error()
}

// goesOn waits until more is confirmed.
func (l *load) goesOn() {
	l.w.t.Helper()
	count := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.n
	}
	before := count()
	redistest.Eventually(l.w.t, "writes go on", func() bool { return count() > before+20 })
}

// check stops the load, and checks by another client that everything confirmed is there, and
// that each tag has one home.
func (l *load) check(f *fleet.Fleet) {
	t := l.w.t
	t.Helper()
	l.stop()
	for tag, want := range l.done {
		if missing := lost(t, f, tag, want); len(missing) > 0 {
			t.Errorf("%d of %d confirmed writes to %s are lost", len(missing), len(want), tag)
		}
		homes := 0
		for id, p := range mapOf(t, directory.Of(f.Client())).Partitions {
			text, _ := l.w.do(p.Master.Addr, "GET", members.RecordKey(tag)).ToString()
			if r, err := members.ParseRecord(text); err == nil && r.Home == id {
				homes++
			}
		}
		if homes != 1 {
			t.Errorf("%s has %d homes, want 1", tag, homes)
		}
	}
}

// lost returns the members that are not in the set of a tag.
func lost(t *testing.T, f *fleet.Fleet, tag string, want []string) (missing []string) {
	t.Helper()
	c := f.Client()
	must(t, retry.Policy{}.Do(t.Context(), func(int) error {
		there, err := c.Do(t.Context(), c.B().Smembers().Key("{"+tag+"}set").Build()).AsStrSlice()
		has := map[string]bool{}
		for _, member := range there {
			has[member] = true
		}
		missing = nil
		for _, member := range want {
			if !has[member] {
				missing = append(missing, member)
			}
		}
		return err
	}))
	return missing
}

// readOnly waits until a client takes no writes because its map is not confirmed.
func (w *world) readOnly(f *fleet.Fleet) {
	w.t.Helper()
	redistest.Eventually(w.t, "the client is read-only", func() bool {
		ctx, cancel := script.Within(w.t.Context(), 100*time.Millisecond)
		defer cancel()
		return errors.Is(add(ctx, f, "a", "x"), fleet.ErrReadOnly)
	})
}

func says(lines []string, parts ...string) bool {
	return slices.ContainsFunc(lines, func(line string) bool {
		for _, part := range parts {
			if !strings.Contains(line, part) {
				return false
			}
		}
		return true
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
