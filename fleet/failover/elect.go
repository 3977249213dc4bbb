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
	Before   string // the id that it had as a replica, for one that was promoted
	Offset   int64  // how far in its history it is, in bytes
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
		if !sameHistory(l, history) {
			continue
		}
		if i == 0 {
			masterSeen = true
		} else {
			seen++
		}
		switch {
		case best == nil, l.Offset > looks[best.Addr].Offset:
			best = m
		case l.Offset == looks[best.Addr].Offset && m.Addr == p.Prefer:
			best = m
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

// sameHistory reports whether offsets may be compared. A member that was promoted
// and then not recorded has begun a history of its own, and remembers the one
// before.
func sameHistory(l Look, history string) bool {
	return l.History == history || l.Before == history
}

// describe says who was elected and why, for the log.
func describe(m directory.Member, looks map[string]Look) string {
	return fmt.Sprintf("%s, at offset %d of %s", m.Addr, looks[m.Addr].Offset, looks[m.Addr].History)
}
