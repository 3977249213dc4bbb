package plan

import (
	"cmp"
	"slices"

	"github.com/millrace/millrace"
)

// MaxPartitions is the greatest number of partitions: a ring has as many points.
const MaxPartitions = 1 << 16

// Place returns the nodes of each partition's members, the master's first.
//
//   - No node has two members of a partition.
//   - Any two nodes differ by at most one master, one replica and one member.
//   - The replicas of one node's masters are spread over all other nodes, nearly evenly, so
//     that they share the work of a lost node.
//
// The same arguments give the same placement.
func Place(nodes []string, partitions, copies int) ([][]string, error) {
	return PlaceMore(nodes, nil, partitions, copies)
}

// PlaceMore returns the nodes of partitions that are added to those present, which do not
// move. If those came from Place or PlaceMore for the same nodes and copies, the promises
// of Place hold for the whole. Otherwise, if nodes were added or lost, the new partitions
// even out first the masters, then the replicas, then the members. Members on other nodes
// do not count.
func PlaceMore(nodes []string, present [][]string, more, copies int) ([][]string, error) {
	switch {
	case more < 1:
		return nil, refuse("Place one partition or more.", "%d partitions cannot be placed", more)
	case more > MaxPartitions-len(present):
		return nil, refuse("Use larger partitions.", "%d partitions and %d more are more than the %d that a fleet can have", len(present), more, MaxPartitions)
	}
	if err := checkCopies(copies, len(nodes)); err != nil {
		return nil, err
	}
	sorted := slices.Sorted(slices.Values(nodes))
	for i, name := range sorted {
		if name == "" || i > 0 && name == sorted[i-1] {
			return nil, refuse("Give every node a name of its own.", "the name of a node is empty or a duplicate: %q", name)
		}
	}

	l := &layout{masters: make([]int, len(nodes)), replicas: make([]int, len(nodes)), backing: make([][]int, len(nodes))}
	for i := range l.backing {
		l.backing[i] = make([]int, len(nodes))
	}
	for _, names := range present {
		members := make([]int, len(names))
		for i, name := range names {
			members[i] = slices.Index(nodes, name)
		}
		l.count(members)
	}
	added := make([][]int, more)
	for i := range added {
		added[i] = l.best(copies)
		l.count(added[i])
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

// layout counts each node's members, by its index.
type layout struct {
	masters  []int
	replicas []int
	backing  [][]int // backing[a][b] is how many replicas of a's masters are on b
}

// count adds a partition's members. An index below 0 is a node that does not count.
func (l *layout) count(members []int) {
	for i, node := range members {
		switch {
		case node < 0:
		case i == 0:
			l.masters[node]++
		default:
			l.replicas[node]++
			if members[0] >= 0 {
				l.backing[members[0]][node]++
			}
		}
	}
}

// best returns the nodes of one more partition. The master goes to a node with the fewest
// masters. Of these nodes best takes the one where the partition costs least: where few
// nodes lack a replica, a master on one of them would keep its own replica away.
func (l *layout) best(copies int) []int {
	var best []int
	var lowest cost
	fewest := slices.Min(l.masters)
	for node, masters := range l.masters {
		if masters > fewest {
			continue
		}
		if members, total := l.around(node, copies); best == nil || total.compare(lowest) < 0 {
			best, lowest = members, total
		}
	}
	return best
}

// around returns the nodes where a partition with that master's node costs least.
func (l *layout) around(master, copies int) ([]int, cost) {
	members := []int{master}
	total := cost{members: l.masters[master] + l.replicas[master]}
	for len(members) < copies {
		next, lowest := -1, cost{}
		for i := range l.replicas {
			node := (master + 1 + i) % len(l.replicas) // each master begins with its neighbour, which breaks ties evenly
			c := cost{l.replicas[node], l.masters[node] + l.replicas[node], l.backing[master][node]}
			if !slices.Contains(members, node) && (next < 0 || c.compare(lowest) < 0) {
				next, lowest = node, c
			}
		}
		members = append(members, next)
		total = cost{total.replicas + lowest.replicas, total.members + lowest.members, total.backing + lowest.backing}
	}
	return members, total
}

// cost is the load of the nodes to which a member may be added.
type cost struct{ replicas, members, backing int }

func (c cost) compare(d cost) int {
	return cmp.Or(cmp.Compare(c.replicas, d.replicas), cmp.Compare(c.members, d.members), cmp.Compare(c.backing, d.backing))
}

// spread exchanges replicas between new partitions while that makes backing more even.
// The number of replicas on each node stays. Each exchange lowers the sum of the squares
// of backing, so it ends.
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

// exchange exchanges replicas of two partitions, and reports whether it did.
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

func checkCopies(copies, nodes int) error {
	switch {
	case copies < 1:
		return refuse("Use 1 for masters alone, 2 for a replica of each.", "invalid number of copies: %d", copies)
	case copies > nodes:
		return refuse("Add nodes, or make fewer copies: members of a partition on one node are lost together.",
			"%d copies of a partition need as many nodes, and there are %d", copies, nodes)
	}
	return nil
}

func refuse(hint, format string, args ...any) error {
	err := millrace.ErrBadArgument.Errorf(format, args...)
	err.Hint = hint
	return err
}
