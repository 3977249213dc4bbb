package plan_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/millrace/millrace/internal/fleet/plan"
)

func nodeNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("node-%d", i)
	}
	return names
}

// tally counts a placement's members on each node.
type tally struct {
	masters, replicas, members map[string]int
	backing                    map[string]map[string]int // by the node of the master, then of the replica
}

func tallyOf(t rapid.TB, nodes []string, placement [][]string, copies int) tally {
	t.Helper()
	sum := tally{map[string]int{}, map[string]int{}, map[string]int{}, map[string]map[string]int{}}
	for _, node := range nodes {
		sum.backing[node] = map[string]int{}
	}
	for i, members := range placement {
		if got, want := len(members), copies; got != want {
			t.Errorf("partition %d has %d members, want %d", i, got, want)
		}
		sum.masters[members[0]]++
		for k, node := range members {
			sum.members[node]++
			if slices.Contains(members[:k], node) || !slices.Contains(nodes, node) {
				t.Errorf("partition %d is on %v of nodes %v", i, members, nodes)
			}
			if k > 0 {
				sum.replicas[node]++
				sum.backing[members[0]][node]++
			}
		}
	}
	return sum
}

// extent returns the least and the most that any of the nodes has.
func extent(nodes []string, counts map[string]int) (least, most int) {
	least, most = counts[nodes[0]], counts[nodes[0]]
	for _, node := range nodes {
		least, most = min(least, counts[node]), max(most, counts[node])
	}
	return least, most
}

// checkEven checks the promises of Place, where nearly evenly means that a node has at most
// slack more replicas of another one's masters.
func checkEven(t rapid.TB, nodes []string, placement [][]string, copies, slack int) {
	t.Helper()
	sum := tallyOf(t, nodes, placement, copies)
	for what, counts := range map[string]map[string]int{"masters": sum.masters, "replicas": sum.replicas, "members": sum.members} {
		if least, most := extent(nodes, counts); most > least+1 {
			t.Errorf("%s: %d on one node, %d on another", what, least, most)
		}
	}
	for node, backing := range sum.backing {
		others := slices.DeleteFunc(slices.Clone(nodes), func(n string) bool { return n == node })
		if len(others) == 0 {
			continue
		}
		_, most := extent(others, backing)
		replicas := sum.masters[node] * (copies - 1)
		if limit := (replicas+len(others)-1)/len(others) + slack; most > limit {
			t.Errorf("of %d replicas of the masters of %s, %d are on one node, want at most %d", replicas, node, most, limit)
		}
	}
}

func TestPlaceIsEven(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		nodes := nodeNames(rapid.IntRange(1, 24).Draw(t, "nodes"))
		copies := rapid.IntRange(1, min(len(nodes), 5)).Draw(t, "copies")
		placement, err := plan.Place(nodes, rapid.IntRange(1, 150).Draw(t, "partitions"), copies)
		if err != nil {
			t.Fatal(err)
		}
		slack := 1
		if copies == 2 {
			slack = 0
		}
		checkEven(t, nodes, placement, copies, slack)
	})
}

func TestPlaceMoreKeepsItEven(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		nodes := nodeNames(rapid.IntRange(1, 24).Draw(t, "nodes"))
		copies := rapid.IntRange(1, min(len(nodes), 5)).Draw(t, "copies")
		var placement [][]string
		for range rapid.IntRange(1, 8).Draw(t, "times") {
			added, err := plan.PlaceMore(nodes, placement, rapid.IntRange(1, 40).Draw(t, "more"), copies)
			if err != nil {
				t.Fatal(err)
			}
			placement = append(placement, added...)
			checkEven(t, nodes, placement, copies, 1+copies/4)
		}
	})
}

// A fleet whose nodes were added to and lost, with members on any of them.
func TestPlaceMoreEvensOut(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		old := nodeNames(rapid.IntRange(2, 8).Draw(t, "nodes before"))
		nodes := append(old[:rapid.IntRange(1, len(old)).Draw(t, "stay")], "new-1", "new-2", "new-3")
		copies := rapid.IntRange(1, 4).Draw(t, "copies")
		var present [][]string
		for range rapid.IntRange(0, 8).Draw(t, "present") {
			members := rapid.Permutation(nodeNames(8)).Draw(t, "members")
			present = append(present, members[:rapid.IntRange(1, 4).Draw(t, "count")])
		}
		before := tally{map[string]int{}, map[string]int{}, map[string]int{}, nil}
		for _, members := range present {
			before.masters[members[0]]++
			for _, node := range members[1:] {
				before.replicas[node]++
			}
		}

		added, err := plan.PlaceMore(nodes, present, rapid.IntRange(1, 40).Draw(t, "more"), copies)
		if err != nil {
			t.Fatal(err)
		}
		sum := tallyOf(t, nodes, added, copies)
		var masters []int
		for _, node := range nodes {
			masters = append(masters, before.masters[node]+sum.masters[node])
		}
		for i, node := range nodes {
			if least := slices.Min(masters); sum.masters[node] > 0 && masters[i] > least+1 {
				t.Errorf("%s got %d masters and has %d, while another has %d", node, sum.masters[node], masters[i], least)
			}
		}

		// Enough of them make all even, whatever was there.
		many, err := plan.PlaceMore(nodes, present, 12*len(nodes), copies)
		if err != nil {
			t.Fatal(err)
		}
		sum = tallyOf(t, nodes, many, copies)
		for _, node := range nodes {
			sum.masters[node] += before.masters[node]
			sum.replicas[node] += before.replicas[node]
		}
		if least, most := extent(nodes, sum.masters); most > least+1 {
			t.Errorf("masters after many were added: %d on one node, %d on another", least, most)
		}
		// Without replicas, or with one on each node, there is nothing to choose.
		if least, most := extent(nodes, sum.replicas); most > least+1 && copies > 1 && copies < len(nodes) {
			t.Errorf("replicas after many were added: %d on one node, %d on another", least, most)
		}
	})
}

func TestPlaceIsTheSameEachTime(t *testing.T) {
	t.Parallel()
	var first [][]string
	for range 20 {
		placement, err := plan.Place([]string{"a", "b", "c"}, 4, 2)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = placement
		}
		if diff := cmp.Diff(first, placement); diff != "" {
			t.Fatalf("Place (-first +later):\n%s", diff)
		}
	}
	want := [][]string{{"a", "b"}, {"b", "c"}, {"c", "a"}, {"a", "c"}}
	if diff := cmp.Diff(want, first); diff != "" {
		t.Errorf("Place (-want +got):\n%s", diff)
	}
}

// A node is added to a fleet of three, and with it partitions.
func TestPlaceMoreOnANewNode(t *testing.T) {
	t.Parallel()
	present, err := plan.Place([]string{"a", "b", "c"}, 6, 2)
	if err != nil {
		t.Fatal(err)
	}
	nodes := []string{"a", "b", "c", "d"}
	added, err := plan.PlaceMore(nodes, present, 2, 2)
	if err != nil {
		t.Fatal(err)
	}
	sum := tallyOf(t, nodes, append(present, added...), 2)
	want := map[string]int{"a": 2, "b": 2, "c": 2, "d": 2}
	if diff := cmp.Diff(want, sum.masters); diff != "" {
		t.Errorf("masters (-want +got):\n%s", diff)
	}
}

func TestNoPlace(t *testing.T) {
	t.Parallel()
	tests := map[string]func() ([][]string, error){
		"0 partitions cannot be placed": func() ([][]string, error) { return plan.Place(nodeNames(3), 0, 2) },
		"1 partitions and 65536 more are more than the 65536 that a fleet can have": func() ([][]string, error) {
			return plan.PlaceMore(nodeNames(3), [][]string{{"node-0", "node-1"}}, 65536, 2)
		},
		"invalid number of copies: 0":                                 func() ([][]string, error) { return plan.Place(nodeNames(3), 1, 0) },
		"2 copies of a partition need as many nodes, and there are 1": func() ([][]string, error) { return plan.Place(nodeNames(1), 1, 2) },
		`the name of a node is empty or a duplicate: "a"`:             func() ([][]string, error) { return plan.Place([]string{"a", "b", "a"}, 1, 2) },
		`the name of a node is empty or a duplicate: ""`:              func() ([][]string, error) { return plan.Place([]string{"a", ""}, 1, 2) },
	}
	for want, place := range tests {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			placement, err := place()
			checkRefusal(t, err, want)
			if placement != nil {
				t.Errorf("placement = %v, want none", placement)
			}
		})
	}
}

func BenchmarkPlace(b *testing.B) {
	for _, nodes := range []int{14, 100} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			for b.Loop() {
				if _, err := plan.Place(nodeNames(nodes), nodes*23/2, 2); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
