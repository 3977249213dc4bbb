package recovery_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/devfleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/failover"
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/fleet/recovery"
	"github.com/millrace/millrace/internal/fleet/snapshot"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/test/redistest"
)

// TestTheDirectoryIsEmptied under load, with clients and agents connected: the fleet becomes
// read-only, is recovered from the copy of one member at the same address, and all clients and
// agents go on.
func TestTheDirectoryIsEmptied(t *testing.T) {
	t.Parallel()
	w := start(t, devfleet.Config{Partitions: 2})
	w.agent(w.dir)
	f := w.client(w.dir, fleet.Config{WaitReplicas: 1})
	w.settled(w.dir, f)
	l := w.load(f, "a", "b", "c", "d")
	l.goesOn()
	before := w.loseWhole()
	w.readOnly(f)
	w.dirHasNone()

	found := w.find(recovery.Config{Members: []string{before.Partitions[1].Replicas[0].Addr}})
	if len(found.Members) != 4 || len(found.Copies) != 4 || len(found.Findings) != 0 || found.Known != before.Epoch {
		t.Errorf("found = %+v, want four members with copies, and that nothing differs", found)
	}
	archive := t.TempDir()
	text, err := before.Pack()
	must(t, err)
	must(t, os.WriteFile(filepath.Join(archive, "0.map"), []byte(members.Copy{Epoch: before.Epoch, Text: text}.String()), 0o600))
	both := w.find(recovery.Config{Members: []string{before.Partitions[1].Replicas[0].Addr}, Archive: archive})
	if len(both.Copies) != 5 || both.From.From == "0.map" || says(both.Unknown, "the one in the archive") {
		t.Errorf("found = %+v, want a copy of a member, which is as new as that in the archive", both)
	}
	must(t, found.Store(t.Context(), "recover"))
	w.settled(w.dir, f)
	l.goesOn()
	must(t, found.Store(t.Context(), "recover")) // nothing is left to do
	l.check(f)
	m := mapOf(t, w.dir)
	if m.Fleet != before.Fleet || m.Settings != before.Settings || m.Epoch <= before.Epoch {
		t.Errorf("the map is %+v, want that of epoch %d with a higher epoch", m, before.Epoch)
	}
	if events, err := w.dir.Events(t.Context()); err != nil || len(events) == 0 {
		t.Errorf("the log has %v, %v", events, err)
	}
}

// dirHasNone checks that the directory has no map.
func (w *world) dirHasNone() {
	w.t.Helper()
	if m, err := w.dir.Confirm(w.t.Context(), 0); !errors.Is(err, directory.ErrNoFleet) {
		w.t.Fatalf("the directory has %+v, %v, want no fleet", m, err)
	}
}

// TestTheDirectoryIsGone, with all its clients: another one is made from the archive alone.
func TestTheDirectoryIsGone(t *testing.T) {
	t.Parallel()
	w := start(t, devfleet.Config{Partitions: 2})
	stop := w.agent(w.dir)
	f := w.client(w.dir, fleet.Config{WaitReplicas: 1})
	w.settled(w.dir, f)
	l := w.load(f, "a", "b", "c", "d")
	l.goesOn()
	archive := t.TempDir()
	for _, err := range snapshot.New(w.dir, snapshot.Config{Archive: archive, Logger: silent}).Now(t.Context(), 0) {
		must(t, err)
	}
	stop()
	for _, s := range w.servers.Servers() { // as of before there were copies on members
		if s.Role == devfleet.Master {
			w.do(mapOf(t, w.dir).Partitions[s.Partition].Master.Addr, "DEL", members.MapKey)
		}
	}
	must(t, w.servers.Directory().Proc.Kill())
	w.readOnly(f)

	dir := w.elsewhere()
	found := w.find(recovery.Config{Archive: archive, Directory: dir})
	if len(found.Copies) != 1 || !says(found.Unknown, "the one in the archive") || len(found.Members) != 4 {
		t.Errorf("found = %+v, want the copy in the archive, and four members", found)
	}
	must(t, found.Store(t.Context(), "recover"))
	w.agent(dir)
	moved := w.client(dir, fleet.Config{})
	w.settled(dir, moved)
	l.check(moved)
	if err := add(t.Context(), f, "a", "late"); !errors.Is(err, fleet.ErrReadOnly) {
		t.Errorf("a client of the old directory writes: %v, want ErrReadOnly", err)
	}
}

// TestAnUnfitDirectory is not written to.
func TestAnUnfitDirectory(t *testing.T) {
	t.Parallel()
	w := start(t, devfleet.Config{Partitions: 1})
	stop := w.agent(w.dir)
	f := w.client(w.dir, fleet.Config{})
	w.settled(w.dir, f)
	stop()
	next := w.dial(redistest.Start(t, redistest.Options{TCP: true}).Addr()) // without an append-only file
	member := mapOf(t, w.dir).Partitions[0].Master.Addr
	if _, err := find(t, recovery.Config{Members: []string{member}, Directory: next}); !errors.Is(err, directory.ErrUnfit) {
		t.Errorf("Find = %v, want %v", err, directory.ErrUnfit)
	}
	if _, err := next.Confirm(t.Context(), 0); !errors.Is(err, directory.ErrNoFleet) {
		t.Errorf("Confirm = %v, want %v", err, directory.ErrNoFleet)
	}
	if _, adopted, err := directory.AdoptMoves(t.Context(), next); adopted || err != nil {
		t.Errorf("AdoptMoves = %t, %v, want no run to adopt", adopted, err)
	}
}

// TestAnotherKindOfDirectory takes the place of the present one: etcd of a Redis, and a Redis
// of etcd.
func TestAnotherKindOfDirectory(t *testing.T) {
	t.Parallel()
	w := start(t, devfleet.Config{Partitions: 2})
	dir := w.dir
	for _, next := range []*directory.Directory{w.inEtcd(), w.elsewhere()} {
		stop := w.agent(dir)
		f := w.client(dir, fleet.Config{WaitReplicas: 1})
		w.settled(dir, f)
		l := w.load(f, "a", "b", "c")
		l.goesOn()
		l.stop()
		stop()
		before := mapOf(t, dir)
		f.Close()
		must(t, w.find(recovery.Config{Directory: next, Members: []string{before.Partitions[0].Master.Addr}}).Store(t.Context(), "recover"))
		stop = w.agent(next)
		moved := w.client(next, fleet.Config{WaitReplicas: 1})
		w.settled(next, moved)
		l.check(moved)
		if m := mapOf(t, next); m.Fleet != before.Fleet || m.Settings != before.Settings || m.Epoch <= before.Epoch {
			t.Errorf("the map is %+v, want that of epoch %d with a higher epoch", m, before.Epoch)
		}
		stop()
		dir = next
	}
}

// TestCopiesAreKept after each change, and by the next agent when the first one has gone.
func TestCopiesAreKept(t *testing.T) {
	t.Parallel()
	w := start(t, devfleet.Config{Partitions: 2})
	f := w.client(w.dir, fleet.Config{})
	for range 2 {
		stop := w.agent(w.dir)
		w.settled(w.dir, f)
		p := mapOf(t, w.dir).Partitions[0]
		servers := failover.NewRedis(w.option())
		must(t, failover.Switch(t.Context(), w.dir, servers, 0, p.Replicas[0].Addr, silent, nil))
		servers.Close()
		w.settled(w.dir, f)
		stop()
	}
}

// TestTheMasterChangedAfterTheCopy: copies are of different ages, and the newest one names a
// former master. The elected one has everything that was confirmed.
func TestTheMasterChangedAfterTheCopy(t *testing.T) {
	t.Parallel()
	w := start(t, devfleet.Config{Partitions: 2})
	stop := w.agent(w.dir)
	f := w.client(w.dir, fleet.Config{WaitReplicas: 1})
	w.settled(w.dir, f)
	archive, m := t.TempDir(), mapOf(t, w.dir)
	older := m.Clone()
	older.Epoch -= 2 // the one before is that from which the newest was made
	older.Partitions[0].Master, older.Partitions[0].Replicas[0] = older.Partitions[0].Replicas[0], older.Partitions[0].Master
	for name, m := range map[string]*directory.Map{"old.map": older, "new.map": m} {
		text, err := m.Pack()
		must(t, err)
		must(t, os.WriteFile(filepath.Join(archive, name), []byte(members.Copy{Epoch: m.Epoch, Text: text}.String()), 0o600))
	}
	stop()
	former := m.Partitions[0].Master.Addr
	servers := failover.NewRedis(w.option())
	t.Cleanup(servers.Close)
	must(t, failover.Switch(t.Context(), w.dir, servers, 0, "", silent, nil))
	text, err := m.Pack()
	must(t, err)
	for _, c := range f.Partitions() { // their copies of later maps are lost
		must(t, retry.Policy{}.Do(t.Context(), func(int) error { // until the client has the map of the switch
			return c.Do(t.Context(), c.B().Set().Key(members.MapKey).Value(members.Copy{Epoch: m.Epoch, Text: text}.String()).Build()).Error()
		}))
	}
	l := w.load(f, "a", "b", "c", "d")
	l.goesOn()
	w.lose()
	w.readOnly(f)

	found := w.find(recovery.Config{Archive: archive, Members: []string{former}})
	if found.Copies[0].Epoch != m.Epoch || len(found.Copies) != 6 {
		t.Errorf("copies = %+v, want six, the newest of epoch %d first", found.Copies, m.Epoch)
	}
	if !says(found.Findings, "Partition 0", former+" as the master") || !says(found.Unknown, "was changed after the newest copy") || found.Map.Epoch <= found.Known {
		t.Errorf("found = %+v, want that partition 0 had another master since", found)
	}
	must(t, found.Store(t.Context(), "recover"))
	w.agent(w.dir)
	w.settled(w.dir, f)
	l.goesOn()
	l.check(f)
}

// TestAPartitionIsSilent when the directory is lost: the others serve, and Unknown names
// the missing one. When it is back it serves, too.
func TestAPartitionIsSilent(t *testing.T) {
	t.Parallel()
	w := start(t, devfleet.Config{Partitions: 3})
	stop := w.agent(w.dir)
	f := w.client(w.dir, fleet.Config{WaitReplicas: 1})
	w.settled(w.dir, f)
	l := w.load(f, "a", "b", "c", "d", "e", "f")
	l.goesOn()
	stop()
	m := mapOf(t, w.dir)
	for _, member := range m.Partitions[2].Members() {
		must(t, w.server(member.Addr).Proc.Pause())
	}
	w.lose()
	found := w.find(recovery.Config{Members: []string{m.Partitions[0].Master.Addr}})
	if !says(found.Unknown, "What partition 2 has") || len(found.Unknown) != 2 {
		t.Errorf("not known is %q, want that no member of partition 2 answers", found.Unknown)
	}
	for _, member := range found.Members {
		if (member.State == recovery.Down) != (member.Partition == 2) {
			t.Errorf("member = %+v, want that only those of partition 2 are down", member)
		}
	}
	must(t, found.Store(t.Context(), "recover"))
	w.agent(w.dir)
	redistest.Eventually(t, "the others serve", func() bool {
		s, err := f.Status(t.Context())
		return err == nil && s.Partitions[0].State == fleet.Healthy && s.Partitions[1].State == fleet.Healthy
	})
	if p := mapOf(t, w.dir).Partitions[2]; !p.ReadOnly {
		t.Errorf("partition 2 is %+v, want it read-only", p)
	}
	for _, member := range m.Partitions[2].Members() {
		must(t, w.server(member.Addr).Proc.Resume())
	}
	w.settled(w.dir, f)
	l.goesOn()
	l.check(f)
}

// TestServersAreKnownLater: the newest copy lacks a partition, or a replica. The replica is
// taken in, and without the partition nothing is stored.
func TestServersAreKnownLater(t *testing.T) {
	t.Parallel()
	w := start(t, devfleet.Config{Partitions: 3})
	stop := w.agent(w.dir)
	f := w.client(w.dir, fleet.Config{WaitReplicas: 1})
	w.settled(w.dir, f)
	l := w.load(f, "a", "b", "c", "d", "e", "f")
	l.goesOn()
	stop()
	m := mapOf(t, w.dir)
	late, addr := m.Partitions[2].Master.Addr, m.Partitions[0].Replicas[0].Addr
	for _, p := range m.Partitions {
		w.do(p.Master.Addr, "DEL", members.MapKey)
	}
	// An archived map from before there was partition 2, and a replica of partition 0.
	archive, older := t.TempDir(), m.Clone()
	older.Partitions = older.Partitions[:2]
	older.Points = nil
	for _, point := range m.Points {
		if point.Partition < 2 {
			older.Points = append(older.Points, point)
		}
	}
	archived := func(m *directory.Map) {
		text, err := m.Pack()
		must(t, err)
		must(t, os.WriteFile(filepath.Join(archive, "f.map"), []byte(members.Copy{Epoch: m.Epoch, Text: text}.String()), 0o600))
	}
	archived(older)
	w.lose()
	for _, given := range [][]string{{late}, nil} { // a server says so, or records of tags
		if given == nil {
			forward := []string{"SET", members.RecordKey("elsewhere"), "2"}
			w.do(m.Partitions[1].Master.Addr, forward...)
		}
		if _, err := find(t, recovery.Config{Archive: archive, Members: given, Directory: w.dir}); !errors.Is(err, recovery.ErrIncomplete) {
			t.Errorf("Find with %v = %v, want ErrIncomplete", given, err)
		}
	}
	older = m.Clone()
	older.Partitions[0].Replicas = nil
	archived(older)
	found := w.find(recovery.Config{Archive: archive, Members: []string{addr}})
	if !says(found.Findings, addr, "becomes a replica") || len(found.Map.Partitions[0].Replicas) != 1 {
		t.Errorf("found = %+v, want %s as a replica of partition 0", found, addr)
	}
	// The only other member has gone.
	must(t, w.server(m.Partitions[0].Master.Addr).Proc.Kill())
	must(t, found.Store(t.Context(), "recover"))
	w.agent(w.dir)
	redistest.Eventually(t, "the replica is the master", func() bool {
		p := mapOf(t, w.dir).Partitions[0]
		return !p.ReadOnly && p.Master.Addr == addr
	})
	w.serves(f, fleet.Partial)
	l.check(w.client(w.dir, fleet.Config{}))
}

// TestAServerWasUsedAgain after the newest copy: that names it as a member of one partition, and
// it has confirmed writes of another one, whose master is gone. It is a member there.
func TestAServerWasUsedAgain(t *testing.T) {
	t.Parallel()
	for _, was := range []string{"a replica", "the master"} {
		t.Run(was, func(t *testing.T) {
			t.Parallel()
			w := start(t, devfleet.Config{Partitions: 3})
			stop := w.agent(w.dir)
			f := w.client(w.dir, fleet.Config{WaitReplicas: 1})
			w.settled(w.dir, f)
			l := w.load(f, "a", "b", "c", "d", "e", "f")
			l.goesOn()
			stop()
			m := mapOf(t, w.dir)
			for _, p := range m.Partitions {
				w.do(p.Master.Addr, "DEL", members.MapKey)
			}
			older, again := m.Clone(), m.Partitions[1].Replicas[0]
			older.Partitions[1].Replicas = nil
			p := &older.Partitions[0]
			if was == "the master" {
				p.Replicas = append(p.Replicas, p.Master)
				p.Master = again
			} else {
				p.Replicas = append(p.Replicas, again)
			}
			archive := t.TempDir()
			text, err := older.Pack()
			must(t, err)
			must(t, os.WriteFile(filepath.Join(archive, "f.map"), []byte(members.Copy{Epoch: older.Epoch, Text: text}.String()), 0o600))
			w.lose()
			found := w.find(recovery.Config{Archive: archive})
			if !says(found.Findings, again.Addr, "belongs to another one by now") || !says(found.Findings, again.Addr, "becomes a replica") {
				t.Errorf("found = %+v, want %s as a replica of partition 1", found, again.Addr)
			}
			must(t, w.server(m.Partitions[1].Master.Addr).Proc.Kill())
			must(t, found.Store(t.Context(), "recover"))
			w.agent(w.dir)
			redistest.Eventually(t, "it leads", func() bool {
				p := mapOf(t, w.dir).Partitions[1]
				return !p.ReadOnly && p.Master.Addr == again.Addr
			})
			w.serves(f, fleet.Partial)
			l.check(w.client(w.dir, fleet.Config{}))
		})
	}
}

// TestFindRefuses input that gives no recovery, with the reason.
func TestFindRefuses(t *testing.T) {
	t.Parallel()
	a, b := start(t, devfleet.Config{Partitions: 1, Replicas: devfleet.NoReplicas}), start(t, devfleet.Config{Partitions: 1, Replicas: devfleet.NoReplicas})
	bare, none := redistest.Start(t, redistest.Options{TCP: true}), a.elsewhere()
	one, other := a.servers.Servers()[0].Addr, b.servers.Servers()[0].Addr
	refused := func(want error, part string, cfg recovery.Config) {
		t.Helper()
		if cfg.Directory == nil {
			cfg.Directory = none
		}
		if _, err := find(t, cfg); !errors.Is(err, want) || !says([]string{err.Error()}, part) {
			t.Errorf("Find(%+v) = %v, want %v that says %q", cfg, err, want, part)
		}
	}
	refused(recovery.ErrNoCopy, "no member of a fleet", recovery.Config{Members: []string{bare.Addr()}})
	refused(recovery.ErrNoCopy, "127.0.0.1:1", recovery.Config{Members: []string{"127.0.0.1:1"}})
	refused(recovery.ErrNoCopy, "", recovery.Config{Archive: t.TempDir()})
	refused(os.ErrNotExist, "", recovery.Config{Archive: "/no/such/folder"})
	refused(recovery.ErrNoCopy, "of fleet", recovery.Config{Members: []string{one}}) // no agent has ever run
	refused(recovery.ErrSeveralFleets, mapOf(t, a.dir).Fleet, recovery.Config{Members: []string{one, other}})
	a.do(one, "SET", members.MapKey, `7 {"version":99}`)
	refused(directory.ErrVersion, "99", recovery.Config{Members: []string{one}})

	for _, w := range []*world{a, b} {
		w.do(w.servers.Servers()[0].Addr, "DEL", members.MapKey)
		w.agent(w.dir)
		w.settled(w.dir, w.client(w.dir, fleet.Config{}))
	}
	refused(recovery.ErrExists, mapOf(t, b.dir).Fleet, recovery.Config{Members: []string{one}, Directory: b.dir})
	before := mapOf(t, a.dir)
	found := a.find(recovery.Config{Members: []string{one}})
	if found.Behind {
		t.Errorf("found = %+v, want that the directory has the newest map", found)
	}
	must(t, found.Store(t.Context(), "recover"))
	if now := mapOf(t, a.dir); now.Epoch != before.Epoch {
		t.Errorf("Store in a directory that has the fleet changed it from epoch %d to %d", before.Epoch, now.Epoch)
	}
}
