package etcd

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/test/directorytest"
	"github.com/millrace/millrace/internal/test/etcdtest"
	"github.com/millrace/millrace/internal/test/redistest"
)

// A fault strikes one member, and returns how to repair it.
type fault struct {
	name   string
	member func(c *etcdtest.Cluster) *etcdtest.Member
	strike func(m *etcdtest.Member) (repair func())
}

func kill(m *etcdtest.Member) func()   { m.Kill(); return m.Restart }
func freeze(m *etcdtest.Member) func() { m.Freeze(); return m.Thaw }
func cut(m *etcdtest.Member) func()    { m.CutPeers(); return m.Heal }
func cutAll(m *etcdtest.Member) func() { m.CutPeers(); m.CutClients(); return m.Heal }

var faults = []fault{
	{"leader is killed", (*etcdtest.Cluster).Leader, kill},
	{"follower is killed", (*etcdtest.Cluster).Follower, kill},
	{"leader is frozen", (*etcdtest.Cluster).Leader, freeze},
	{"follower is frozen", (*etcdtest.Cluster).Follower, freeze},
	{"leader is cut off from its peers", (*etcdtest.Cluster).Leader, cut},
	{"follower is cut off from its peers", (*etcdtest.Cluster).Follower, cut},
	{"leader is cut off from all", (*etcdtest.Cluster).Leader, cutAll},
	{"follower is cut off from all", (*etcdtest.Cluster).Follower, cutAll},
}

// recovery is how long a fault may stop changes and confirmations: an election takes half a
// second to a second here, and processes of other tests run on the same CPUs.
const recovery = 10 * time.Second

// TestFaults: whichever member is lost, changes and confirmations go on, and no process
// confirms a map after it was replaced.
func TestFaults(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, etcdtest.Options{})
	changer := dial(t, cluster.URL("fleet"))
	var present atomic.Int64 // whose change has returned
	advance := func() {
		t.Helper()
		epoch := present.Load()
		if err := changer.Change(t.Context(), epoch, directorytest.Sample(t, epoch+1)); err != nil {
			t.Fatalf("Change(%d) = %v\n%s", epoch, err, cluster.Members[0].Log())
		}
		present.Store(epoch + 1)
	}
	advance()
	advance()

	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	answers := make([]atomic.Int64, 6)
	for i := range answers {
		store := dial(t, cluster.URL("fleet"))
		running.Go(func() {
			for ctx.Err() == nil {
				epoch := present.Load()
				m, err := store.Confirm(ctx, epoch-1)
				switch {
				case err != nil: // while there is no leader
				case m == nil || m.Epoch < epoch:
					t.Errorf("the map of epoch %d was confirmed after it was replaced, or replaced by %+v", epoch-1, m)
					return
				default:
					answers[i].Add(1)
				}
			}
		})
	}
	defer running.Wait()
	defer stop()
	for _, f := range faults {
		repair := f.strike(f.member(cluster))
		began := time.Now()
		before := make([]int64, len(answers))
		for i := range answers {
			before[i] = answers[i].Load() + 1 // one may be on its way
		}
		advance()
		for i := range answers {
			redistest.Eventually(t, "confirmations go on: "+f.name, func() bool { return answers[i].Load() > before[i] || t.Failed() })
		}
		took := time.Since(began)
		t.Logf("%s: changes and confirmations went on after %v", f.name, took.Round(time.Millisecond))
		if took > recovery {
			t.Errorf("%s: that took %v", f.name, took)
		}
		repair()
		advance()
	}
}

// behind returns a cluster in which one follower, which is returned, was cut off from its
// peers before the map was changed from epoch 1 to 2.
func behind(t *testing.T) (*etcdtest.Cluster, *etcdtest.Member) {
	t.Helper()
	cluster := etcdtest.Start(t, etcdtest.Options{})
	member := cluster.Follower()
	changer, old := dial(t, cluster.URL("fleet")), dial(t, "etcd://"+member.Addr()+"/fleet")
	if err := changer.Change(t.Context(), 0, directorytest.Sample(t, 1)); err != nil {
		t.Fatal(err)
	}
	if m, err := old.Confirm(t.Context(), 1); m != nil || err != nil {
		t.Fatalf("Confirm(1) by a follower = %+v, %v", m, err)
	}
	member.CutPeers()
	if err := changer.Change(t.Context(), 1, directorytest.Sample(t, 2)); err != nil {
		t.Fatal(err)
	}
	return cluster, member
}

// TestMinority: a member without a majority confirms nothing, and a client that knows others
// goes on with those. With the reads that etcd calls serializable both would confirm the map
// that was replaced.
func TestMinority(t *testing.T) {
	t.Parallel()
	cluster, member := behind(t)
	for _, protected := range []bool{true, false} {
		one, each := dialStore(t, "etcd://"+member.Addr()+"/fleet"), dialStore(t, cluster.URL("fleet"))
		for i, m := range cluster.Members {
			if m == member {
				each.last.Store(int32(i)) // it is asked first
				each.turn.Store(uint32(i + len(cluster.Members) - 1))
			}
		}
		alone, all := directory.New(one), directory.New(each)
		if !protected {
			alone, all = directory.New(readsAny{one}), directory.New(readsAny{each})
		}
		ctx, cancel := context.WithTimeout(t.Context(), callTimeout+time.Second)
		defer cancel()
		m, err := alone.Confirm(ctx, 1)
		if confirmed := m == nil && err == nil; confirmed == protected || protected && err == nil {
			t.Errorf("Confirm(1) by a member that is cut off = %+v, %v, protected %t", m, err, protected)
		}
		m, err = all.Confirm(ctx, 1)
		if err != nil || protected != (m != nil && m.Epoch == 2) {
			t.Errorf("Confirm(1) by a client of all members = %+v, %v, protected %t", m, err, protected)
		}
		if m, err = alone.Load(ctx); err != nil || m.Epoch != 1 {
			t.Errorf("Load by a member that is cut off = %+v, %v, want the old map", m, err)
		}
	}
	member.Heal()
	alone := dial(t, "etcd://"+member.Addr()+"/fleet")
	redistest.Eventually(t, "the healed member has the new map", func() bool {
		m, err := alone.Confirm(t.Context(), 1)
		return err == nil && m != nil && m.Epoch == 2
	})
}

// readsAny is a store all of whose reads may be old.
type readsAny struct{ *store }

func (s readsAny) Get(ctx context.Context, _ directory.Read, names ...string) ([]directory.Value, error) {
	return s.store.Get(ctx, directory.Any, names...)
}

// TestNoMajority: nothing is confirmed and changed, and every caller gets an error in time.
func TestNoMajority(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, etcdtest.Options{})
	d := dial(t, cluster.URL("fleet"))
	if err := d.Change(t.Context(), 0, directorytest.Sample(t, 1)); err != nil {
		t.Fatal(err)
	}
	cluster.Follower().Kill()
	cluster.Leader().Freeze()
	began := time.Now()
	if m, err := d.Confirm(t.Context(), 1); err == nil || m != nil {
		t.Errorf("Confirm by one of three = %+v, %v", m, err)
	}
	if took := time.Since(began); took > callTimeout+2*time.Second {
		t.Errorf("that took %v", took)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := d.Change(ctx, 1, directorytest.Sample(t, 2)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Change by one of three = %v, want the end of its context", err)
	}
	if m, err := d.Load(t.Context()); err != nil || m.Epoch != 1 {
		t.Errorf("Load from one of three = %+v, %v", m, err)
	}
}

var _ directory.Store = (*store)(nil)
