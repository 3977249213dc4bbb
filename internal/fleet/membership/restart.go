package membership

import (
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/fleet/directory"
)

// Restart restarts all members, or those on some nodes, one at a time. Each is whole again
// before the next one. A master is switched before it is restarted, to a member that has
// been, and back only if masters were uneven otherwise.
type Restart struct {
	Nodes []string // defaults to all
}

func (r Restart) words() []string {
	return append([]string{"restart"}, slices.Sorted(slices.Values(r.Nodes))...)
}

func (r Restart) plan(d *draft) error {
	known := machines(d.m)
	for _, node := range r.Nodes {
		if !slices.Contains(known, node) {
			return notFound("no member is on node %s: the nodes are %s", node, strings.Join(known, ", "))
		}
	}
	for i := range d.m.Partitions {
		p := &d.m.Partitions[i]
		var list []directory.Restart
		for _, m := range slices.Concat(p.Replicas, []directory.Member{p.Master}) {
			if len(r.Nodes) > 0 && !slices.Contains(r.Nodes, m.Machine()) {
				continue
			}
			if m.Down || m.Run == "" {
				return refused("Repeat the command when millrace fleet show says healthy, or replace the member.", "%s, a member of partition %d, is down or lacks data", m.Addr, p.ID)
			}
			list = append(list, directory.Restart{Addr: m.Addr, Run: m.Run})
		}
		if len(list) == 0 {
			continue
		}
		if !slices.ContainsFunc(p.Replicas, func(m directory.Member) bool { return !m.Down && m.Run != "" }) && list[len(list)-1].Addr == p.Master.Addr {
			return refused("Add a replica first: millrace fleet replica add.", "%s has the only copy of partition %d", p.Master.Addr, p.ID)
		}
		d.tasks[p.ID] = directory.Task{Restart: list}
	}
	d.leave()
	d.masters(func(id int) bool { _, ok := d.tasks[id]; return ok })
	return nil
}

// leave plans another master for each partition whose master is restarted: the replica on
// the machine with the fewest masters.
func (d *draft) leave() {
	count := map[string]int{}
	restarted := func(p *directory.Partition) bool {
		return slices.ContainsFunc(d.tasks[p.ID].Restart, func(r directory.Restart) bool { return r.Addr == p.Master.Addr })
	}
	for i := range d.m.Partitions {
		if p := &d.m.Partitions[i]; !restarted(p) {
			count[p.Master.Machine()]++
		}
	}
	for i := range d.m.Partitions {
		p := &d.m.Partitions[i]
		if !restarted(p) {
			continue
		}
		var best *directory.Member
		for j := range p.Replicas {
			if m := &p.Replicas[j]; !m.Down && (best == nil || count[m.Machine()] < count[best.Machine()]) {
				best = m
			}
		}
		task := d.tasks[p.ID]
		task.Master = best.Addr
		d.tasks[p.ID] = task
		count[best.Machine()]++
	}
}
