package fleet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/grow"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/test/redistest"
)

// TestACandidateIsDown: the master of an old partition dies. Tags that are known to be
// elsewhere are served; for tags that might be there calls fail.
func TestACandidateIsDown(t *testing.T) {
	t.Parallel()
	tf := startFleet(t, 1, 0, quick)
	f, ctx := tf.open(Config{}), t.Context()
	m, err := grow.Add(ctx, tf.dir, tf.servers(1, 0), tf.growing(tf.dir))
	must(t, err)
	redistest.Eventually(t, "the client has the map", func() bool { return f.view.Load().m.Epoch >= m.Epoch })
	tag := tagOwnedBy(t, m, 1)
	must(t, put(ctx, f.Client(), "{"+tag+"}", "x"))

	tf.masters[0].Kill()
	other := tf.open(Config{})
	must(t, put(ctx, other.Client(), "{"+tag+"}", "y"))
	fresh := tag
	for f.view.Load().ring.Owner(positionOf(fresh)) != 1 || fresh == tag {
		fresh += "x"
	}
	wantError(t, set(ctx, other.Client(), "{"+fresh+"}", "x"), ErrUnavailable)
	if _, err := get(ctx, other.Client(), "{"+fresh+"}"); !errors.Is(err, ErrUnavailable) {
		t.Errorf("GET of what might be on the dead partition = %v, want ErrUnavailable", err)
	}
	status, err := other.Status(ctx)
	must(t, err)
	if status.State != Out || status.Partitions[0].State != Out || status.Partitions[1].State != Healthy {
		t.Errorf("Show = %+v, want partition 0 out", status)
	}
	tf.restart(0)
	must(t, retry.Policy{}.Do(ctx, func(int) error { return set(ctx, other.Client(), "{"+fresh+"}", "x") }))
	tf.wantOneHome()
}

// TestAMemberWithoutItsData is not asked about data that it has lost, and gets no writes.
func TestAMemberWithoutItsData(t *testing.T) {
	t.Parallel()
	tf := startFleet(t, 1, 0, quick)
	f, ctx := tf.open(Config{}), t.Context()
	must(t, put(ctx, f.Client(), "{a}", "x"))
	c := tf.masters[0].Client(t)
	must(t, c.Do(ctx, c.B().Flushall().Build()).Error()) // as a restart without its files
	other := tf.open(Config{})
	wantError(t, set(ctx, other.Client(), "{a}", "x"), ErrUnknownServer)
	wantError(t, set(ctx, other.Client(), "{b}", "x"), ErrUnknownServer)
	if _, err := get(ctx, other.Client(), "{a}"); !errors.Is(err, ErrUnknownServer) {
		t.Errorf("GET = %v, want ErrUnknownServer", err)
	}
	_, err := other.view.Load().partitions[0].place(ctx, "b", positionOf("b")) // as if it had answered the look-up before
	wantError(t, err, ErrUnknownServer)
	status, err := other.Status(ctx)
	must(t, err)
	if status.State != Out || status.Partitions[0].Master.State != Unknown {
		t.Errorf("Show = %+v, want a stranger", status)
	}
}

// TestRestartedWithItsData: a master that comes back with its data goes on.
func TestRestartedWithItsData(t *testing.T) {
	t.Parallel()
	tf := startFleet(t, 2, 0, quick)
	f, ctx := tf.open(Config{}), t.Context()
	var acknowledged []string
	for i := range 50 {
		key := fmt.Sprintf("{%d}", i)
		must(t, put(ctx, f.Client(), key, "x"))
		acknowledged = append(acknowledged, key)
	}
	for i, server := range tf.masters {
		server.Kill()
		tf.restart(i)
	}
	for _, key := range acknowledged {
		must(t, retry.Policy{}.Do(ctx, func(int) error {
			got, err := get(ctx, f.Client(), key)
			if err == nil && got != "x" {
				t.Errorf("%s = %q, want x", key, got)
			}
			return err
		}))
	}
	must(t, retry.Policy{}.Do(ctx, func(int) error { return set(ctx, f.Client(), "{new}", "x") }))
	tf.wantOneHome()
}

// TestAMasterDiesWithARecord: a replica that is promoted without a record that its
// master had just written. Clients that remember the place ask again.
func TestAMasterDiesWithARecord(t *testing.T) {
	t.Parallel()
	settings := quick
	settings.PlacementTTL = time.Hour
	tf := startFleet(t, 1, 1, settings)
	f, ctx := tf.open(Config{}), t.Context()
	must(t, put(ctx, f.Client(), "{a}", "x"))
	c := tf.copies[0][0].Client(t)
	must(t, c.Do(ctx, c.B().Replicaof().No().One().Build()).Error())
	must(t, c.Do(ctx, c.B().Del().Key("mr:fleet:{a}", "{a}").Build()).Error())
	tf.replace((&directory.Map{Settings: quick}).Grace())
	redistest.Eventually(t, "the client has the map", func() bool { return f.view.Load().m.Partitions[0].Epoch == 2 })
	must(t, put(ctx, f.Client(), "{a}", "y"))
	if got, err := get(ctx, c, "mr:fleet:{a}"); got != "0" || err != nil {
		t.Errorf("the record on the new master is %q, %v, want one", got, err)
	}
}

// TestReadsGoOnWithoutTheMaster by the replica's copy.
func TestReadsGoOnWithoutTheMaster(t *testing.T) {
	t.Parallel()
	tf := startFleet(t, 2, 1, quick)
	f, ctx := tf.open(Config{}), t.Context()
	for i := range 20 {
		must(t, put(ctx, f.Client(), fmt.Sprintf("{%d}", i), "x"))
	}
	for i, replica := range tf.copies {
		awaitKeys(t, tf.masters[i], replica[0])
	}
	tf.masters[0].Kill()
	for _, reader := range []*Fleet{f, tf.open(Config{}), tf.open(Config{ReadReplicas: true})} {
		for i := range 20 {
			if got, err := get(ctx, reader.Client(), fmt.Sprintf("{%d}", i)); err != nil || got != "x" {
				t.Errorf("{%d} = %q, %v, want x", i, got, err)
			}
		}
	}
	status, err := f.Status(ctx)
	must(t, err)
	if got := status.Partitions[0].State; got != ReadOnly {
		t.Errorf("the state of a partition without its master is %s, want read-only", got)
	}
}

// TestReadsGoOnWithoutASilentMaster: a master that hangs does not use up the time in
// which its replica is asked.
func TestReadsGoOnWithoutASilentMaster(t *testing.T) {
	t.Parallel()
	tf := startFleet(t, 1, 1, directory.Settings{ViewTTL: 2 * time.Second, ReplyTimeout: 1500 * time.Millisecond}) // a busy machine answers late
	f, ctx := tf.open(Config{}), t.Context()
	must(t, put(ctx, f.Client(), "{a}", "x"))
	awaitKeys(t, tf.masters[0], tf.copies[0][0])
	tf.masters[0].Pause()
	defer tf.masters[0].Resume()
	for range 3 {
		if got, err := get(ctx, f.Client(), "{a}"); err != nil || got != "x" {
			t.Errorf("GET = %q, %v, want x", got, err)
		}
	}
}

// TestFailedCommandIsNotRecycled: a command that a second member answered stays as it is.
// rueidis would build another one in its memory, while the first connection may still write it.
func TestFailedCommandIsNotRecycled(t *testing.T) {
	t.Parallel()
	tf := startFleet(t, 1, 1, calm)
	f, ctx := tf.open(Config{}), t.Context()
	must(t, put(ctx, f.Client(), "{a}", "x"))
	awaitKeys(t, tf.masters[0], tf.copies[0][0])
	tf.masters[0].Kill()
	cmd := f.Client().B().Get().Key("{a}").Build()
	if got, err := f.Client().Do(ctx, cmd).ToString(); err != nil || got != "x" {
		t.Errorf("GET = %q, %v, want x", got, err)
	}
	if got := cmd.Commands(); !slices.Equal(got, []string{"GET", "{a}"}) {
		t.Errorf("the command is %q now", got)
	}
}

// TestACallersEndIsNoSickness: a replica is not unhealthy because the context of a call that
// asked it has ended.
func TestACallersEndIsNoSickness(t *testing.T) {
	t.Parallel()
	tf := startFleet(t, 1, 1, calm)
	f, ctx := tf.open(Config{}), t.Context()
	must(t, put(ctx, f.Client(), "{a}", "x"))
	awaitKeys(t, tf.masters[0], tf.copies[0][0])
	p := f.view.Load().partitions[0]
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if p.health(ended, p.members[1]).synced {
		t.Error("a call whose context has ended was answered")
	}
	tf.masters[0].Kill()
	if got, err := get(ctx, f.Client(), "{a}"); err != nil || got != "x" {
		t.Errorf("GET after another's call was cancelled = %q, %v, want x", got, err)
	}
}

// TestAnOldCopyIsNoPlace: a replica that was left behind shows a record that was given up
// since. A client that reads it does not write by it.
func TestAnOldCopyIsNoPlace(t *testing.T) {
	t.Parallel()
	settings := quick
	settings.PlacementTTL = 3 * time.Second
	tf := startFleet(t, 1, 1, settings)
	f, other, ctx := tf.open(Config{}), tf.open(Config{}), t.Context()
	must(t, put(ctx, f.Client(), "{a}", "x"))
	awaitKeys(t, tf.masters[0], tf.copies[0][0])
	replica := tf.copies[0][0].Client(t)
	must(t, replica.Do(ctx, replica.B().Arbitrary("REPLICAOF", "127.0.0.1", "1").Build()).Error())
	master := tf.masters[0].Client(t)
	must(t, master.Do(ctx, master.B().Del().Key("{a}", "mr:fleet:{a}").Build()).Error()) // as Forget does

	tf.masters[0].Kill()
	if got, err := get(ctx, other.Client(), "{a}"); err != nil || got != "x" {
		t.Errorf("GET from the old copy = %q, %v, want x", got, err)
	}
	tf.restart(0)
	must(t, put(ctx, other.Client(), "{a}", "y"))
	if record, err := get(ctx, tf.masters[0].Client(t), "mr:fleet:{a}"); record != "0" || err != nil {
		t.Errorf("the record is %q, %v, want one", record, err)
	}
}

// awaitKeys waits until a replica has all present writes of its master.
func awaitKeys(t *testing.T, master, replica *redistest.Server) {
	t.Helper()
	offset := func(s *redistest.Server, field string) int64 {
		n, err := strconv.ParseInt(s.Info("replication")[field], 10, 64)
		if err != nil {
			return -1
		}
		return n
	}
	reached := offset(master, "master_repl_offset")
	redistest.Eventually(t, "the replica is in step", func() bool { return offset(replica, "slave_repl_offset") >= reached })
}

// TestReplicasServeReads: balanced, sticky, and only those that can.
func TestReplicasServeReads(t *testing.T) {
	t.Parallel()
	tf := startFleet(t, 1, 2, quick)
	f, ctx := tf.open(Config{ReadReplicas: true}), t.Context()
	servers := append([]*redistest.Server{tf.masters[0]}, tf.copies[0]...)
	const tags = 60
	for i := range tags {
		must(t, put(ctx, f.Client(), fmt.Sprintf("{%d}", i), "x"))
	}
	for _, replica := range tf.copies[0] {
		awaitKeys(t, tf.masters[0], replica)
	}
	dead := -1
	// served counts the GETs that each server has had.
	served := func() (counts []int) {
		for i, s := range servers {
			if i == dead {
				counts = append(counts, 0)
				continue
			}
			calls, n := s.Info("commandstats")["cmdstat_get"], 0
			fmt.Sscanf(calls, "calls=%d", &n)
			counts = append(counts, n)
		}
		return counts
	}
	readAll := func() (by []int) {
		before := served()
		for i := range tags {
			if got, err := get(ctx, f.Client(), fmt.Sprintf("{%d}", i)); err != nil || got != "x" {
				t.Errorf("{%d} = %q, %v, want x", i, got, err)
			}
		}
		after := served()
		for i := range after {
			by = append(by, after[i]-before[i])
		}
		return by
	}
	readAll() // which also has the replicas looked at
	for i, n := range readAll() {
		if n < tags/6 {
			t.Errorf("server %d served %d of %d reads, want about a third", i, n, tags)
		}
	}

	before := served()
	for range 30 {
		if _, err := get(ctx, f.Client(), "{7}"); err != nil {
			t.Error(err)
		}
	}
	var busy int
	for i, n := range served() {
		if n-before[i] >= 30 {
			busy++
		}
	}
	if busy != 1 {
		t.Errorf("reads of one tag were served by %d servers, want 1", busy)
	}

	// One has no master any more: its link is down.
	c := tf.copies[0][0].Client(t)
	must(t, c.Do(ctx, c.B().Arbitrary("REPLICAOF", "127.0.0.1", "1").Build()).Error())
	redistest.Eventually(t, "the replica without a link is not asked", func() bool {
		by := readAll()
		return by[1] <= 3 && by[0]+by[2] >= tags-3 // it is looked at with a GET
	})

	// One dies: its reads go to others.
	dead = 2
	tf.copies[0][1].Kill()
	redistest.Eventually(t, "the master serves all", func() bool { return readAll()[0] == tags })
}

// link passes bytes between a replica and its master until it is held.
type link struct {
	net.Listener

	mu sync.Mutex
}

func newLink(t *testing.T, target string) *link {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	k := &link{Listener: l}
	var serving sync.WaitGroup
	pass := func(to, from net.Conn) {
		defer to.Close()
		buf := make([]byte, 4096)
		for {
			n, err := from.Read(buf)
			k.mu.Lock()
			if err == nil {
				_, err = to.Write(buf[:n])
			}
			k.mu.Unlock()
			if err != nil {
				return
			}
		}
	}
	serving.Go(func() {
		for {
			replica, err := l.Accept()
			if err != nil {
				return
			}
			master, err := net.Dial("tcp", target)
			if err != nil {
				replica.Close()
				continue
			}
			serving.Go(func() { pass(master, replica) })
			serving.Go(func() { pass(replica, master) })
		}
	})
	t.Cleanup(func() {
		l.Close()
	})
	return k
}

// TestReadYourWrites with a replica whose link is up and which is given nothing
// for a while.
func TestReadYourWrites(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		yours bool
	}{{"with", true}, {"without", false}} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tf := startFleet(t, 1, 1, quick)
			f, ctx := tf.open(Config{ReadReplicas: true, ReadYourWrites: tc.yours}), t.Context()
			slow := newLink(t, tf.masters[0].Addr())
			host, port, err := net.SplitHostPort(slow.Addr().String())
			must(t, err)
			c := tf.copies[0][0].Client(t)
			must(t, c.Do(ctx, c.B().Arbitrary("REPLICAOF", host, port).Build()).Error())
			redistest.Eventually(t, "the replica is in step through the link", func() bool {
				info := tf.copies[0][0].Info("replication")
				return info["master_port"] == port && info["master_link_status"] == "up"
			})
			// A tag whose reads go to the replica.
			key := ""
			for i := 0; key == ""; i++ {
				if positionOf(fmt.Sprint(i))%2 == 1 {
					key = fmt.Sprintf("{%d}", i)
				}
			}
			must(t, put(ctx, f.Client(), key, "old"))
			replicaServes := func() bool {
				before := tf.copies[0][0].Info("commandstats")["cmdstat_get"]
				got, err := get(ctx, f.Client(), key)
				return err == nil && got != "" && tf.copies[0][0].Info("commandstats")["cmdstat_get"] != before
			}
			redistest.Eventually(t, "the replica serves what it has caught up with", replicaServes)

			slow.mu.Lock()
			wrote := set(ctx, f.Client(), key, "new")
			got, err := get(ctx, f.Client(), key)
			slow.mu.Unlock()
			must(t, wrote)
			if want := map[bool]string{true: "new", false: "old"}[tc.yours]; err != nil || got != want {
				t.Errorf("a read after a write that the replica lacks = %q, %v, want %s", got, err, want)
			}
			redistest.Eventually(t, "the replica serves again", replicaServes)
		})
	}
}

// TestAStoppedMasterHoldsUpNobody for long, not even calls that wait for replicas on
// connections of their own.
func TestAStoppedMasterHoldsUpNobody(t *testing.T) {
	t.Parallel()
	tf := startFleet(t, 1, 1, quick)
	for name, cfg := range map[string]Config{"plain": {}, "waiting for a replica": {WaitReplicas: 1}} {
		f := tf.open(cfg)
		must(t, put(t.Context(), f.Client(), "{a}", "x"))
		tf.masters[0].Pause()
		began := time.Now()
		err := set(t.Context(), f.Client(), "{a}", "y")
		if took := time.Since(began); !errors.Is(err, millrace.ErrUncertain) || took > 10*time.Second {
			t.Errorf("%s: a write to a master that was stopped = %v after %v, want it uncertain, and soon", name, err, took)
		}
		tf.masters[0].Resume()
	}
}
