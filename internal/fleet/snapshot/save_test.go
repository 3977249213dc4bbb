package snapshot

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/devfleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/test/redistest"
)

func TestNowSavesTheReplica(t *testing.T) {
	t.Parallel()
	b := start(t, single)
	master, replica := b.f.Servers()[0], b.f.Servers()[1]
	master0, replica0 := b.forks(master), b.forks(replica)
	before := time.Now()

	s, err := now(deadline(t), b.keeper(Config{}))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := s.Saved.Addr, replica.Addr; got != want || s.Saved.Node != replica.Node {
		t.Errorf("saved on %s of %q, want %s of %q", got, s.Saved.Node, want, replica.Node)
	}
	if got := [2]int{b.forks(master) - master0, b.forks(replica) - replica0}; got != [2]int{0, 1} {
		t.Errorf("children of master and replica: %v, want 0 and 1", got)
	}
	if s.Saved.At.Before(before.Add(-time.Second)) || s.Saved.At.After(time.Now().Add(time.Second)) || s.Saved.Took <= 0 || s.Saved.Memory <= 0 || s.Saved.Copied <= 0 {
		t.Errorf("saved: %+v", s.Saved)
	}
	if s.Archived != (directory.Archived{}) || s.Failed != (directory.Failed{}) {
		t.Errorf("archived: %+v, failed: %+v, want nothing", s.Archived, s.Failed)
	}

	known := b.known()
	if d := known.Saved.At.Sub(s.Saved.At).Abs(); d > 100*time.Millisecond || known.Saved.Addr != replica.Addr {
		t.Errorf("the directory knows %+v, want %+v", known.Saved, s.Saved)
	}
	restored := restore(t, filepath.Join(replica.Proc.Dir(), "dump.rdb"))
	if got, err := ask(t, restored.Addr(), "GET", "key:7"); err == nil {
		t.Errorf("a unix socket answers as a TCP address: %q", got)
	}
	if got := do(t, restored, "GET", "key:7"); got != strings.Repeat("x", 100) {
		t.Errorf("key:7 of the restored server = %q", got)
	}
}

// do asks a server of a test's own.
func do(t *testing.T, s *redistest.Server, command ...string) string {
	t.Helper()
	c := s.Client(t)
	text, err := c.Do(t.Context(), c.B().Arbitrary(command...).Build()).ToString()
	if err != nil {
		t.Errorf("%v: %v", command, err)
	}
	return text
}

func TestMasterWhereThereIsNoReplica(t *testing.T) {
	t.Parallel()
	b := start(t, devfleet.Config{Nodes: 1, Partitions: 1, Replicas: devfleet.NoReplicas})
	s, err := now(deadline(t), b.keeper(Config{}))
	if err != nil || s.Saved.Addr != b.f.Servers()[0].Addr {
		t.Errorf("Now = %+v, %v, want the master's", s, err)
	}
}

func TestMasterWhereNoReplicaIsInStep(t *testing.T) {
	t.Parallel()
	for what, hurt := range map[string]func(b *bench, replica devfleet.Server) error{
		"it follows nobody": func(b *bench, r devfleet.Server) error { b.ask(r, "REPLICAOF", "127.0.0.1", "1"); return nil },
		"it is frozen":      func(_ *bench, r devfleet.Server) error { return r.Proc.Pause() },
		"it is gone":        func(_ *bench, r devfleet.Server) error { return r.Proc.Kill() },
		"it was promoted": func(b *bench, r devfleet.Server) error {
			b.ask(r, "REPLICAOF", "NO", "ONE")
			return nil
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			b := start(t, single)
			master, replica := b.f.Servers()[0], b.f.Servers()[1]
			if err := hurt(b, replica); err != nil {
				t.Fatal(err)
			}
			s, err := now(deadline(t), b.keeper(Config{}))
			if err != nil || s.Saved.Addr != master.Addr {
				t.Errorf("Now = %+v, %v, want the master's", s, err)
			}
		})
	}
}

// A replica of a server that was master for a while has another history than the master,
// so its missing writes are unknown.
func TestReplicaOfAnotherMaster(t *testing.T) {
	t.Parallel()
	b := start(t, devfleet.Config{Nodes: 3, Partitions: 1, Replicas: 2})
	master, replica, promoted := b.f.Servers()[0], b.f.Servers()[1], b.f.Servers()[2]
	b.ask(promoted, "REPLICAOF", "NO", "ONE")
	host, port, _ := strings.Cut(promoted.Addr, ":")
	b.ask(replica, "CONFIG", "SET", "masteruser", "") // by which it follows the master alone
	b.ask(replica, "CONFIG", "SET", "masterauth", "")
	b.ask(replica, "REPLICAOF", host, port)
	redistest.Eventually(t, "the replica is linked", func() bool {
		return b.info(replica, "master_port") == port && b.info(replica, "master_link_status") == "up"
	})
	s, err := now(deadline(t), b.keeper(Config{}))
	if err != nil || s.Saved.Addr != master.Addr {
		t.Errorf("Now = %+v, %v, want the master's", s, err)
	}
}

// A master that is fenced is about to be replaced.
func TestFencedMasterIsNotSaved(t *testing.T) {
	t.Parallel()
	b := start(t, single)
	b.ask(b.f.Servers()[0], "REPLICAOF", "127.0.0.1", "1")
	_, err := now(deadline(t), b.keeper(Config{}))
	wantError(t, "Now", err, ErrNoMember)
}

// A master that was restarted without its data is not worth a snapshot, which would push good
// ones out of the archive.
func TestEmptyMasterIsNotSaved(t *testing.T) {
	t.Parallel()
	b := start(t, devfleet.Config{Nodes: 1, Partitions: 1, Replicas: devfleet.NoReplicas})
	master := b.f.Servers()[0]
	if err := errors.Join(master.Proc.Kill(), master.Proc.Restart(deadline(t))); err != nil {
		t.Fatal(err)
	}
	k := b.keeper(Config{})
	for _, as := range []string{"fenced", "master"} {
		if as == "master" {
			b.ask(master, "REPLICAOF", "NO", "ONE")
		}
		_, err := now(deadline(t), k)
		wantError(t, "Now of an empty "+as, err, ErrNoMember)
		if got := b.forks(master); got != 0 {
			t.Errorf("the empty %s has had %d children", as, got)
		}
	}
	if known := b.known(); !known.Saved.At.IsZero() || known.Failed.Why == "" {
		t.Errorf("the directory knows %+v, want a failure alone", known)
	}
}

func TestReadOnlyPartitionIsNotSaved(t *testing.T) {
	t.Parallel()
	b := start(t, single)
	m, err := b.dir.Confirm(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	next := m.Clone()
	next.Epoch++
	next.Partitions[0].ReadOnly = true
	if err := b.dir.Change(t.Context(), m.Epoch, next); err != nil {
		t.Fatal(err)
	}
	k := b.keeper(Config{Interval: time.Millisecond})
	_, err = now(deadline(t), k)
	wantError(t, "Now", err, ErrNoMember)
	s, err := k.load(t.Context())
	if due := s.due(k.cfg); err != nil || len(due) != 0 {
		t.Errorf("due: %v, %v, want none", due, err)
	}
}

// vanish has a server work in a folder that is gone.
func (b *bench) vanish(s devfleet.Server) {
	b.t.Helper()
	if err := os.RemoveAll(s.Proc.Dir()); err != nil {
		b.t.Fatal(err)
	}
}

// TestFailedSaveIsNoticed: a member that cannot write its file is reported, and the last snapshot still counts.
func TestFailedSaveIsNoticed(t *testing.T) {
	t.Parallel()
	b := start(t, single)
	master, replica := b.f.Servers()[0], b.f.Servers()[1]
	k := b.keeper(Config{})
	if _, err := now(deadline(t), k); err != nil {
		t.Fatal(err)
	}
	before := b.known()

	b.vanish(replica)
	s, err := now(deadline(t), k)
	wantError(t, "Now", err, ErrFailed)
	if !strings.Contains(err.Error(), "could not write") {
		t.Errorf("Now = %v, want it to say what the member said", err)
	}
	if s.Failed.Addr != replica.Addr || s.Failed.Why != err.Error() || s.Saved != (directory.Saved{}) {
		t.Errorf("Now = %+v, want a failure of the replica", s)
	}
	known := b.known()
	if known.Saved != before.Saved || known.Failed.Addr != replica.Addr || known.Failed.Why != err.Error() {
		t.Errorf("the directory knows %+v, want what was saved before, and why this failed", known)
	}

	// The next one is taken on another member, and the failure is over.
	s, err = now(deadline(t), k)
	if err != nil || s.Saved.Addr != master.Addr {
		t.Errorf("Now = %+v, %v, want the master's", s, err)
	}
	known = b.known()
	if known.Saved.Addr != master.Addr || known.Failed != (directory.Failed{}) {
		t.Errorf("the directory knows %+v, want what the master saved", known)
	}
	// After a success the replica has another chance.
	s, _ = now(deadline(t), k)
	if s.Failed.Addr != replica.Addr {
		t.Errorf("Now = %+v, want the replica to be tried again", s)
	}
	wantEvents(t, b, "a snapshot failed", "snapshots succeed again", "a snapshot failed")
}

// wantEvents checks the directory's log of partition 0, the newest event first.
func wantEvents(t *testing.T, b *bench, want ...string) {
	t.Helper()
	events, err := b.dir.Events(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(events) != len(want) {
		t.Fatalf("events: %+v, want %q", events, want)
	}
	for i, e := range events {
		if !strings.HasPrefix(e.What, want[i]) || e.Partition != 0 || e.Agent == "" {
			t.Errorf("event %d = %+v, want %q", i, e, want[i])
		}
	}
}

// A save that another client asked for holds older data, and does not count as one's own.
func TestSaveInProgress(t *testing.T) {
	t.Parallel()
	for what, command := range map[string][]string{
		"a snapshot":   {"BGSAVE"},
		"another file": {"BGREWRITEAOF"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			b := start(t, single)
			replica := b.f.Servers()[1]
			forks := b.forks(replica)
			b.slow(2*time.Millisecond, replica) // about half a second
			b.ask(replica, command...)
			s, err := now(deadline(t), b.keeper(Config{}))
			if err != nil || s.Saved.Addr != replica.Addr {
				t.Fatalf("Now = %+v, %v, want the replica's", s, err)
			}
			if got := b.forks(replica) - forks; got != 2 {
				t.Errorf("the replica has had %d children, want the foreign one and ours", got)
			}
		})
	}
}

// TestBusyMember: a member that has begun to save after it was looked at refuses.
func TestBusyMember(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{TCP: true, Args: []string{"--rdb-key-save-delay", "10000000"}})
	do(t, server, "SET", "key", "value")
	p := newPool(rueidis.ClientOption{})
	defer p.Close()
	for _, command := range []string{"BGREWRITEAOF", "BGSAVE"} {
		do(t, server, command)
		wantError(t, "BGSAVE beside "+command, p.bgsave(t.Context(), server.Addr()), errBusy)
		_, err := p.request(t.Context(), server.Addr(), 50*time.Millisecond)
		wantError(t, "request beside "+command, err, errBusy)
		do(t, server, "FLUSHALL") // which ends the snapshot
		do(t, server, "SET", "key", "value")
		if command == "BGREWRITEAOF" {
			do(t, server, "CONFIG", "SET", "appendonly", "yes")
			do(t, server, "CONFIG", "SET", "appendonly", "no") // which ends the rewrite
		}
		redistest.Eventually(t, command+" is over", func() bool {
			info := server.Info("persistence")
			return info["rdb_bgsave_in_progress"] == "0" && info["aof_rewrite_in_progress"] == "0"
		})
	}
}

// TestMemberKilledWhileSaving: a save that its member did not survive is a failure, also if it is back at once.
func TestMemberKilledWhileSaving(t *testing.T) {
	t.Parallel()
	for _, returns := range []bool{false, true} {
		t.Run(map[bool]string{false: "it stays away", true: "it is restarted"}[returns], func(t *testing.T) {
			t.Parallel()
			b := start(t, single)
			replica := b.f.Servers()[1]
			k := b.keeper(Config{})
			if !returns { // else it is to be noticed by its restart
				k.silence = time.Second
			}
			b.slow(50*time.Millisecond, replica)
			g := b.begin(k)
			b.await(replica)
			err := replica.Proc.Kill()
			if returns {
				err = errors.Join(err, replica.Proc.Restart(deadline(t)))
			}
			if err != nil {
				t.Fatal(err)
			}
			s, err := g.wait(t)
			wantError(t, "Now", err, ErrFailed)
			if s.Saved != (directory.Saved{}) || !b.known().Saved.At.IsZero() {
				t.Errorf("Now = %+v, the directory knows %+v, want nothing saved", s, b.known())
			}
			if s, err = now(deadline(t), k); err != nil || s.Saved.Addr != b.f.Servers()[0].Addr {
				t.Errorf("the next one = %+v, %v, want the master's", s, err)
			}
		})
	}
}

// A server that is emptied ends its child, and does not call that a failure.
func TestSnapshotGivenUp(t *testing.T) {
	t.Parallel()
	b := start(t, single)
	master, replica := b.f.Servers()[0], b.f.Servers()[1]
	redistest.Eventually(t, "a second begins", func() bool { return time.Now().Nanosecond() < 200e6 })
	b.ask(replica, "BGSAVE")
	redistest.Eventually(t, "the replica has saved, a moment ago", func() bool { return !b.saving(replica) })
	b.slow(50*time.Millisecond, replica)
	g := b.begin(b.keeper(Config{}))
	b.await(replica)
	b.ask(master, "FLUSHALL")
	_, err := g.wait(t)
	wantError(t, "Now", err, ErrFailed)
	if got := b.info(replica, "rdb_last_bgsave_status"); got != "ok" {
		t.Errorf("rdb_last_bgsave_status = %s: this test shows less than it should", got)
	}
}

func TestNowEndsWithItsContext(t *testing.T) {
	t.Parallel()
	b := start(t, single)
	b.slow(50*time.Millisecond, b.f.Servers()[1])
	ctx, cancel := context.WithCancelCause(deadline(t))
	why := errors.New("enough")
	k := b.keeper(Config{})
	ended := make(chan error, 1)
	go func() {
		_, err := now(ctx, k)
		ended <- err
	}()
	b.await(b.f.Servers()[1])
	cancel(why)
	start := time.Now()
	wantError(t, "Now", <-ended, why)
	if took := time.Since(start); took > time.Second {
		t.Errorf("Now took %v to end", took)
	}
	if known := b.known(); known.Failed.Why != "" {
		t.Errorf("the directory was told %+v, want nothing", known)
	}
	// The turn is free, and another keeper waits for the save in progress.
	b.slow(0, b.f.Servers()[1])
	if got, err := b.dir.Turn(t.Context(), b.f.Servers()[1].Node, "x", 0); err != nil || !got {
		t.Errorf("the turn is not free: %t, %v", got, err)
	}
}

func TestNowOfWhatIsNotThere(t *testing.T) {
	t.Parallel()
	b := start(t, single)
	for _, id := range []int{-1, 1} {
		for s, err := range b.keeper(Config{}).Now(deadline(t), id) {
			wantError(t, "Now", err, millrace.ErrNotFound)
			if s != (directory.Snapshot{}) {
				t.Errorf("Now = %+v, want nothing", s)
			}
		}
	}
	if err := b.f.Directory().Proc.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := now(deadline(t), b.keeper(Config{})); err == nil {
		t.Error("Now without a directory succeeds")
	}
}
