package snapshot

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/devfleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/ring"
)

// settle waits until a snapshot of a server begins as soon as it is asked for: it
// must not have saved, or started, in the same second.
func (b *bench) settle(s devfleet.Server) {
	b.t.Helper()
	redistest.Eventually(b.t, "the second is over", func() bool {
		saved, err := strconv.ParseInt(b.info(s, "rdb_last_save_time"), 10, 64)
		clock, err2 := strconv.ParseInt(strings.Trim(strings.Fields(b.ask(s, "TIME"))[0], "["), 10, 64)
		return errors.Join(err, err2) == nil && clock > saved
	})
}

// A keeper heeds changes that happen while it waits for its turn.
func TestMasterIsReplacedMeanwhile(t *testing.T) {
	t.Parallel()
	b := start(t, single)
	k := b.keeper(Config{})
	k.dir = directory.New(&beforeTurn{Store: k.dir.Store, do: func(ctx context.Context) error {
		m, err := b.dir.Confirm(ctx, 0)
		if err != nil {
			return err
		}
		next := m.Clone()
		next.Epoch++
		p := &next.Partitions[0]
		p.Epoch++
		p.Master, p.Replicas[0] = p.Replicas[0], p.Master
		return b.dir.Change(ctx, m.Epoch, next)
	}})
	// The servers were not told, so that the new master is none.
	_, err := b.begin(k).wait(t)
	wantError(t, "Now", err, ErrNoMember)
}

// TestPartitionIsLostMeanwhile: the directory goes back to a map without the partition that is to
// be saved, until agents put the newest map into it.
func TestPartitionIsLostMeanwhile(t *testing.T) {
	t.Parallel()
	b := start(t, devfleet.Config{Nodes: 2, Partitions: 2})
	k := b.keeper(Config{})
	change := func(ctx context.Context, edit func(m *directory.Map)) error {
		_, err := directory.Edit(ctx, b.dir, func(next *directory.Map) (bool, error) {
			edit(next)
			return true, nil
		})
		return err
	}
	whole, err := b.dir.Confirm(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	lost := make(chan struct{})
	store := &beforeTurn{Store: k.dir.Store, do: func(ctx context.Context) error {
		defer close(lost)
		return change(ctx, func(m *directory.Map) {
			m.Partitions = m.Partitions[:1]
			m.Points = slices.DeleteFunc(m.Points, func(p ring.Point) bool { return p.Partition > 0 })
		})
	}}
	k.dir = directory.New(store)
	ctx := deadline(t)
	done := make(chan error, 1)
	go func() {
		for _, err := range k.Now(ctx, 1) {
			done <- err
		}
	}()
	<-lost
	before := store.reads.Load()
	redistest.Eventually(t, "it has looked at the directory twice", func() bool { return store.reads.Load() > before+6 })
	if err := change(t.Context(), func(m *directory.Map) { m.Partitions, m.Points = whole.Partitions, whole.Points }); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("Now = %v, want that it goes on", err)
	}
}

// beforeTurn has something happen before the first turn is taken.
type beforeTurn struct {
	directory.Store
	do    func(context.Context) error
	once  sync.Once
	reads atomic.Int64 // of the directory
}

func (s *beforeTurn) Get(ctx context.Context, read directory.Read, names ...string) ([]directory.Value, error) {
	defer s.reads.Add(1)
	return s.Store.Get(ctx, read, names...)
}

func (s *beforeTurn) Hold(ctx context.Context, name, holder string, ttl time.Duration) (string, error) {
	var err error
	s.once.Do(func() { err = s.do(ctx) })
	if err != nil {
		return "", err
	}
	return s.Store.Hold(ctx, name, holder, ttl)
}

// A re-sync and a snapshot never happen together, and neither do snapshots of several
// processes: the one at work has the node's turn.
func TestNoSaveInAnothersTurn(t *testing.T) {
	t.Parallel()
	b := start(t, single)
	replica := b.f.Servers()[1]
	b.settle(replica)
	forks := b.forks(replica)
	if got, err := b.dir.Turn(t.Context(), replica.Node, "another", time.Minute); err != nil || !got {
		t.Fatalf("Turn = %t, %v", got, err)
	}
	k := b.keeper(Config{})
	refusing := &refusals{Store: k.dir.Store}
	k.dir = directory.New(refusing)
	g := b.begin(k)
	redistest.Eventually(t, "it has asked for the turn again", func() bool {
		if b.forks(replica) != forks {
			t.Fatal("a save in another's turn")
		}
		return refusing.count.Load() > 1
	})
	if got, err := b.dir.Turn(t.Context(), replica.Node, "another", 0); err != nil || !got {
		t.Fatalf("Turn = %t, %v", got, err)
	}
	if _, err := g.wait(t); err != nil {
		t.Error(err)
	}
}

// refusals counts the turns that a directory did not give.
type refusals struct {
	directory.Store
	count atomic.Int32
}

func (s *refusals) Hold(ctx context.Context, name, holder string, ttl time.Duration) (string, error) {
	now, err := s.Store.Hold(ctx, name, holder, ttl)
	if err == nil && now != holder && ttl > 0 && strings.HasPrefix(name, "turn/") {
		s.count.Add(1)
	}
	return now, err
}

// A save on the node is waited for even if no process took a turn for it.
func TestNoSaveBesideAnotherServers(t *testing.T) {
	t.Parallel()
	b := start(t, devfleet.Config{Nodes: 1, Partitions: 2, Replicas: devfleet.NoReplicas})
	ours, other := b.f.Servers()[0], b.f.Servers()[1]
	b.slow(5*time.Millisecond, other) // about a second
	b.ask(other, "BGSAVE")
	forks := b.forks(ours)
	g := b.begin(b.keeper(Config{}))
	redistest.Eventually(t, "one of the two is done", func() bool {
		began := b.forks(ours) != forks
		if began && b.saving(other) {
			t.Fatal("it is saved beside another one")
		}
		return began
	})
	if _, err := g.wait(t); err != nil {
		t.Error(err)
	}
}

// TestNeverTwoOnANode has two keepers, of two processes as far as they know, go
// round as fast as they can, and a third party ask for a snapshot again and again.
func TestNeverTwoOnANode(t *testing.T) {
	t.Parallel()
	b := start(t, devfleet.Config{Nodes: 2, Partitions: 4})
	b.slow(time.Millisecond, b.f.Servers()...) // about a quarter of a second
	nodes := map[string][]devfleet.Server{}
	for _, s := range b.f.Servers() {
		nodes[s.Node] = append(nodes[s.Node], s)
	}
	if len(nodes) != 2 {
		t.Fatalf("%d nodes", len(nodes))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	for _, archive := range []string{"", t.TempDir()} {
		k := b.keeper(Config{Interval: time.Millisecond, Archive: archive})
		running.Go(func() { _ = k.Run(ctx) })
		asks := b.keeper(Config{})
		running.Go(func() {
			for ctx.Err() == nil {
				for range asks.Now(ctx) {
				}
			}
		})
	}
	saving := func(servers []devfleet.Server) []devfleet.Server {
		return slices.DeleteFunc(slices.Clone(servers), func(s devfleet.Server) bool { return !b.saving(s) })
	}
	forks := func() (n int) {
		for _, s := range b.f.Servers() {
			n += b.forks(s)
		}
		return n
	}
	both := false
	for first := forks(); forks() < first+16 || !both && forks() < first+160; {
		if ctx.Err() != nil {
			t.Fatalf("%d snapshots in two minutes, and both nodes at once: %t; want 16, and true", forks()-first, both)
		}
		seen := map[string]bool{}
		for node, servers := range nodes {
			two := saving(servers)
			// Looked at one after the other, one may have ended before the next began.
			if len(two) > 1 && len(saving(two)) > 1 {
				t.Errorf("%v save at the same time", two)
			}
			seen[node] = len(two) > 0
		}
		both = both || len(seen) == 2 && seen[b.f.Servers()[0].Node] && seen[b.f.Servers()[1].Node]
	}
	if !both {
		t.Error("the two nodes never saved at the same time, which they may")
	}
}

// never looks for a while whether something happens that must not.
func never(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(300 * time.Millisecond); time.Now().Before(end); {
		if cond() {
			t.Fatal(what)
		}
	}
}
