package failover

import (
	"context"
	"fmt"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/members"
)

// setback notices that the directory has lost its newest maps: it was restored from
// an old file, or a replica took over that had not been given them. Clients refuse
// a map that is older than the one they have, and so the fleet would be read-only
// for ever.
type setback struct {
	a     *Agent
	begun bool // whether the epoch was raised when this agent began to lead
}

// ahead is by how much members are ahead of the map when nothing is wrong: between a
// promotion and its map, or while partitions are added.
const ahead = 2

// mend gives the map an epoch above all that anybody can have seen, if the agent or
// members know of one that is higher than its own. Who is master by it may be wrong,
// too: so all partitions are read-only, and elect one anew of those who can be
// reached.
//
// Clients may know of a map that no member does. So an agent that begins to lead,
// and has seen nothing yet, raises the epoch in any case: to the time of day, which
// no map of before has reached. That is the time that most members have, whatever the
// agent's own clock says.
//
// It reports whether the map is another one now, or is to be.
func (s *setback) mend(ctx context.Context, m *directory.Map) bool {
	known := max(s.a.known.Load(), s.a.watch.highest(m)-ahead)
	if known <= m.Epoch && s.begun {
		return false
	}
	m, err := s.a.confirm(ctx) // others may have changed it since members were looked at
	if err != nil {
		return true
	}
	next := m.Clone()
	next.Epoch = max(known+1, m.Epoch+1, s.a.watch.time().UnixMilli())
	lost := known > m.Epoch
	if lost {
		next.Floor = next.Epoch
		for i := range next.Partitions {
			p := &next.Partitions[i]
			p.ReadOnly, p.Epoch = true, next.Epoch
			p.Master.Run = "" // it says of the master that it has all that was confirmed
		}
	}
	if err := s.a.dir.Change(ctx, m.Epoch, next); err != nil {
		return true
	}
	s.begun = true
	s.a.learn(next.Epoch)
	if lost {
		s.a.note(ctx, next, -1, fmt.Sprintf("the directory had gone back to epoch %d, and there was an epoch %d: all partitions elect anew", m.Epoch, known))
	}
	return true
}

// highest returns the highest epoch that a member of the fleet knows of.
func (w *watch) highest(m *directory.Map) (epoch int64) {
	for _, p := range m.Partitions {
		for _, member := range p.Members() {
			if h := w.of(member.Addr); h.seen && h.report.Identity == members.Identity(m.Fleet, p.ID) {
				epoch = max(epoch, h.report.Floor)
			}
		}
	}
	return epoch
}
