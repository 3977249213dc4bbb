package plan

import "slices"

// Place returns the nodes of each partition's members, the master's first.
//
//   - No node has two members of a partition.
//   - No node has more than one master more than another, nor more than one
//     replica, nor more than one member.
//   - The replicas of one node's masters are spread over all other nodes, nearly
//     evenly, so that the loss of a node is shared.
//
// The same arguments give the same placement.
func Place(nodes []string, partitions, copies int) ([][]string, error) {
	return PlaceMore(nodes, nil, partitions, copies)
}

// PlaceMore returns the nodes of partitions that are added to those present, and
// moves none of these. Where what is present came from Place or PlaceMore for the
// same nodes and copies, what Place promises holds for the whole. Otherwise, as
// when nodes were added or lost, the new partitions even out what they can: first
// the masters, then the replicas, then the members. What is present on other nodes
// does not count.
func PlaceMore(nodes []string, present [][]string, more, copies int) ([][]string, error) {
	if err := checkPlaces(nodes, len(present), more, copies); err != nil {
		return nil, err
	}
	l := count(nodes, present)
	added := make([][]int, more)
	for i := range added {
		added[i] = l.best(copies)
		l.seat(added[i])
	}
	l.spread(added)

	names := make([][]string, more)
	for i, members := range added {
		for _, node := range members {
			names[i] = append(names[i], nodes[node])
		}
	}
	return names, nil
}

func checkPlaces(nodes []string, present, more, copies int) error {
	switch {
	case more < 1:
		return refuse("Place one partition or more.", "%d partitions cannot be placed", more)
	case more > MaxPartitions-present:
		return refuse("Use larger partitions.", "%d partitions and %d more are more than the %d that a fleet can have", present, more, MaxPartitions)
	}
	if err := checkCopies(copies, len(nodes)); err != nil {
		return err
	}
	names := slices.Sorted(slices.Values(nodes))
	for i, name := range names {
		if name == "" || i > 0 && name == names[i-1] {
			return refuse("Give every node a name of its own.", "the name of a node is empty or taken: %q", name)
		}
	}
	return nil
}

// layout is what each node has. Nodes are numbers here, and elsewhere is one that
// does not count.
type layout struct {
	masters  []int
	replicas []int
	backing  [][]int // backing[a][b] is how many replicas of a's masters are on b
}

const elsewhere = -1

func count(nodes []string, present [][]string) *layout {
	l := &layout{masters: make([]int, len(nodes)), replicas: make([]int, len(nodes)), backing: make([][]int, len(nodes))}
	for i := range l.backing {
		l.backing[i] = make([]int, len(nodes))
	}
	for _, names := range present {
		members := make([]int, len(names))
		for i, name := range names {
			members[i] = slices.Index(nodes, name) // elsewhere if it is not there
		}
		l.seat(members)
	}
	return l
}

// seat counts a partition's members.
func (l *layout) seat(members []int) {
	for i, node := range members {
		switch {
		case node == elsewhere:
		case i == 0:
			l.masters[node]++
		default:
			l.replicas[node]++
			if members[0] != elsewhere {
				l.backing[members[0]][node]++
			}
		}
	}
}

// best returns the nodes for one more partition. Its master goes to a node that
// has the fewest. Of these nodes it takes the one with which the members as a whole
// cost least: where few nodes lack a replica, a master on one of them would keep
// its own replica away. That keeps everything even, one partition after the other.
func (l *layout) best(copies int) []int {
	var best []int
	var lowest cost
	fewest := slices.Min(l.masters)
	for node, masters := range l.masters {
		if masters > fewest {
			continue
		}
		members, total := l.around(node, copies)
		if best == nil || total.less(lowest) {
			best, lowest = members, total
		}
	}
	return best
}

// around returns the nodes that cost least for a partition with its master on a
// given node.
func (l *layout) around(master, copies int) ([]int, cost) {
	members := []int{master}
	total := cost{members: l.masters[master] + l.replicas[master]}
	for len(members) < copies {
		next, lowest := elsewhere, cost{}
		for i := range l.replicas {
			node := (master + 1 + i) % len(l.replicas) // neighbours first, so that ties do not heap up
			c := cost{l.replicas[node], l.masters[node] + l.replicas[node], l.backing[master][node]}
			if !slices.Contains(members, node) && (next == elsewhere || c.less(lowest)) {
				next, lowest = node, c
			}
		}
		members = append(members, next)
		total = cost{total.replicas + lowest.replicas, total.members + lowest.members, total.backing + lowest.backing}
	}
	return members, total
}

// cost is what there is already where something is to be added.
type cost struct{ replicas, members, backing int }

func (c cost) less(d cost) bool {
	switch {
	case c.replicas != d.replicas:
		return c.replicas < d.replicas
	case c.members != d.members:
		return c.members < d.members
	default:
		return c.backing < d.backing
	}
}

// spread exchanges replicas between new partitions as long as that takes two nodes
// apart that back each other much. Who has how many stays as it is. Each exchange
// lowers the sum of the squares of backing, so it ends.
func (l *layout) spread(added [][]int) {
	for again := true; again; {
		again = false
		for i, p := range added {
			for _, q := range added[:i] {
				again = l.exchange(p, q) || again
			}
		}
	}
}

// exchange does so for two partitions, and reports whether it did.
func (l *layout) exchange(p, q []int) (done bool) {
	of, other := l.backing[p[0]], l.backing[q[0]]
	for i := 1; i < len(p); i++ {
		for k := 1; k < len(q); k++ {
			mine, theirs := p[i], q[k]
			if slices.Contains(p, theirs) || slices.Contains(q, mine) ||
				of[mine]-1+other[theirs]-1 <= of[theirs]+other[mine] {
				continue
			}
			of[mine]--
			other[theirs]--
			of[theirs]++
			other[mine]++
			p[i], q[k] = theirs, mine
			done = true
		}
	}
	return done
}
