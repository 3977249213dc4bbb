package failover

import (
	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/members"
)

// ErrNobody means that no member can be elected. The partition stays read-only.
var ErrNobody = &millrace.Error{
	Code:    "nobody",
	Message: "no member can be the master",
	Hint:    "Bring a member back with its data. The agent continues by itself.",
}

// elect returns the next master, one of the fenced members that answered.
//
// It is the member that is furthest in the history of the map's master, so that it has all
// that any of them has; if there is none, the furthest in the history before that. Members
// that were promoted since the map was stored come first. Offsets in other histories mean
// nothing.
//
// If writers wait for k of n replicas, n-k+1 replicas must have answered, or the master:
// one of them has every confirmed write. Members that were restarted since they were last
// known to have all their data do not count. If all members answered, there are no others
// to wait for.
//
// If the directory has lost newer maps, the master counts like a replica: it may be a
// former one.
//
// A replica that leaves is one of the n: writers with an older map may wait for it.
func elect(fleet string, p directory.Partition, reports map[string]members.Report, confirmed int) (directory.Member, error) {
	var best *directory.Member
	var most reach
	seen, masterSeen := 0, false
	candidates := voters(p)
	all := true // whether all have reported what they have
	for _, m := range candidates {
		if report, ok := reports[m.Addr]; !ok || report.Loading {
			all = false
		}
	}
	known := known(fleet, p, reports)
	for i := range candidates {
		m := &candidates[i]
		report, ok := reports[m.Addr]
		if !ok || !whole(report, fleet, p.ID) {
			continue
		}
		r := known.reach(report)
		if r.era == other && !all {
			// Members in another history may be old, and a silent one may have confirmed writes.
			continue
		}
		switch {
		case restarted(*m, report):
		case i == 0 && m.Run != "" && !p.Stale:
			masterSeen = r.era >= present
		case r.era >= present || r.era == former && !m.Down:
			seen++
		}
		further := best != nil && report.History == reports[best.Addr].History && report.Offset > reports[best.Addr].Offset
		if best == nil || most.less(r) || r == most && (m.Addr == p.Prefer || further) {
			best, most = m, r
		}
	}
	need := max(1, len(candidates)-confirmed)
	switch {
	case best == nil:
		return directory.Member{}, ErrNobody.Errorf("no member of partition %d answers that has its data", p.ID)
	case !all && !masterSeen && seen < need:
		return directory.Member{}, ErrNobody.Errorf("%d of %d replicas answered, and %d must, since writes are confirmed by %d", seen, len(candidates)-1, need, confirmed)
	default:
		return *best, nil
	}
}

// voters returns the members that count in elections: the master, the replicas, and the
// one that leaves.
func voters(p directory.Partition) []directory.Member {
	all := p.Members()
	if p.Leaving != nil {
		all = append(all, *p.Leaving)
	}
	return all
}

// restarted reports whether a member was restarted since it was last known to have all its
// data: it may have lost what it confirmed.
func restarted(m directory.Member, report members.Report) bool {
	return m.Run != "" && report.Run != m.Run
}

// whole reports whether a member has all data of the partition as of some time.
func whole(report members.Report, fleet string, id int) bool {
	return report.Identity == members.Identity(fleet, id) && !report.Loading && !report.Copying
}

// lineage is what is known about the histories of a partition.
type lineage struct {
	history, before string // the master's, and the one that it continued
	floor           int64  // the highest of members in history
}

// known returns what the map and members know. If no agent has seen the master yet, its
// history is that of the member that was promoted last, preferably of those that were not
// restarted.
func known(fleet string, p directory.Partition, reports map[string]members.Report) lineage {
	k, sure := lineage{p.History, p.Before, p.Floor}, false
	for _, m := range voters(p) {
		report, ok := reports[m.Addr]
		steady := !restarted(m, report)
		switch {
		case !ok || !whole(report, fleet, p.ID):
		case p.History == "" && (k.history == "" || steady && !sure || steady == sure && report.Floor > k.floor):
			k, sure = lineage{report.History, report.Before, report.Floor}, steady
		case report.History == p.History:
			k.floor = max(k.floor, report.Floor)
		}
	}
	return k
}

// Eras of histories, from the earliest. Each promotion raises the floor.
const (
	other   = iota // unknown
	former         // the history before the master's
	present        // the master's
	newer          // of a member that was promoted since
)

// reach is how far a member is.
type reach struct {
	era     int
	floor   int64  // where that decides
	history string // of the offset
	offset  int64
	pure    bool // whether it has no other data
}

// reach returns how far a member is. A promoted member has begun a history of its own. Its
// writes there do not count unless the map or its floor says that an agent promoted it: it
// may have been an operator.
func (k lineage) reach(report members.Report) reach {
	switch {
	case report.History == k.history:
		return reach{era: present, history: k.history, offset: report.Offset, pure: true}
	case report.Floor > k.floor:
		return reach{era: newer, floor: report.Floor, history: report.History, offset: report.Offset}
	case report.Before == k.history:
		return reach{era: present, history: k.history, offset: report.Turned}
	case k.before != "" && report.History == k.before:
		return reach{era: former, history: k.before, offset: report.Offset, pure: true}
	case k.before != "" && report.Before == k.before:
		return reach{era: former, history: k.before, offset: report.Turned}
	default:
		return reach{era: other, floor: report.Floor, history: report.History, offset: report.Offset}
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
