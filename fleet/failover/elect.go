package failover

import (
	"fmt"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fleet/directory"
)

// Look is what a member says of itself.
type Look struct {
	Identity string // which partition of which fleet it is
	Master   bool   // whether it takes writes
	Follows  string // the address of its master, if it is a replica
	Linked   bool   // whether it is given what that does
	Loading  bool   // whether it reads its data from disk
	Copying  bool   // whether it gets all of its master's data, and has none of its own
	History  string // the id of what it replicates or, as a master, makes
	Offset   int64  // how far in its history it is, in bytes
	Before   string // the id that it had before it was promoted, if it was
	Turned   int64  // how far it was in that when it was
	Floor    int64  // the epoch below which it lets nobody place a tag
}

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
// and so has all that any of them has. Offsets of another history mean nothing. If
// writers wait for k of n replicas, n-k+1 must have answered, or the master itself:
// then one of them has every write that was confirmed.
func elect(fleet string, p directory.Partition, looks map[string]Look, confirmed int) (directory.Member, error) {
	var best *directory.Member
	var most reach
	seen, masterSeen := 0, false
	members := p.Members()
	history := p.History
	for i := range members {
		m := &members[i]
		l, ok := looks[m.Addr]
		if !ok || !whole(l, fleet, p.ID) {
			continue
		}
		if history == "" {
			history = l.History // no agent has seen the master yet: they must be of one
		}
		r, ok := reachOf(l, history)
		if !ok {
			continue
		}
		if i == 0 {
			masterSeen = true
		} else {
			seen++
		}
		if best == nil || most.less(r) || r == most && (m.Addr == p.Prefer || further(l, looks[best.Addr])) {
			best, most = m, r
		}
	}
	need := 1
	if confirmed > 0 {
		need = max(1, len(p.Replicas)-confirmed+1)
	}
	switch {
	case best != nil && (masterSeen || seen >= need):
		return *best, nil
	case best != nil:
		return directory.Member{}, ErrNobody.Saying("%d of %d replicas answered, and %d must, since writes are confirmed by %d", seen, len(p.Replicas), need, confirmed)
	}
	// A history ends when its master is restarted, and all copies of it may have been
	// lost or restarted. What the master has kept on its disk is what there is.
	if l, ok := looks[p.Master.Addr]; ok && whole(l, fleet, p.ID) {
		return p.Master, nil
	}
	return directory.Member{}, ErrNobody.Saying("no member of partition %d answers that has its data", p.ID)
}

// whole reports whether a member has all the data of the partition, as of some
// time.
func whole(l Look, fleet string, id int) bool {
	return l.Identity == directory.Identity(fleet, id) && !l.Loading && !l.Copying
}

// reach is how far a member is in a history.
type reach struct {
	offset int64
	pure   bool // whether it has nothing else
}

func (r reach) less(other reach) bool {
	if r.offset != other.offset {
		return r.offset < other.offset
	}
	return !r.pure && other.pure
}

// reachOf returns how far a member is in a history, unless it is of another one. A
// member that was promoted began a history of its own, and what it has done in that
// does not count: an agent may have gone away before the map named it, or somebody
// may have promoted it by hand.
func reachOf(l Look, history string) (r reach, ok bool) {
	switch history {
	case l.History:
		return reach{l.Offset, true}, true
	case l.Before:
		return reach{l.Turned, false}, true
	default:
		return reach{}, false
	}
}

// further reports whether a member is further than another one in a history that
// both went on to together.
func further(l, other Look) bool { return l.History == other.History && l.Offset > other.Offset }

// describe says who was elected and why, for the log.
func describe(m directory.Member, looks map[string]Look) string {
	return fmt.Sprintf("%s, at offset %d of %s", m.Addr, looks[m.Addr].Offset, looks[m.Addr].History)
}
