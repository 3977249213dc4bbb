package failover

import (
	"slices"
	"strings"
	"time"

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

// ErrOld means that the newest data of the members that answer is too far behind the newest
// that was there. The partition stays read-only until a person decides.
var ErrOld = &millrace.Error{
	Code:    "old",
	Message: "the newest data is too far behind",
	Hint:    "Bring a member back that has newer data, or choose one with millrace fleet restore.",
}

// ballot is the input of an election.
type ballot struct {
	fleet     string
	p         directory.Partition
	reports   map[string]members.Report // of the fenced members that answered
	confirmed int                       // the least number of replicas that writers wait for
	newest    members.Beat              // the newest known beat of the partition
	maxAge    time.Duration             // how far behind that the next master may be
}

// elect returns the next master.
//
// Members that were not restarted have all that they ever confirmed. Of those it is the one that
// is furthest in the history of the map's master, so that it has all that any of them has; if
// there is none, the furthest in the history before that. Members that were promoted since the
// map was stored come first. Offsets in other histories mean nothing.
//
// A restarted member has the data of its disk. Its beat tells the age: a server that loaded an
// append-only file has a history of its own, and one that loaded a dump has the history of that
// time. It leads only with a newer beat than all others: then it has all that they have. If beats
// are equal, a member that followed the map's master comes before one that it does not know, then
// the offset in the same history decides, and then the member that was the master.
//
// If writers wait for k of n replicas, n-k+1 replicas must have answered that were not restarted,
// or the master: one of them has every confirmed write. If all members answered, there are no
// others to wait for.
//
// If the directory has lost newer maps, the master counts like a replica: it may be a
// former one.
//
// A replica that leaves is one of the n: writers with an older map may wait for it.
//
// A person who has chosen a member accepts its losses: then only that one is elected.
func (b ballot) elect() (directory.Member, error) {
	if b.p.Restore != "" {
		return b.chosen()
	}
	best, seen, masterSeen := b.best()
	need := max(1, len(voters(b.p))-b.confirmed)
	switch {
	case best.Addr == "":
		return best, ErrNobody.Errorf("no member of partition %d answers that has its data: %s", b.p.ID, b.missing())
	case !b.all() && !masterSeen && seen < need:
		return directory.Member{}, ErrNobody.Errorf("%d of %d replicas answered that have all they confirmed, and %d must, since writes are confirmed by %d: %s. Start them with their data, or decide to go on with the newest that is there: millrace fleet restore %d --from %s, %s behind",
			seen, len(voters(b.p))-1, need, b.confirmed, b.missing(), b.p.ID, best.Addr, b.age(best))
	case b.behind(best) > int64(b.maxAge/members.BeatInterval):
		return directory.Member{}, ErrOld.Errorf("partition %d: the newest data is %s, behind what was there: %s has it. Start a member that has more, or decide with millrace fleet restore %d --from MEMBER",
			b.p.ID, b.age(best), best.Addr, b.p.ID)
	default:
		return best, nil
	}
}

// best returns the member with the newest data of those that answered, restarted or not, and the
// rest that steady does.
func (b ballot) best() (best directory.Member, seen int, masterSeen bool) {
	best, seen, masterSeen = b.steady()
	for _, m := range b.candidates() {
		if restarted(m, b.reports[m.Addr]) && (best.Addr == "" || b.newer(m, best)) {
			best = m
		}
	}
	return best, seen, masterSeen
}

// chosen returns the member that a person has chosen.
func (b ballot) chosen() (directory.Member, error) {
	for _, m := range b.candidates() {
		if m.Addr == b.p.Restore && (b.p.RestoreHistory == "" || b.reports[m.Addr].History == b.p.RestoreHistory) {
			return m, nil
		}
	}
	if b.p.RestoreHistory != "" {
		return directory.Member{}, ErrNobody.Errorf("partition %d is to go on with a file that %s has not loaded: a command loads it, or was cut off. Then repeat it, or go on with the data of a member: millrace fleet restore %d --from FILE or MEMBER",
			b.p.ID, b.p.Restore, b.p.ID)
	}
	return directory.Member{}, ErrNobody.Errorf("partition %d is to go on with the data of %s, and that does not answer with the data of the partition: start it, or choose another one with millrace fleet restore %d --from MEMBER",
		b.p.ID, b.p.Restore, b.p.ID)
}

// candidates returns the members that answered, and have data of the partition.
func (b ballot) candidates() []directory.Member {
	return slices.DeleteFunc(voters(b.p), func(m directory.Member) bool {
		report, ok := b.reports[m.Addr]
		return !ok || !whole(report, b.fleet, b.p.ID)
	})
}

// all reports whether all members have reported their data.
func (b ballot) all() bool {
	return !slices.ContainsFunc(voters(b.p), func(m directory.Member) bool {
		report, ok := b.reports[m.Addr]
		return !ok || report.Loading
	})
}

// steady returns the furthest member of those that were not restarted, how many of them confirmed
// writes, and whether the master is one of them.
func (b ballot) steady() (best directory.Member, seen int, masterSeen bool) {
	var most reach
	known := b.known()
	for _, m := range b.candidates() {
		report := b.reports[m.Addr]
		if restarted(m, report) {
			continue
		}
		r := known.reach(report)
		if r.era == other && !b.all() {
			continue // it may be old, and a silent one may have confirmed writes
		}
		switch {
		case m.Addr == b.p.Master.Addr && m.Run != "" && !b.p.Stale:
			masterSeen = r.era >= present
		case r.era >= present || r.era == former && !m.Down:
			seen++
		}
		further := best.Addr != "" && report.History == b.reports[best.Addr].History && report.Offset > b.reports[best.Addr].Offset
		if best.Addr == "" || most.less(r) || r == most && (m.Addr == b.p.Prefer || further) {
			best, most = m, r
		}
	}
	return best, seen, masterSeen
}

// newer reports whether a restarted member has more than another one.
func (b ballot) newer(m, than directory.Member) bool {
	one, other := b.reports[m.Addr], b.reports[than.Addr]
	if one.Beat != other.Beat {
		return other.Beat.Less(one.Beat)
	}
	known := b.known()
	return known.reach(other).less(known.reach(one)) && (restarted(than, other) || one.History == other.History)
}

func (b ballot) behind(m directory.Member) int64 { return b.reports[m.Addr].Beat.Behind(b.newest) }

func (b ballot) age(m directory.Member) string { return members.Age(b.behind(m)) }

// missing says which members do not count, and why.
func (b ballot) missing() string {
	var all []string
	for _, m := range voters(b.p) {
		report, ok := b.reports[m.Addr]
		switch {
		case !ok:
			all = append(all, m.Addr+" does not answer")
		case report.Loading:
			all = append(all, m.Addr+" loads its data")
		case report.Copying:
			all = append(all, m.Addr+" has part of a copy")
		case !whole(report, b.fleet, b.p.ID):
			all = append(all, m.Addr+" has no data of the partition")
		case restarted(m, report):
			all = append(all, m.Addr+" was restarted, and its data is "+b.age(m)+" behind")
		}
	}
	return strings.Join(all, ", ")
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
// data: it may have lost confirmed writes.
func restarted(m directory.Member, report members.Report) bool {
	return m.Run != "" && report.Run != m.Run
}

// whole reports whether a member has all data of the partition as of some time.
func whole(report members.Report, fleet string, id int) bool {
	return report.Identity == members.Identity(fleet, id) && !report.Loading && !report.Copying
}

// lineage identifies the histories of a partition.
type lineage struct {
	history, before string // the master's, and the one that it continued
	floor           int64  // the highest of members in history
}

// known returns the lineage by the map and the members that were not restarted. If no agent has seen
// the master yet, its history is that of the member that was promoted last.
func (b ballot) known() lineage {
	k := lineage{b.p.History, b.p.Before, b.p.Floor}
	for _, m := range b.candidates() {
		report := b.reports[m.Addr]
		switch {
		case restarted(m, report):
		case b.p.History == "" && (k.history == "" || report.Floor > k.floor):
			k = lineage{report.History, report.Before, report.Floor}
		case report.History == b.p.History:
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
