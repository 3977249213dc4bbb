package failover

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/devfleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/redis/redisproc"
	"github.com/millrace/millrace/internal/test/redistest"
)

// spare starts a server that is no member: empty, and boot-fenced.
func (w *world) spare() directory.Member {
	w.t.Helper()
	proc, err := redisproc.Start(w.t.Context(), redisproc.Config{
		Binary: redistest.Binary(w.t), Dir: w.t.TempDir(), TCP: true,
		Args: []string{"--replicaof", members.FenceHost, members.FencePort, "--replica-serve-stale-data", "no", "--repl-diskless-sync-delay", "0"},
	})
	must(w.t, err)
	w.t.Cleanup(func() { must(w.t, errors.Join(proc.Kill(), proc.Stop())) })
	return directory.Member{Addr: proc.Addr(), Node: "node-9"}
}

// begin stores a task, as a command does.
func (w *world) begin(id int, task directory.Task) {
	w.t.Helper()
	task.Plan = "test"
	for {
		m := w.mapNow()
		next := m.Clone()
		next.Epoch++
		next.Partitions[id].Task = &task
		err := w.dir.Change(w.t.Context(), m.Epoch, next)
		if !errors.Is(err, directory.ErrConflict) {
			must(w.t, err)
			return
		}
	}
}

// done waits until a partition has no task, and returns it.
func (w *world) done(id int) (p directory.Partition) {
	w.t.Helper()
	redistest.Eventually(w.t, "the task is done", func() bool {
		p = w.mapNow().Partitions[id]
		return p.Task == nil && p.Leaving == nil
	})
	return p
}

// TestAReplicaMoves under load, then the master does: nothing confirmed is lost, and the
// servers that have left are fenced and belong to no partition.
func TestAReplicaMoves(t *testing.T) {
	t.Parallel()
	w := start(t, devfleet.Config{Partitions: 1})
	w.agentEvery(500 * time.Millisecond) // it fences a former member within an interval, or leaves it as it is
	f := w.client(fleet.Config{WaitReplicas: 1})
	w.settled(f, 0)
	l := w.load(f, "a", 8)
	l.goesOn(t)
	before := w.mapNow().Partitions[0]
	first, second := w.spare(), w.spare()

	w.begin(0, directory.Task{Add: &first, Remove: before.Replicas[0].Addr})
	after := w.done(0)
	if len(after.Replicas) != 1 || after.Replicas[0].Addr != first.Addr || after.Master.Addr != before.Master.Addr {
		t.Errorf("the partition has %s and %v, want %s and %s", after.Master.Addr, after.Replicas, before.Master.Addr, first.Addr)
	}
	l.goesOn(t)

	w.begin(0, directory.Task{Add: &second, Remove: before.Master.Addr, Master: second.Addr})
	after = w.done(0)
	if len(after.Replicas) != 1 || after.Replicas[0].Addr != first.Addr || after.Master.Addr != second.Addr {
		t.Errorf("the partition has %s and %v, want %s and %s", after.Master.Addr, after.Replicas, second.Addr, first.Addr)
	}
	w.settled(f, 0)
	l.goesOn(t)
	l.stop()
	if n := l.lost(t); n > 0 {
		t.Errorf("%d of %d acknowledged writes are lost", n, len(l.acknowledged))
	}
	servers := NewRedis(rueidis.ClientOption{})
	t.Cleanup(servers.Close)
	for _, member := range before.Members() {
		redistest.Eventually(t, member.Addr+" belongs to no partition", func() bool {
			report, err := servers.Fence(t.Context(), member.Addr)
			return err == nil && report.Unread && report.Identity == ""
		})
	}
	t.Logf("%d acknowledged, %d uncertain, longest pause %v", len(l.acknowledged), l.uncertain, l.pause)
}

// TestALostMemberIsReplaced: it is removed although it does not answer.
func TestALostMemberIsReplaced(t *testing.T) {
	t.Parallel()
	w := start(t, devfleet.Config{Partitions: 1})
	w.agent()
	f := w.client(fleet.Config{WaitReplicas: 1})
	w.settled(f, 0)
	l := w.load(f, "a", 8)
	l.goesOn(t)
	before := w.mapNow().Partitions[0]
	joins := w.spare()
	must(t, w.server(before.Master.Addr).Proc.Kill())
	w.begin(0, directory.Task{Add: &joins, Remove: before.Master.Addr})
	after := w.done(0)
	if len(after.Replicas) != 1 || after.Replicas[0].Addr != joins.Addr || after.Master.Addr != before.Replicas[0].Addr {
		t.Errorf("the partition has %s and %v, want %s and %s", after.Master.Addr, after.Replicas, before.Replicas[0].Addr, joins.Addr)
	}
	w.settled(f, 0)
	l.goesOn(t)
	l.stop()
	if n := l.lost(t); n > 0 {
		t.Errorf("%d of %d acknowledged writes are lost", n, len(l.acknowledged))
	}
}

// TestMembersAreRestarted one after the other, under load: each comes back with its fence,
// and the master is the same at the end.
func TestMembersAreRestarted(t *testing.T) {
	t.Parallel()
	w := start(t, devfleet.Config{Partitions: 2, RestartAfter: time.Millisecond})
	w.agent()
	f := w.client(fleet.Config{WaitReplicas: 1})
	w.settled(f, 0)
	w.settled(f, 1)
	l := w.load(f, "a", 8)
	l.goesOn(t)
	before := w.mapNow()
	for id, p := range before.Partitions {
		task := directory.Task{Master: p.Master.Addr}
		for _, member := range p.Members() {
			task.Restart = append(task.Restart, directory.Restart{Addr: member.Addr, Run: member.Run})
		}
		w.begin(id, task)
	}
	for id, p := range before.Partitions {
		after := w.done(id)
		if after.Master.Addr != p.Master.Addr {
			t.Errorf("%s leads partition %d, want %s", after.Master.Addr, id, p.Master.Addr)
		}
		runs := map[string]string{}
		for _, member := range p.Members() {
			runs[member.Addr] = member.Run
		}
		for _, member := range after.Members() {
			if member.Run == runs[member.Addr] || member.Boot != directory.BootFenced {
				t.Errorf("%s is in run %s, and was in %s; it came back %q", member.Addr, member.Run, runs[member.Addr], member.Boot)
			}
		}
		w.settled(f, id)
	}
	l.goesOn(t)
	l.stop()
	if n := l.lost(t); n > 0 {
		t.Errorf("%d of %d acknowledged writes are lost", n, len(l.acknowledged))
	}
	t.Logf("%d acknowledged, %d uncertain, longest pause %v", len(l.acknowledged), l.uncertain, l.pause)
}

// TestARestartThatFailsStopsTheOthers: a member does not come back, so no other one is
// shut down until it does.
func TestARestartThatFailsStopsTheOthers(t *testing.T) {
	t.Parallel()
	w := start(t, devfleet.Config{Partitions: 2})
	w.agent()
	f := w.client(fleet.Config{})
	w.settled(f, 0)
	w.settled(f, 1)
	for id, p := range w.mapNow().Partitions {
		w.begin(id, directory.Task{Restart: []directory.Restart{{Addr: p.Replicas[0].Addr, Run: p.Replicas[0].Run}}})
	}
	noted := func(text string) (n int) {
		events, err := w.dir.Events(t.Context())
		must(t, err)
		for _, event := range events {
			if strings.Contains(event.What, text) {
				n++
			}
		}
		return n
	}
	redistest.Eventually(t, "the tasks wait", func() bool { return noted("the task waits") > 0 })
	if n := noted("was shut down"); n != 1 {
		t.Errorf("%d members were shut down, want 1", n)
	}
	for _, s := range w.servers.Servers() {
		go func() {
			<-s.Proc.Done()
			_ = s.Proc.Restart(context.WithoutCancel(t.Context())) // at the end of the test it is stopped
		}()
	}
	w.done(0)
	w.done(1)
}

// TestRetireInOneRun: a former member that was restarted may be a member again.
func TestRetireInOneRun(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{TCP: true})
	c := server.Client(t)
	identity := members.Identity("f", 0)
	must(t, c.Do(t.Context(), c.B().Set().Key(members.IdentityKey).Value(identity).Build()).Error())
	servers := NewRedis(rueidis.ClientOption{})
	t.Cleanup(servers.Close)
	has := func() bool {
		there, err := c.Do(t.Context(), c.B().Exists().Key(members.IdentityKey).Build()).AsBool()
		must(t, err)
		return there
	}
	if err := servers.Retire(t.Context(), server.Addr(), "another run", identity); err == nil || !has() {
		t.Errorf("Retire in another run = %v, and the identity is there: %t; want that it stays", err, has())
	}
	must(t, servers.Retire(t.Context(), server.Addr(), server.Info("server")["run_id"], identity))
	if has() {
		t.Error("the identity is still there")
	}
}
