package membership

import (
	"slices"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/plan"
)

// masters chooses the masters for when all tasks are done, so that no two machines differ by more
// than one master if the members allow that. Only partitions that may switch get another
// master. One that would lead anyway is replaced only if that makes the fleet more even.
func (d *draft) masters(may func(id int) bool) {
	places := d.places()
	s := plan.Spread{Others: make([]int, len(places))}
	var ids []int
	for i := range d.m.Partitions {
		p := &d.m.Partitions[i]
		now, choices := -1, []int{}
		if leader := d.leader(p); leader != nil {
			now = slices.Index(places, leader.Machine())
			choices = append(choices, now)
		}
		_, concerned := d.tasks[p.ID]
		if busy := p.Task != nil || p.Leaving != nil || p.ReadOnly; !may(p.ID) || busy && !concerned {
			s.Others[now]++
			continue
		}
		for _, m := range d.after(p) {
			if place := slices.Index(places, m.Machine()); !m.Down && !slices.Contains(choices, place) {
				choices = append(choices, place)
			}
		}
		ids, s.Choices, s.Now = append(ids, p.ID), append(s.Choices, choices), append(s.Now, now)
	}
	for i, place := range s.Even() {
		d.lead(&d.m.Partitions[ids[i]], places[place])
	}
}

// places returns the machines that have members when all tasks are done.
func (d *draft) places() []string {
	all := map[string]bool{}
	for i := range d.m.Partitions {
		for _, member := range d.after(&d.m.Partitions[i]) {
			all[member.Machine()] = true
		}
	}
	return sortedKeys(all)
}

// leader returns the member that leads when the task of a partition is done, as far as that
// is planned; nil if the master leaves.
func (d *draft) leader(p *directory.Partition) *directory.Member {
	if m := directory.Find(d.after(p), d.tasks[p.ID].Master); m != nil {
		return m
	}
	return directory.Find(d.after(p), p.Master.Addr)
}

// lead plans that a partition is led by its member on a machine.
func (d *draft) lead(p *directory.Partition, machine string) {
	leader := d.leader(p)
	if leader == nil || leader.Machine() != machine {
		after := d.after(p)
		leader = &after[slices.IndexFunc(after, func(m directory.Member) bool { return !m.Down && m.Machine() == machine })]
	}
	task := d.tasks[p.ID]
	if leader.Addr != p.Master.Addr || task.Master != "" {
		task.Master = leader.Addr
		d.tasks[p.ID] = task
	}
}
