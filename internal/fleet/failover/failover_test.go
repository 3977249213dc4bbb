package failover

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/fleet/etcd"
	"github.com/millrace/millrace/internal/devfleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/test/directorytest"
	"github.com/millrace/millrace/internal/test/etcdtest"
	"github.com/millrace/millrace/internal/test/redistest"
)

// every is how often agents look in tests.
const every = 100 * time.Millisecond

var quick = directory.Settings{ViewTTL: 500 * time.Millisecond, ReplyTimeout: 400 * time.Millisecond, PlacementTTL: time.Second}

// world is a fleet of real servers with agents.
type world struct {
	t       *testing.T
	servers *devfleet.Fleet
	dir     *directory.Directory
	every   time.Duration // the interval of agents

	restored atomic.Int64 // how often a partition went on with a member that was started again
}

// start starts a fleet whose directory is a Redis of its own.
func start(t *testing.T, cfg devfleet.Config) *world {
	t.Helper()
	w := launch(t, cfg)
	dir, err := directory.Dial(rueidis.ClientOption{InitAddress: []string{w.servers.DirectoryAddr()}})
	must(t, err)
	t.Cleanup(dir.Close)
	w.dir = dir
	return w
}

// onBoth runs a test on a fleet with a directory in Redis, and on one with a directory in
// three members of etcd.
func onBoth(t *testing.T, cfg devfleet.Config, test func(t *testing.T, w *world)) {
	t.Helper()
	t.Run("Redis", func(t *testing.T) {
		t.Parallel()
		test(t, start(t, cfg))
	})
	t.Run("etcd", func(t *testing.T) {
		t.Parallel()
		test(t, startInEtcd(t, etcdtest.Start(t, etcdtest.Options{}), cfg))
	})
}

// startInEtcd starts a fleet whose directory is in etcd.
func startInEtcd(t *testing.T, cluster *etcdtest.Cluster, cfg devfleet.Config) *world {
	t.Helper()
	dir, _, err := etcd.Open(cluster.URL("test"))
	must(t, err)
	t.Cleanup(dir.Close)
	cfg.Directory = dir
	w := launch(t, cfg)
	// Three etcd on a busy machine may take longer than the lease that follows from a shorter one.
	w.every = 500 * time.Millisecond
	return w
}

func launch(t *testing.T, cfg devfleet.Config) *world {
	t.Helper()
	cfg.Binary = redistest.Binary(t)
	if cfg.Settings == (directory.Settings{}) {
		cfg.Settings = quick
	}
	servers, err := devfleet.Start(t.Context(), cfg)
	must(t, err)
	t.Cleanup(func() { must(t, servers.Stop()) })
	return &world{t: t, servers: servers, dir: cfg.Directory, every: every}
}

// agent runs an agent until stop is called, or the test ends.
func (w *world) agent() (stop func()) {
	w.t.Helper()
	return w.agentEvery(w.every)
}

func (w *world) agentEvery(interval time.Duration) (stop func()) {
	w.t.Helper()
	members := NewRedis(rueidis.ClientOption{})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		restored := func(context.Context, *directory.Map, int, string) error { w.restored.Add(1); return nil }
		_ = New(w.dir, members, Config{Interval: interval, Restored: restored, Logger: slog.New(slog.NewTextHandler(w.t.Output(), nil))}).Run(ctx)
		members.Close()
	}()
	var once sync.Once
	stop = func() { once.Do(func() { cancel(); <-done }) }
	w.t.Cleanup(stop)
	return stop
}

func (w *world) client(cfg fleet.Config) *fleet.Fleet {
	w.t.Helper()
	cfg.Logger = slog.New(slog.DiscardHandler)
	f, err := fleet.Open(w.t.Context(), w.dir, cfg)
	must(w.t, err)
	w.t.Cleanup(f.Close)
	return f
}

func (w *world) mapNow() *directory.Map {
	w.t.Helper()
	m, err := w.dir.Confirm(w.t.Context(), 0)
	must(w.t, err)
	return m
}

// server returns the process of a member.
func (w *world) server(addr string) devfleet.Server {
	w.t.Helper()
	all := w.servers.Servers()
	i := slices.IndexFunc(all, func(s devfleet.Server) bool { return s.Addr == addr })
	if i < 0 {
		w.t.Fatalf("no server listens at %s", addr)
	}
	return all[i]
}

// settled waits until a partition is healthy by the map and by its members. If that
// does not happen, it fails the test with the last status.
func (w *world) settled(f *fleet.Fleet, id int) {
	w.t.Helper()
	var last fleet.Status
	full := func() bool {
		s, err := f.Status(w.t.Context())
		if err == nil {
			last = s
		}
		return err == nil && s.Partitions[id].State == fleet.Healthy
	}
	for deadline := time.Now().Add(time.Minute); !full(); {
		if time.Now().After(deadline) {
			events, err := w.dir.Events(w.t.Context())
			for _, e := range events[:min(len(events), 20)] {
				w.t.Logf("%s %s partition %d epoch %d: %s", e.At.Format("15:04:05.000"), e.Agent, e.Partition, e.Epoch, e.What)
			}
			w.t.Fatalf("after a minute partition %d is not healthy: %+v (%v)\n%+v", id, last.Partitions[id], err, w.mapNow().Partitions[id])
		}
		retry.Sleep(w.t.Context(), 20*time.Millisecond)
	}
}

// fenceMember fences a member by hand.
func fenceMember(t *testing.T, members *Redis, addr string) {
	t.Helper()
	_, err := members.Fence(t.Context(), addr)
	must(t, err)
}

// followMaster has a server follow another one by hand.
func followMaster(t *testing.T, members *Redis, addr, master string) {
	t.Helper()
	l, err := members.Probe(t.Context(), master)
	must(t, err)
	must(t, members.Follow(t.Context(), addr, master, l.Run, l.Identity))
}

// soak reports whether there is time for more.
func soak() bool { return os.Getenv("MILLRACE_SOAK") != "" }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// load writes unique members to one set of a tag until it is stopped, and knows
// which were acknowledged.
type load struct {
	f    *fleet.Fleet
	tag  string
	stop func()

	mu           sync.Mutex
	acknowledged []string
	uncertain    int
	last         time.Time
	pause        time.Duration // the longest between two successes
}

func (w *world) load(f *fleet.Fleet, tag string, writers int) *load {
	l := &load{f: f, tag: tag, last: time.Now()}
	ctx, cancel := context.WithCancel(context.Background())
	var writing sync.WaitGroup
	for writer := range writers {
		writing.Go(func() {
			c := f.Client()
			for i := 0; ctx.Err() == nil; i++ {
				member := fmt.Sprintf("%d-%d", writer, i)
				err := c.Do(ctx, c.B().Sadd().Key("{"+tag+"}set").Member(member).Build()).Error()
				l.mu.Lock()
				if now := time.Now(); err == nil {
					l.acknowledged = append(l.acknowledged, member)
					l.pause = max(l.pause, now.Sub(l.last))
					l.last = now
				} else if errors.Is(err, millrace.ErrUncertain) {
					l.uncertain++
				}
				l.mu.Unlock()
				retry.Sleep(ctx, 3*time.Millisecond) // more data would only make the copies take the time
			}
		})
	}
	var once sync.Once
	l.stop = func() { once.Do(func() { cancel(); writing.Wait() }) }
	w.t.Cleanup(l.stop)
	return l
}

// restart forgets the pauses by now.
func (l *load) restart() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pause = 0
}

// longest returns the longest pause between two successes.
func (l *load) longest() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pause
}

func (l *load) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acknowledged)
}

// goesOn waits until more is acknowledged.
func (l *load) goesOn(t *testing.T) {
	t.Helper()
	before := l.count()
	redistest.Eventually(t, "writes go on", func() bool { return l.count() > before+20 })
}

// lost returns how many acknowledged members are not there.
func (l *load) lost(t *testing.T) (n int) {
	t.Helper()
	c := l.f.Client()
	var there map[string]struct{}
	must(t, retry.Policy{}.Do(t.Context(), func(int) (err error) {
		members, err := c.Do(t.Context(), c.B().Smembers().Key("{"+l.tag+"}set").Build()).AsStrSlice()
		there = map[string]struct{}{}
		for _, m := range members {
			there[m] = struct{}{}
		}
		return err
	}))
	for _, m := range l.acknowledged {
		if _, ok := there[m]; !ok {
			n++
		}
	}
	return n
}

// TestAMasterIsKilled under load: writes go on by themselves, nothing that a replica
// confirmed is lost, and the server is a replica when it is back.
func TestAMasterIsKilled(t *testing.T) {
	t.Parallel()
	onBoth(t, devfleet.Config{Partitions: 2}, func(t *testing.T, w *world) {
		w.agent()
		f := w.client(fleet.Config{WaitReplicas: 1})
		w.settled(f, 0)
		w.settled(f, 1)
		l := w.load(f, "a", 8)
		l.goesOn(t)
		where, err := f.Locate(t.Context(), "a")
		must(t, err)
		old := w.mapNow().Partitions[where.Partition].Master
		must(t, w.server(old.Addr).Proc.Kill())
		redistest.Eventually(t, "another master is in the map", func() bool {
			p := w.mapNow().Partitions[where.Partition]
			return !p.ReadOnly && p.Master.Addr != old.Addr
		})
		must(t, w.server(old.Addr).Proc.Restart(t.Context())) // empty, and fenced
		w.settled(f, where.Partition)
		l.goesOn(t)
		l.stop()
		if n := l.lost(t); n > 0 {
			t.Errorf("%d of %d acknowledged writes are lost", n, len(l.acknowledged))
		}
		t.Logf("%d acknowledged, %d uncertain, longest pause %v", len(l.acknowledged), l.uncertain, l.pause)
		events, err := w.dir.Events(t.Context())
		must(t, err)
		if len(events) < 2 {
			t.Errorf("the log has %v, want what was done", events)
		}
	})
}

// TestAMasterIsStopped with writes waiting for it, replaced, and resumed: those writes do not
// succeed.
func TestAMasterIsStopped(t *testing.T) {
	t.Parallel()
	onBoth(t, devfleet.Config{Partitions: 1, Replicas: 2}, func(t *testing.T, w *world) {
		w.agent()
		f := w.client(fleet.Config{WaitReplicas: 1})
		w.settled(f, 0)
		l := w.load(f, "a", 8)
		for range 2 {
			l.goesOn(t)
			old := w.mapNow().Partitions[0].Master
			must(t, w.server(old.Addr).Proc.Pause())
			redistest.Eventually(t, "another master is in the map", func() bool {
				p := w.mapNow().Partitions[0]
				return !p.ReadOnly && p.Master.Addr != old.Addr
			})
			l.goesOn(t)
			must(t, w.server(old.Addr).Proc.Resume())
			w.settled(f, 0)
		}
		l.goesOn(t)
		l.stop()
		if n := l.lost(t); n > 0 {
			t.Errorf("%d of %d acknowledged writes are lost", n, len(l.acknowledged))
		}
	})
}

// TestRestartNeverEmptiesAReplica: a master that lost its data is fenced, and the
// replica that has it takes over.
func TestRestartNeverEmptiesAReplica(t *testing.T) {
	t.Parallel()
	w := start(t, devfleet.Config{Partitions: 1})
	f := w.client(fleet.Config{WaitReplicas: 1})
	c, ctx := f.Client(), t.Context()
	stop := w.agent()
	w.settled(f, 0)
	must(t, retry.Policy{}.Do(ctx, func(int) error { return c.Do(ctx, c.B().Set().Key("{a}").Value("x").Build()).Error() }))
	stop()
	old := w.mapNow().Partitions[0].Master
	must(t, w.server(old.Addr).Proc.Kill())
	must(t, w.server(old.Addr).Proc.Restart(ctx))
	w.agent()
	redistest.Eventually(t, "the replica is the master", func() bool {
		p := w.mapNow().Partitions[0]
		return !p.ReadOnly && p.Master.Addr != old.Addr
	})
	w.settled(f, 0)
	must(t, retry.Policy{}.Do(ctx, func(int) error {
		got, err := c.Do(ctx, c.B().Get().Key("{a}").Build()).ToString()
		if err == nil && got != "x" {
			t.Errorf("{a} = %q, want x", got)
		}
		return err
	}))
}

// TestASecondAgentFinishes: the first one goes away in the middle.
func TestASecondAgentFinishes(t *testing.T) {
	t.Parallel()
	onBoth(t, devfleet.Config{Partitions: 1}, func(t *testing.T, w *world) {
		f := w.client(fleet.Config{})
		first := w.agent()
		w.settled(f, 0)
		w.agent()
		old := w.mapNow().Partitions[0].Master
		must(t, w.server(old.Addr).Proc.Kill())
		redistest.Eventually(t, "the partition is read-only", func() bool { return w.mapNow().Partitions[0].ReadOnly })
		first()
		redistest.Eventually(t, "the second agent has finished", func() bool {
			p := w.mapNow().Partitions[0]
			return !p.ReadOnly && p.Master.Addr != old.Addr
		})
	})
}

// TestReplicasArePutRight: one follows no master, and one was promoted by hand.
func TestReplicasArePutRight(t *testing.T) {
	t.Parallel()
	w := start(t, devfleet.Config{Partitions: 1, Replicas: 2})
	f := w.client(fleet.Config{})
	w.agent()
	w.settled(f, 0)
	servers := NewRedis(rueidis.ClientOption{})
	t.Cleanup(servers.Close)
	p := w.mapNow().Partitions[0]
	fenceMember(t, servers, p.Replicas[0].Addr)
	by, err := servers.Probe(t.Context(), p.Replicas[1].Addr)
	must(t, err)
	must(t, servers.Lead(t.Context(), p.Replicas[1].Addr, by.Run, members.Beat{Epoch: 1}, false))
	w.settled(f, 0)
	if now := w.mapNow().Partitions[0]; now.Master.Addr != p.Master.Addr {
		t.Errorf("the master is %s by now, and nothing was wrong with %s", now.Master.Addr, p.Master.Addr)
	}
	must(t, w.server(p.Replicas[0].Addr).Proc.Kill())
	redistest.Eventually(t, "the dead replica is marked", func() bool { return w.mapNow().Partitions[0].Replicas[0].Down })
	must(t, w.server(p.Replicas[0].Addr).Proc.Restart(t.Context()))
	redistest.Eventually(t, "and not any more when it is back", func() bool { return !w.mapNow().Partitions[0].Replicas[0].Down })
}

// TestSwitch replaces a master that serves, under load, and loses nothing, with and
// without an agent that does the same at the same time.
func TestSwitch(t *testing.T) {
	t.Parallel()
	for _, agents := range []int{0, 2} {
		t.Run(fmt.Sprint(agents, " agents"), func(t *testing.T) {
			t.Parallel()
			w := start(t, devfleet.Config{Partitions: 1, Replicas: 2})
			f := w.client(fleet.Config{})
			for range agents {
				w.agent()
			}
			w.settled(f, 0)
			l := w.load(f, "a", 4)
			l.goesOn(t)
			members := NewRedis(rueidis.ClientOption{})
			t.Cleanup(members.Close)
			p := w.mapNow().Partitions[0]
			must(t, Switch(t.Context(), w.dir, members, 0, p.Replicas[1].Addr, slog.New(slog.DiscardHandler), nil))
			if now := w.mapNow().Partitions[0]; now.Master.Addr != p.Replicas[1].Addr || now.Prefer != "" {
				t.Errorf("after the switch the partition is %+v, want the master %s", now, p.Replicas[1].Addr)
			}
			l.goesOn(t)
			l.stop()
			if n := l.lost(t); n > 0 {
				t.Errorf("%d of %d acknowledged writes are lost", n, len(l.acknowledged))
			}
			err := Switch(t.Context(), w.dir, members, 7, "", slog.New(slog.DiscardHandler), nil)
			if !errors.Is(err, ErrNotSwitched) {
				t.Errorf("Switch of a partition that is not there = %v, want ErrNotSwitched", err)
			}
			t.Logf("%d acknowledged, longest pause %v", len(l.acknowledged), l.pause)
		})
	}
}

// TestASwitchWaitsForNoGrace: a master that serves refuses writes before another one leads, so none is written by an old map.
func TestASwitchWaitsForNoGrace(t *testing.T) {
	t.Parallel()
	w := start(t, devfleet.Config{Partitions: 1, Replicas: 2, Settings: directory.Settings{ViewTTL: 10 * time.Second, ReplyTimeout: 10 * time.Second, PlacementTTL: 10 * time.Second}})
	f := w.client(fleet.Config{})
	w.agent()
	w.settled(f, 0)
	l := w.load(f, "a", 4)
	l.goesOn(t)
	members := NewRedis(rueidis.ClientOption{})
	t.Cleanup(members.Close)
	for range 3 {
		p := w.mapNow().Partitions[0]
		began := time.Now()
		must(t, Switch(t.Context(), w.dir, members, 0, "", slog.New(slog.DiscardHandler), nil))
		if now := w.mapNow(); now.Partitions[0].Master.Addr == p.Master.Addr || time.Since(began) > now.Grace()/2 {
			t.Errorf("after %v the master is %s, want another one than %s long before the Grace of %v", time.Since(began), now.Partitions[0].Master.Addr, p.Master.Addr, now.Grace())
		}
		l.goesOn(t)
		w.settled(f, 0)
	}
	l.stop()
	if n := l.lost(t); n > 0 {
		t.Errorf("%d of %d acknowledged writes are lost", n, len(l.acknowledged))
	}
	if grace := w.mapNow().Grace(); l.longest() > grace/2 {
		t.Errorf("no write was accepted for %v, and the Grace is %v", l.longest(), grace)
	}
	t.Logf("%d acknowledged, longest pause %v", len(l.acknowledged), l.pause)
}

// silentAfterNeed is how an agent reaches members that answer no probe for a while once the master was made to refuse writes.
type silentAfterNeed struct {
	*Redis

	until atomic.Int64 // in microseconds since 1970
}

func (s *silentAfterNeed) Need(ctx context.Context, addr string, replicas int) error {
	if replicas == unmet {
		s.until.CompareAndSwap(0, time.Now().Add(2*time.Second).UnixMicro())
	}
	return s.Redis.Need(ctx, addr, replicas)
}

func (s *silentAfterNeed) Probe(ctx context.Context, addr string) (members.Report, error) {
	if time.Now().UnixMicro() < s.until.Load() {
		return members.Report{}, errors.New("it does not answer in time")
	}
	return s.Redis.Probe(ctx, addr)
}

// TestASwitchOutlastsMissedProbes: the master goes on refusing writes, so the switch needs no Grace when the members answer again.
func TestASwitchOutlastsMissedProbes(t *testing.T) {
	t.Parallel()
	w := start(t, devfleet.Config{Partitions: 1, Replicas: 2, Settings: directory.Settings{ViewTTL: 10 * time.Second, ReplyTimeout: 10 * time.Second, PlacementTTL: 10 * time.Second}})
	w.settled(w.client(fleet.Config{}), 0)
	redis := NewRedis(rueidis.ClientOption{})
	t.Cleanup(redis.Close)
	servers := &silentAfterNeed{Redis: redis}
	before, began := w.mapNow(), time.Now()
	must(t, Switch(t.Context(), w.dir, servers, 0, "", slog.New(slog.DiscardHandler), nil))
	if servers.until.Load() == 0 {
		t.Error("the master was not made to refuse writes")
	}
	if now := w.mapNow().Partitions[0].Master.Addr; now == before.Partitions[0].Master.Addr || time.Since(began) > before.Grace()/2 {
		t.Errorf("after %v the master is %s, want another one than %s long before the Grace of %v", time.Since(began), now, before.Partitions[0].Master.Addr, before.Grace())
	}
}

// freezing is how an agent reaches members of which one freezes before it is fenced.
type freezing struct {
	*Redis

	addr   string
	freeze func()
}

func (f *freezing) Fence(ctx context.Context, addr string) (members.Report, error) {
	if addr == f.addr {
		f.freeze()
		return members.Report{}, errors.New("it does not answer")
	}
	return f.Redis.Fence(ctx, addr)
}

// TestAMasterFreezesInASwitch between its refusal of writes and its fence: once resumed, it
// refuses the writes of the meantime, though no Grace has passed.
func TestAMasterFreezesInASwitch(t *testing.T) {
	t.Parallel()
	w := start(t, devfleet.Config{Partitions: 1, Replicas: 1, Settings: directory.Settings{ViewTTL: 10 * time.Second, ReplyTimeout: 10 * time.Second, PlacementTTL: 10 * time.Second}})
	f := w.client(fleet.Config{})
	w.settled(f, 0)
	old := w.mapNow().Partitions[0].Master.Addr
	d := direct(t, old)
	must(t, d.Do(t.Context(), d.B().Set().Key("{a}").Value("x").Build()).Error()) // it is connected
	redis := NewRedis(rueidis.ClientOption{})
	t.Cleanup(redis.Close)
	servers := &freezing{Redis: redis, addr: old, freeze: sync.OnceFunc(func() { must(t, w.server(old).Proc.Pause()) })}
	must(t, Switch(t.Context(), w.dir, servers, 0, "", slog.New(slog.DiscardHandler), nil))
	if now := w.mapNow().Partitions[0]; now.Master.Addr == old || now.ReadOnly {
		t.Fatalf("after the switch the partition is %+v, want another master", now)
	}
	written := make(chan error, 1)
	go func() { written <- d.Do(t.Context(), d.B().Set().Key("{a}").Value("lost").Build()).Error() }()
	must(t, w.server(old).Proc.Resume())
	if err := <-written; !retry.Code(err, "NOREPLICAS") {
		t.Errorf("a write to the master that was frozen = %v, want it refused", err)
	}
}

// silentOnce is a store that does not answer the first time.
type silentOnce struct {
	directory.Store

	asked atomic.Bool
}

func (s *silentOnce) Get(ctx context.Context, read directory.Read, names ...string) ([]directory.Value, error) {
	if !s.asked.Swap(true) {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	return s.Store.Get(ctx, read, names...)
}

// TestSettledWaitsASilentDirectoryOut: that one question was not answered is not the end
// of the time that a switch has.
func TestSettledWaitsASilentDirectoryOut(t *testing.T) {
	t.Parallel()
	store := new(directorytest.Memory)
	m := directorytest.Sample(t, 1)
	must(t, directory.New(store).Change(t.Context(), 0, m))
	addr, err := New(directory.New(&silentOnce{Store: store}), nil, Config{}).settled(t.Context(), m, 0)
	if addr != "a:1" || err != nil {
		t.Errorf("settled = %q, %v, want a:1", addr, err)
	}
}

// TestANodeIsKilledWithBoth a master and the leader of etcd: writes go on when etcd has
// elected another one, and nothing is lost.
func TestANodeIsKilledWithBoth(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, etcdtest.Options{})
	w := startInEtcd(t, cluster, devfleet.Config{Partitions: 2, Replicas: 2})
	w.agentEvery(500 * time.Millisecond)
	f := w.client(fleet.Config{WaitReplicas: 1})
	w.settled(f, 0)
	w.settled(f, 1)
	loads := []*load{w.load(f, "a", 4), w.load(f, "b", 4), w.load(f, "c", 4)}
	old := w.mapNow().Partitions[0].Master
	for _, l := range loads {
		l.goesOn(t)
	}
	cluster.Leader().Kill()
	must(t, w.server(old.Addr).Proc.Kill())
	redistest.Eventually(t, "another master is in the map", func() bool {
		m, err := w.dir.Confirm(t.Context(), 0)
		return err == nil && !m.Partitions[0].ReadOnly && m.Partitions[0].Master.Addr != old.Addr
	})
	for _, l := range loads {
		l.goesOn(t)
		l.stop()
		if n := l.lost(t); n > 0 {
			t.Errorf("%d of %d acknowledged writes are lost", n, len(l.acknowledged))
		}
	}
}
