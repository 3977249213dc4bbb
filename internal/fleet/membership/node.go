package membership

import (
	"slices"
	"strings"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/plan"
	"github.com/millrace/millrace/internal/readable"
)

// ReplaceNode replaces each member on a node by one of the given servers, and the masters
// among them by masters. The node may be gone: then other members have all that it had.
type ReplaceNode struct {
	Node    string
	Servers []directory.Member
}

func (r ReplaceNode) words() []string {
	return append([]string{"replace", r.Node}, addrs(r.Servers)...)
}

func (r ReplaceNode) plan(d *draft) error {
	leave, err := d.on(r.Node, r.Servers)
	if err != nil || len(leave) == 0 {
		return err
	}
	if err := d.fill(r.Node, leave, r.Servers); err != nil {
		return err
	}
	for id := range leave {
		if task := d.tasks[id]; task.Remove == d.m.Partitions[id].Master.Addr {
			task.Master = task.Add.Addr
			d.tasks[id] = task
		}
	}
	d.masters(everywhere)
	return nil
}

// DrainNode moves each member on a node to one of the given servers on other nodes, so that
// these have equally many members and masters. Without servers the members leave, if enough
// copies remain.
type DrainNode struct {
	Node    string
	Servers []directory.Member
}

func (r DrainNode) words() []string {
	return append([]string{"drain", r.Node}, addrs(r.Servers)...)
}

func (r DrainNode) plan(d *draft) error {
	leave, err := d.on(r.Node, r.Servers)
	if err != nil || len(leave) == 0 {
		return err
	}
	if len(r.Servers) > 0 {
		err = d.fill(r.Node, leave, r.Servers, r.Node)
	} else {
		err = d.shrink(r.Node, leave)
	}
	if err == nil {
		d.masters(everywhere)
	}
	return err
}

// everywhere lets all partitions switch.
func everywhere(int) bool { return true }

// on returns the members on a node, by partition. There are none if the servers have taken
// their place already.
func (d *draft) on(node string, servers []directory.Member) (map[int]directory.Member, error) {
	leave := map[int]directory.Member{}
	for _, p := range d.m.Partitions {
		for _, member := range p.Members() {
			if member.Machine() != node || directory.Find(servers, member.Addr) != nil {
				continue
			}
			if other, ok := leave[p.ID]; ok {
				return nil, refused("Move one of them first: millrace fleet replica move.", "partition %d has two members on node %s: %s and %s", p.ID, node, other.Addr, member.Addr)
			}
			leave[p.ID] = member
		}
	}
	done := slices.ContainsFunc(servers, func(s directory.Member) bool { return d.m.Home(s.Addr) >= 0 })
	if len(leave) == 0 && !done {
		return nil, notFound("no member is on node %s: the nodes are %s", node, strings.Join(machines(d.m), ", "))
	}
	return leave, nil
}

// fill gives each partition of which a member leaves one of the servers, and spreads the
// members evenly. Servers on the nodes that never may take one are refused.
func (d *draft) fill(node string, leave map[int]directory.Member, servers []directory.Member, never ...string) error {
	if err := d.new(servers...); err != nil {
		return err
	}
	free := map[string][]directory.Member{}
	for _, s := range servers {
		if slices.Contains(never, s.Machine()) {
			return millrace.ErrBadArgument.Errorf("the server at %s is on node %s, which is to be drained", s.Addr, s.Machine())
		}
		free[s.Machine()] = append(free[s.Machine()], s)
	}
	if more := len(leave) - len(servers); more > 0 {
		return millrace.ErrBadArgument.Errorf("node %s has %s, and %s to replace them", node, readable.Count(len(leave), "member"), readable.Count(len(servers), "server")).
			WithHint("Give " + readable.Count(more, "more server") + ".")
	}
	places := sortedKeys(free)
	s := plan.Spread{Others: make([]int, len(places)), Room: make([]int, len(places))}
	for i, place := range places {
		s.Room[i] = len(free[place])
	}
	ids := sortedKeys(leave)
	for _, p := range d.m.Partitions {
		leaves, leaving := leave[p.ID]
		var choices []int
		for i, place := range places {
			taken := slices.ContainsFunc(without(&p, leaves.Addr), func(m directory.Member) bool { return m.Machine() == place })
			if taken {
				s.Others[i]++
			} else {
				choices = append(choices, i)
			}
		}
		if leaving {
			s.Choices, s.Now = append(s.Choices, choices), append(s.Now, -1)
		}
	}
	at := s.Even()
	if at == nil {
		return millrace.ErrBadArgument.Errorf("the servers cannot take the members of node %s: some partition would have two members on one node", node).
			WithHint("Give servers on other nodes, or more of them.")
	}
	for i, id := range ids {
		place := places[at[i]]
		next := free[place][0]
		free[place] = free[place][1:]
		d.tasks[id] = directory.Task{Add: &next, Remove: leave[id].Addr}
	}
	return nil
}

// shrink takes the members of a node out of their partitions.
func (d *draft) shrink(node string, leave map[int]directory.Member) error {
	short := 0
	for id, member := range leave {
		if d.spare(&d.m.Partitions[id], member.Addr, false) != nil {
			short++
		}
		d.tasks[id] = directory.Task{Remove: member.Addr}
	}
	if short > 0 {
		return refused("Give "+readable.Count(len(leave), "server")+" on other nodes, one for each member of this one.",
			"without node %s too few copies remain of %s", node, readable.Count(short, "partition"))
	}
	return nil
}
