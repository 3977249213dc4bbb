package failover

import (
	"fmt"
	"slices"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/members"
)

// TaskDone begins the last event of a task; its plan follows.
const TaskDone = "the change of members is done: "

// TaskWaits begins an event that gives the reason why a task waits.
const TaskWaits = "the task waits: "

// pauseIntervals is how many intervals an agent waits before it repeats a step that
// disturbs others.
const pauseIntervals = 20

// task returns the next step of the partition's task, if it is time for that. Each step is
// one change of the map, so another agent can make the next one.
func (s situation) task() action {
	t := s.p.Task
	if s.turn && (t == nil || len(t.Restart) == 0) {
		return endTurn{}
	}
	switch {
	case s.former != nil && s.p.Leaving == nil:
		return s.once(*s.former)
	case !s.healthy():
		return nil
	case s.p.Leaving != nil:
		return s.release()
	case t == nil:
		return nil
	case t.Add != nil:
		return s.join()
	case t.Remove != "":
		return s.remove()
	case len(t.Restart) > 0:
		return s.restart()
	case t.Master != "" && t.Master != s.p.Master.Addr:
		return s.handOver(t.Master, t.Master)
	default:
		return s.next(TaskDone+t.Plan, func(p *directory.Partition) { p.Task = nil })
	}
}

// healthy reports whether the last probe of the master found it as the map has it.
func (s situation) healthy() bool {
	h := s.of(s.p.Master.Addr)
	return h.seen && h.report.Master && h.report.Run == s.p.Master.Run && h.report.History == s.p.History &&
		h.report.Identity == members.Identity(s.m.Fleet, s.p.ID)
}

// next is a step in the map, unless the task has changed meanwhile.
func (s situation) next(say string, edit func(p *directory.Partition)) action {
	return change{edit: edit, same: true, say: []string{say}}
}

func waitsFor(format string, args ...any) action { return waits{fmt.Sprintf(format, args...)} }

// join makes the new member copy the master, like a replica that was restarted. When it
// has all data it becomes a replica. Before that it is not read, and counts for nothing.
func (s situation) join() action {
	joins := *s.p.Task.Add
	h, master := s.of(joins.Addr), s.of(s.p.Master.Addr)
	identity := members.Identity(s.m.Fleet, s.p.ID)
	linked, a := s.linked(joins)
	switch {
	case h.missed >= misses:
		return waitsFor("%s does not answer", joins.Addr)
	case h.report.Identity != "" && h.report.Identity != identity:
		return waitsFor("%s belongs to %s", joins.Addr, h.report.Identity)
	case !linked:
		return a
	case !h.wholeAgain(master) || h.report.Identity != identity:
		return nil
	case s.served[joins.Addr] != h.report.Run:
		return s.once(serve{joins.Addr, h.report.Run})
	}
	joins.Run, joins.Down = h.report.Run, false
	return s.next(joins.Addr+" has all data, and is a replica", func(p *directory.Partition) {
		p.Replicas = append(p.Replicas, joins)
		p.Task.Add = nil
	})
}

// handOver makes a replica that is in step the master, without a loss. If only is not
// empty, it is that one; otherwise the preferred one if that is up, or any. A late write may keep the
// old master in place: then it tries again, but not at once, since writes wait meanwhile.
func (s situation) handOver(only, prefer string) action {
	to := ""
	for _, replica := range s.p.Replicas {
		if (only == "" || replica.Addr == only) && s.hasAll(replica.Addr) && (to == "" || replica.Addr == prefer) {
			to = replica.Addr
		}
	}
	i := index(s.p, prefer)
	switch {
	case to == "" && only != "":
		return waitsFor("%s is not a replica in step", only)
	case to != prefer && i >= 0 && !s.p.Replicas[i].Down:
		return waitsFor("%s is not in step yet", prefer) // one switch is better than two
	case to == "":
		return waitsFor("no replica is in step")
	case s.now.Sub(s.switched) < pauseIntervals*s.every:
		return nil
	}
	return s.replace(to)
}

// remove takes a member out of the replicas: from the new map on, clients neither read it
// nor count it. If it is the master, another member becomes that first.
//
// The partition gets a new epoch, so that calls which block on its master end with the
// Grace: they count the replicas of the map by which they began.
func (s situation) remove() action {
	addr := s.p.Task.Remove
	if s.p.Master.Addr == addr {
		return s.handOver("", s.p.Task.Master)
	}
	i := index(s.p, addr)
	if i < 0 {
		return s.next(addr+" is not a member", func(p *directory.Partition) { p.Task.Remove = "" })
	}
	rest := slices.Delete(slices.Clone(s.p.Replicas), i, i+1)
	if have, need := s.count(rest, s.of(s.p.Master.Addr).before.Offset), s.enough(rest); have < need {
		return waitsFor("%d of the other replicas are in step, and %d must be", have, need)
	}
	return s.next(addr+" leaves", func(p *directory.Partition) {
		i := index(*p, addr)
		leaves := p.Replicas[i]
		p.Replicas = slices.Delete(p.Replicas, i, i+1)
		p.Leaving = &leaves
		p.Epoch++
	})
}

// enough returns how many of the remaining replicas must have all data: then each election
// among them finds one that has it.
func (s situation) enough(rest []directory.Member) int {
	return min(s.m.Settings.Effective().Confirmed, len(rest))
}

// count returns how many of some replicas have the master's history up to an offset.
func (s situation) count(replicas []directory.Member, offset int64) (n int) {
	for _, replica := range replicas {
		if s.has(replica, offset) {
			n++
		}
	}
	return n
}

// release drops the member that leaves. Before that, clients with older maps may have taken
// its word that it has a write. So it waits until no client uses such a map, and then until
// all replicas that are up have all that the master has by then.
//
// A dead member can leave: the master has all writes that it confirmed. So it matters that the
// master is the same all the time. If it is replaced meanwhile, the election counts the
// member that leaves, and the partition has a new epoch: the wait begins again.
//
// The member is fenced, so that its old data is not read. If it cannot be reached, it stays as it is.
func (s situation) release() action {
	if s.drained == nil {
		return nil // see reconciler.observe
	}
	up := slices.DeleteFunc(slices.Clone(s.p.Replicas), func(m directory.Member) bool { return m.Down })
	if have, need := s.count(up, s.drained.Offset), max(len(up), s.enough(s.p.Replicas)); have < need {
		return waitsFor("%d of the remaining replicas have all data, and %d must have it", have, need)
	}
	leaves := *s.p.Leaving
	if !s.of(leaves.Addr).elsewhere(s.m.Fleet, s.p.ID) {
		if a := s.once(isolate{member: leaves}); a != nil {
			return a
		}
	}
	return s.next(leaves.Addr+" has left", func(p *directory.Partition) {
		p.Leaving = nil
		if p.Task != nil && p.Task.Remove == leaves.Addr {
			p.Task.Remove = ""
		}
	})
}

// restart restarts the members of a task: replicas first, then the master, after another
// member has taken its place.
//
// A restart begins only if all members of the fleet are whole, so that a partition lacks
// one copy at most. So a member that does not come back, or is down again a moment later,
// stops the restarts of all partitions.
func (s situation) restart() action {
	for i, restart := range s.p.Task.Restart {
		outcome := s.outcome(restart)
		if outcome == "" {
			continue
		}
		return change{
			edit: func(p *directory.Partition) { p.Task.Restart = slices.Delete(p.Task.Restart, i, i+1) },
			same: true, endsTurn: true, say: []string{restart.Addr + " " + outcome},
		}
	}
	i := slices.IndexFunc(s.p.Task.Restart, func(restart directory.Restart) bool { return restart.Addr != s.p.Master.Addr })
	why := s.trouble()
	switch {
	case i < 0:
		return s.handOver("", s.p.Task.Master)
	case !s.turn:
		return s.once(takeTurn{})
	case why != "":
		return waitsFor("no restart while %s", why)
	case s.now.Sub(s.refused) < pauseIntervals*s.every:
		return nil
	}
	return s.once(shutDown{s.p.Task.Restart[i]})
}

// outcome says how a restart has ended; it is empty if it has not.
func (s situation) outcome(restart directory.Restart) string {
	const whole = "was restarted, and has all data again"
	i := index(s.p, restart.Addr)
	switch {
	case restart.Addr == s.p.Master.Addr:
		if s.p.Master.Run != restart.Run {
			return whole
		}
	case i < 0:
		return "is not a member"
	case s.p.Replicas[i].Run != restart.Run && s.hasAll(restart.Addr):
		return whole
	}
	return ""
}

// trouble says which partition or member of the fleet is not whole, by the last probes, or
// nothing.
func (s situation) trouble() string {
	for _, p := range s.m.Partitions {
		if p.ReadOnly {
			return fmt.Sprintf("partition %d is read-only", p.ID)
		}
		for i, member := range p.Members() {
			h := s.of(member.Addr)
			if r := h.report; !h.seen || member.Down || r.Run != member.Run || r.Master != (i == 0) || i > 0 && (!r.Linked || r.Copying) {
				return member.Addr + " is not whole"
			}
		}
	}
	return ""
}
