package failover

import (
	"testing"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/devfleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/test/redistest"
)

// TestAServerThatIsUsedElsewhere by now keeps its data, though an old map names it as a
// replica: while others join and leave, and in an election. One of them is fenced, and
// refuses reads.
func TestAServerThatIsUsedElsewhere(t *testing.T) {
	t.Parallel()
	w := start(t, devfleet.Config{Partitions: 1, Replicas: 1})
	ctx := t.Context()
	leads, fenced, joins := w.spare(), w.spare(), w.spare()
	for _, m := range []directory.Member{leads, fenced} {
		d := direct(t, m.Addr)
		must(t, d.Do(ctx, d.B().Replicaof().No().One().Build()).Error())
		must(t, d.Do(ctx, d.B().Set().Key(members.IdentityKey).Value(members.Identity("other", 3)).Build()).Error())
		must(t, d.Do(ctx, d.B().Set().Key(members.FloorKey).Value("9000000000000000").Build()).Error())
		must(t, d.Do(ctx, d.B().Set().Key("{a}").Value("elsewhere").Build()).Error())
	}
	d := direct(t, fenced.Addr)
	must(t, members.Fence(ctx, d))

	m := w.mapNow()
	next := m.Clone()
	next.Epoch++
	p := &next.Partitions[0]
	leads.Run, fenced.Run = "another", "another"
	p.Replicas = append(p.Replicas, leads, fenced, joins)
	must(t, w.dir.Change(ctx, m.Epoch, next))
	w.agent()
	in := func(addr string) bool {
		p := w.mapNow().Partitions[0]
		i := index(p, addr)
		return i >= 0 && p.Replicas[i].Run != "" && !p.Replicas[i].Down
	}
	redistest.Eventually(t, "the last replica has been made to follow, so the others had their turns", func() bool { return in(joins.Addr) })
	victim := w.mapNow().Partitions[0].Master.Addr
	must(t, w.server(victim).Proc.Kill())
	must(t, w.server(victim).Proc.Restart(ctx))
	redistest.Eventually(t, "another member leads", func() bool {
		p := w.mapNow().Partitions[0]
		return !p.ReadOnly && p.Master.Addr != victim
	})
	if m := w.mapNow(); m.Partitions[0].Floor >= 9e15 || m.Epoch >= 9e15 {
		t.Errorf("the epoch is %d, and the floor %d, by what other fleets have", m.Epoch, m.Partitions[0].Floor)
	}
	redistest.Eventually(t, "the former master is back", func() bool { return in(victim) })
	w.begin(0, directory.Task{Remove: leads.Addr})
	w.done(0)

	for _, m := range []directory.Member{leads, fenced} {
		d := direct(t, m.Addr)
		reply, err := members.ReadFenced(ctx, d, d.B().Get().Key("{a}").Build())
		must(t, err)
		if got, err := reply.ToString(); got != "elsewhere" {
			t.Errorf("%s has %q, %v, want what it has elsewhere", m.Addr, got, err)
		}
	}
	d = direct(t, leads.Addr)
	if report, err := members.Examine(ctx, d); err != nil || !report.Master {
		t.Errorf("the master of another partition is %+v, %v, want it as it was", report, err)
	}
}

// TestALatePromotionLowersNoFloor: a call that was held up on its way arrives when the member
// has been promoted again.
func TestALatePromotionLowersNoFloor(t *testing.T) {
	t.Parallel()
	s, ctx := redistest.Start(t, redistest.Options{TCP: true}), t.Context()
	servers := NewRedis(rueidis.ClientOption{})
	t.Cleanup(servers.Close)
	report, err := servers.Probe(ctx, s.Addr())
	must(t, err)
	for _, floor := range []int64{9, 7} {
		must(t, servers.Lead(ctx, s.Addr(), report.Run, members.Beat{Epoch: floor}, false))
	}
	if report, err = servers.Probe(ctx, s.Addr()); err != nil || report.Floor != 9 {
		t.Errorf("the floor is %d, %v, want 9", report.Floor, err)
	}
}
