package failover

import (
	"fmt"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/members"
)

// ErrNobody means that no member can be the master. The partition stays
// read-only until one can.
var ErrNobody = &millrace.Error{
	Code:    "nobody",
	Message: "no member can be the master",
	Hint:    "Bring a member back with its data. The agent goes on by itself.",
}

// elect returns the member that is to be the master, of those that answered. All
// of them are fenced: nothing moves any more.
//
// It is the one that is furthest in the history of the master that the map names,
// and so has all that any of them has; if there is none, the furthest in the history
// before it. Before these come members that were promoted since, of which the map
// does not tell. Offsets of other histories mean nothing.
//
// If writers wait for k of n replicas, n-k+1 must have answered, or the master
// itself: then one of them has every write that was confirmed. Who was started again
// since it was last known to be whole does not count for that. If all have answered
// there is nobody to wait for.
func elect(fleet string, p directory.Partition, reports map[string]members.Report, confirmed int) (directory.Member, error) {
	var best *directory.Member
	var most reach
	seen, masterSeen := 0, false
	candidates := p.Members()
	all := answered(candidates, reports)
	known := known(fleet, p, reports)
	for i := range candidates {
		m := &candidates[i]
		l, ok := reports[m.Addr]
		if !ok || !whole(l, fleet, p.ID) {
			continue
		}
		r := known.reach(l)
		if r.era == other && !all && (i > 0 || confirmed > 0) {
			// What the master has kept on its disk is what there is, if all copies of its
			// history are gone. What others have of another one may be old; and what was
			// confirmed may be in a replica that does not answer.
			continue
		}
		switch {
		case restarted(*m, l):
		case i == 0 && m.Run != "":
			masterSeen = r.era >= present
		case r.era >= present || r.era == former && !m.Down:
			seen++
		}
		if best == nil || most.less(r) || r == most && (m.Addr == p.Prefer || further(l, reports[best.Addr])) {
			best, most = m, r
		}
	}
	need := 0
	if confirmed > 0 {
		need = max(1, len(p.Replicas)-confirmed+1)
	}
	switch {
	case best == nil:
		return directory.Member{}, ErrNobody.Errorf("no member of partition %d answers that has its data", p.ID)
	case !all && !masterSeen && seen < need:
		return directory.Member{}, ErrNobody.Errorf("%d of %d replicas answered, and %d must, since writes are confirmed by %d", seen, len(p.Replicas), need, confirmed)
	default:
		return *best, nil
	}
}

// answered reports whether all members have said what they have.
func answered(all []directory.Member, reports map[string]members.Report) bool {
	for _, m := range all {
		if l, ok := reports[m.Addr]; !ok || l.Loading {
			return false
		}
	}
	return true
}

// restarted reports whether a member was started again since it was last known to be
// whole: it may lack what it once had, and had confirmed.
func restarted(m directory.Member, l members.Report) bool { return m.Run != "" && l.Run != m.Run }

// whole reports whether a member has all the data of the partition, as of some
// time.
func whole(l members.Report, fleet string, id int) bool {
	return l.Identity == members.Identity(fleet, id) && !l.Loading && !l.Copying
}

// lineage is what is known of the histories of a partition.
type lineage struct {
	history, before string // that of the master, and the one that it went on from
	floor           int64  // the highest that anybody has who is in it
}

// known returns what the map and members know. If no agent has seen the master yet,
// it is in the history in which a member was promoted last, of those that were not
// started again if there are any.
func known(fleet string, p directory.Partition, reports map[string]members.Report) lineage {
	k, sure := lineage{p.History, p.Before, p.Floor}, false
	for _, m := range p.Members() {
		l, ok := reports[m.Addr]
		switch {
		case !ok || !whole(l, fleet, p.ID):
		case p.History == "" && (k.history == "" || !sure && !restarted(m, l) || sure == !restarted(m, l) && l.Floor > k.floor):
			k, sure = lineage{l.History, l.Before, l.Floor}, !restarted(m, l)
		case l.History == p.History:
			k.floor = max(k.floor, l.Floor)
		}
	}
	return k
}

// Eras of histories, from the earliest. Floors are data like any other, and each
// promotion gives a higher one.
const (
	other   = iota // nobody knows when
	former         // the history before the master's
	present        // the master's
	newer          // that of a member that was promoted since
)

// reach is how far a member is.
type reach struct {
	era     int
	floor   int64  // where that decides
	history string // in which it is at
	offset  int64
	pure    bool // whether it has nothing else
}

// reach returns how far a member is. One that was promoted began a history of its
// own. What it has done in that does not count, if the map does not tell of it and
// no agent has promoted it: somebody may have done that by hand.
func (k lineage) reach(l members.Report) reach {
	switch {
	case l.History == k.history:
		return reach{era: present, history: k.history, offset: l.Offset, pure: true}
	case l.Floor > k.floor:
		return reach{era: newer, floor: l.Floor, history: l.History, offset: l.Offset}
	case l.Before == k.history:
		return reach{era: present, history: k.history, offset: l.Turned}
	case k.before != "" && l.History == k.before:
		return reach{era: former, history: k.before, offset: l.Offset, pure: true}
	case k.before != "" && l.Before == k.before:
		return reach{era: former, history: k.before, offset: l.Turned}
	default:
		return reach{era: other, floor: l.Floor, history: l.History, offset: l.Offset}
	}
}

func (r reach) less(than reach) bool {
	switch {
	case r.era != than.era:
		return r.era < than.era
	case r.floor != than.floor:
		return r.floor < than.floor
	case r.history != than.history:
		return false
	case r.offset != than.offset:
		return r.offset < than.offset
	default:
		return !r.pure && than.pure
	}
}

// further reports whether a member is further than another one in a history that
// both went on to together.
func further(l, than members.Report) bool { return l.History == than.History && l.Offset > than.Offset }

// describe says who was elected and why, for the log.
func describe(m directory.Member, reports map[string]members.Report) string {
	return fmt.Sprintf("%s, at offset %d of %s", m.Addr, reports[m.Addr].Offset, reports[m.Addr].History)
}
