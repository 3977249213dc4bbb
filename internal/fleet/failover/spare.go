package failover

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/members"
)

// sparePlan begins the plans of tasks that replace a dead member by a spare.
const sparePlan = "spare-"

// replaceDead returns the next step of replacing members that have been dead for Settings.ReplaceAfter by spares, one at a
// time in the fleet. The spare joins the partition, and then the dead member leaves, as by a command: see task. So a member
// that comes back meanwhile leaves all the same, and is empty of rights: an operator makes it a spare again.
//
// A spare that dies before it has joined is a spare again, and another one takes its place.
func replaceDead(m *directory.Map, seen func(addr string) health, every time.Duration) action {
	after := m.Settings.ReplaceAfter
	if after == 0 || m.Adding() {
		return nil
	}
	dead := func(addr string) bool { return seen(addr).missed >= max(misses, int(after/every)) }
	for _, p := range m.Partitions {
		switch {
		case p.Task == nil || !strings.HasPrefix(p.Task.Plan, sparePlan):
		case p.Task.Add != nil && dead(p.Task.Add.Addr):
			return giveUp(p)
		default:
			return nil
		}
	}
	var why action
	for _, p := range m.Partitions {
		for _, lost := range p.Replicas {
			if p.ReadOnly || p.Task != nil || p.Leaving != nil || !lost.Down || !dead(lost.Addr) {
				continue
			}
			spare, found := choose(m, p, lost, seen)
			if found {
				return replace(p.ID, lost, spare, after)
			}
			why = cmp.Or(why, waitsFor("%s of partition %d is dead, and no spare is up, empty, fenced and on another machine than the other members", lost.Addr, p.ID))
		}
	}
	return why
}

// choose returns the spare that can replace a member, of several the one whose machine has the fewest members.
func choose(m *directory.Map, p directory.Partition, lost directory.Member, seen func(addr string) health) (spare directory.Member, found bool) {
	load := map[string]int{}
	for _, other := range m.Partitions {
		for _, member := range other.Everyone() {
			if member.Addr != lost.Addr {
				load[member.Machine()]++
			}
		}
	}
	for _, one := range m.Spares {
		r := seen(one.Addr).report
		fits := seen(one.Addr).seen && !r.Master && (r.Identity == "" || r.Identity == members.Identity(m.Fleet, p.ID)) &&
			!slices.ContainsFunc(p.Members(), func(other directory.Member) bool {
				return other.Addr != lost.Addr && other.Machine() == one.Machine()
			})
		if fits && (!found || load[one.Machine()] < load[spare.Machine()]) {
			spare, found = one, true
		}
	}
	return spare, found
}

func replace(id int, lost, spare directory.Member, after time.Duration) action {
	return changeMap{of: id, say: fmt.Sprintf("%s has been dead for %v: the spare %s replaces it", lost.Addr, after, spare.Addr), edit: func(next *directory.Map) {
		next.Spares = slices.DeleteFunc(next.Spares, func(m directory.Member) bool { return m.Addr == spare.Addr })
		next.Partitions[id].Task = &directory.Task{Plan: fmt.Sprint(sparePlan, id), Add: &spare, Remove: lost.Addr}
	}}
}

func giveUp(p directory.Partition) action {
	spare := *p.Task.Add
	return changeMap{of: p.ID, say: spare.Addr + ", which was to replace " + p.Task.Remove + ", is dead, and is a spare again", edit: func(next *directory.Map) {
		next.Partitions[p.ID].Task = nil
		next.Spares = append(next.Spares, spare)
	}}
}
