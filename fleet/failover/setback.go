package failover

import (
	"context"
	"fmt"

	"github.com/millrace/millrace/fleet/directory"
)

// setback notices that the directory has lost its newest maps: it was restored from
// an old file, or a replica took over that had not been given them. Clients refuse
// a map that is older than the one they have, and so the fleet would be read-only
// for ever.
type setback struct {
	a     *Agent
	epoch int64 // of the map that was last found to be too old
	seen  int   // rounds in a row
}

// jump is by how much the epoch goes up then. Members know the epoch of the last map
// by which one of them was promoted; there were others since, but not so many.
const jump = 1000

// mend gives the map an epoch above all that anybody can have seen, if members know
// of one that is higher than its own. Who is master by it may be wrong, too: so all
// partitions are read-only, and elect one anew of those who can be reached.
func (s *setback) mend(ctx context.Context, m *directory.Map) {
	highest := s.a.watch.highest(m)
	if highest <= m.Epoch || s.epoch != m.Epoch {
		s.epoch, s.seen = m.Epoch, 0
		return
	}
	// For a moment that is so in every failover, between a promotion and its map.
	if s.seen++; s.seen < 2*misses {
		return
	}
	next := m.Clone()
	next.Epoch = highest + jump
	next.Floor = next.Epoch
	for i := range next.Partitions {
		next.Partitions[i].ReadOnly = true
		next.Partitions[i].Epoch = next.Epoch
	}
	if err := s.a.desk.Change(ctx, m.Epoch, next); err != nil {
		return // it is tried again
	}
	s.a.note(ctx, next, -1, fmt.Sprintf("the directory had gone back to epoch %d, and members knew of %d: all partitions elect anew", m.Epoch, highest))
}

// highest returns the highest epoch that a member of the fleet knows of.
func (w *watch) highest(m *directory.Map) (epoch int64) {
	for _, p := range m.Partitions {
		for _, member := range p.Members() {
			if h := w.of(member.Addr); h.seen && h.look.Identity == directory.Identity(m.Fleet, p.ID) {
				epoch = max(epoch, h.look.Floor)
			}
		}
	}
	return epoch
}
