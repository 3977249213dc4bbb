package membership

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/ring"
)

// TestPlans makes plans for random fleets, carries them out on the map, and checks the promises
// of package membership for each.
func TestPlans(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := drawMap(t)
		node := rapid.SampledFrom(machines(m)).Draw(t, "node")
		request := drawRequest(t, m, node)
		p, err := Make(m, request)
		if err != nil {
			if code := millrace.Code(err); code != "refused" && code != "bad_argument" {
				t.Fatalf("Make = %v", err)
			}
			return
		}
		if again, err := Make(m.Clone(), request); err != nil || !p.equal(again) {
			t.Fatalf("the same request gives %v, %v, then %v", p, err, again)
		}
		after := carryOut(t, m, p)
		for i, now := range after.Partitions {
			was := m.Partitions[i]
			if len(nodesOf(now)) < len(nodesOf(was)) && len(now.Members()) >= len(was.Members()) {
				t.Errorf("partition %d has members on %v, and had them on %v", i, nodesOf(now), nodesOf(was))
			}
			if copies := len(now.Members()); copies < len(was.Members()) && copies-1 < m.Settings.Effective().Confirmed {
				t.Errorf("partition %d has %d members left", i, copies)
			}
		}
		switch r := request.(type) {
		case ReplaceNode:
			leftNode(t, after, node)
			everyCopy(t, m, after)
			evenMasters(t, m, after)
		case DrainNode:
			leftNode(t, after, node)
			if len(r.Servers) > 0 {
				everyCopy(t, m, after)
			}
			evenMasters(t, m, after)
		case Restart:
			everyCopy(t, m, after)
			for _, id := range p.Partitions() {
				if task := p.Tasks[id]; len(task.Restart) == 0 {
					t.Errorf("partition %d is no part of the request, and has the task %+v", id, task)
				}
			}
			if len(r.Nodes) == 0 {
				evenMasters(t, m, after)
			}
		}
	})
}

// drawMap draws a fleet without two members of a partition on a node.
func drawMap(t *rapid.T) *directory.Map {
	nodes := rapid.IntRange(2, 5).Draw(t, "nodes")
	partitions := rapid.IntRange(1, 6).Draw(t, "partitions")
	m := fleetOf(partitions)
	m.Settings.Confirmed = rapid.SampledFrom([]int{0, 2}).Draw(t, "confirmed")
	for i := range m.Partitions {
		p := &m.Partitions[i]
		at := rapid.SliceOfNDistinct(rapid.IntRange(0, nodes-1), 1, min(3, nodes), rapid.ID[int]).Draw(t, "at")
		for j, node := range at {
			member := directory.Member{Addr: fmt.Sprintf("10.0.%d.%d:7000", node, i), Node: fmt.Sprint("n", node), Run: "r"}
			if j == 0 {
				p.Master = member
			} else {
				member.Down = rapid.IntRange(0, 5).Draw(t, "down") == 0
				p.Replicas = append(p.Replicas, member)
			}
		}
	}
	return m
}

func fleetOf(partitions int) *directory.Map {
	weights := slices.Repeat([]int{1}, partitions)
	r, err := ring.New(weights...)
	if err != nil {
		panic(err)
	}
	m := &directory.Map{Version: directory.Version, Fleet: "f", Epoch: 5, Floor: 1, Points: r.Points(), Partitions: make([]directory.Partition, partitions)}
	for i := range m.Partitions {
		m.Partitions[i] = directory.Partition{ID: i, Epoch: 1, Phase: directory.Open}
	}
	return m
}

// drawRequest draws a request, mostly one that can be carried out.
func drawRequest(t *rapid.T, m *directory.Map, node string) Request {
	id := rapid.IntRange(0, len(m.Partitions)-1).Draw(t, "partition")
	member := rapid.SampledFrom(m.Partitions[id].Members()).Draw(t, "member")
	count := 0
	for _, p := range m.Partitions {
		count += len(p.Members()) - len(awayFrom(p, node))
	}
	var servers []directory.Member
	for i := range count + rapid.IntRange(-1, 2).Draw(t, "more") {
		on := rapid.SampledFrom([]string{"new", "n0", "n1", "n2"}).Draw(t, "on")
		servers = append(servers, directory.Member{Addr: fmt.Sprintf("10.9.9.%d:7000", i), Node: on})
	}
	newcomer := directory.Member{Addr: "10.8.8.8:7000", Node: rapid.SampledFrom([]string{"new", "n0"}).Draw(t, "newcomer")}
	switch rapid.SampledFrom([]string{"add", "remove", "move", "replace", "drain", "shrink", "restart", "restart-node"}).Draw(t, "request") {
	case "add":
		return AddReplica{id, newcomer}
	case "remove":
		return RemoveReplica{id, member.Addr, false}
	case "move":
		return MoveReplica{id, member.Addr, newcomer}
	case "replace":
		for i := range servers {
			servers[i].Node = "new"
		}
		return ReplaceNode{node, servers}
	case "drain":
		return DrainNode{node, servers}
	case "shrink":
		return DrainNode{node, nil}
	case "restart":
		return Restart{}
	default:
		return Restart{[]string{node}}
	}
}

// carryOut carries out tasks as agents do, and checks that each can be carried out.
func carryOut(t *rapid.T, m *directory.Map, p *Plan) *directory.Map {
	after := m.Clone()
	for id, task := range p.Tasks {
		p := &after.Partitions[id]
		if task.Add != nil {
			p.Replicas = append(p.Replicas, *task.Add)
		}
		switch to := directory.Find(p.Members(), task.Master); {
		case task.Master != "" && (to == nil || to.Down || task.Master == task.Remove):
			t.Fatalf("partition %d is to be led by %s, which is none of %v", id, task.Master, p.Members())
		case task.Master != "":
			all := p.Members()
			p.Master, p.Replicas = *to, slices.DeleteFunc(all, func(m directory.Member) bool { return m.Addr == to.Addr })
		case task.Remove == p.Master.Addr:
			t.Fatalf("the master of partition %d leaves, and none is chosen", id)
		}
		if task.Remove != "" {
			if directory.Find(p.Replicas, task.Remove) == nil {
				t.Fatalf("partition %d cannot lose %s", id, task.Remove)
			}
			p.Replicas = slices.DeleteFunc(p.Replicas, func(m directory.Member) bool { return m.Addr == task.Remove })
		}
		for _, restart := range task.Restart {
			if member := directory.Find(p.Members(), restart.Addr); member == nil || member.Run != restart.Run {
				t.Fatalf("partition %d cannot restart %v", id, restart)
			}
		}
	}
	text, err := json.Marshal(after)
	if err == nil {
		_, err = directory.Parse(text)
	}
	if err != nil {
		t.Fatalf("the map cannot be used: %v", err)
	}
	return after
}

func nodesOf(p directory.Partition) map[string]bool {
	nodes := map[string]bool{}
	for _, m := range p.Members() {
		nodes[m.Machine()] = true
	}
	return nodes
}

func awayFrom(p directory.Partition, node string) []directory.Member {
	return slices.DeleteFunc(p.Members(), func(m directory.Member) bool { return m.Machine() == node })
}

func leftNode(t *rapid.T, m *directory.Map, node string) {
	for _, p := range m.Partitions {
		if len(awayFrom(p, node)) < len(p.Members()) {
			t.Errorf("partition %d still has a member on node %s", p.ID, node)
		}
	}
}

func everyCopy(t *rapid.T, m, after *directory.Map) {
	for i, p := range after.Partitions {
		if got, want := len(p.Members()), len(m.Partitions[i].Members()); got != want {
			t.Errorf("partition %d has %d members, want %d", i, got, want)
		}
	}
}

// evenMasters compares with all choices of masters that there are.
func evenMasters(t *rapid.T, before, after *directory.Map) {
	spread := func(counts map[string]int) int {
		least, most := len(after.Partitions), 0
		for _, node := range machines(after) {
			least, most = min(least, counts[node]), max(most, counts[node])
		}
		return most - least
	}
	best := len(after.Partitions)
	var choose func(i int, counts map[string]int)
	choose = func(i int, counts map[string]int) {
		if i == len(after.Partitions) {
			best = min(best, spread(counts))
			return
		}
		for _, m := range after.Partitions[i].Members() {
			if m.Down {
				continue
			}
			counts[m.Machine()]++
			choose(i+1, counts)
			counts[m.Machine()]--
		}
	}
	choose(0, map[string]int{})
	got := map[string]int{}
	for _, p := range after.Partitions {
		got[p.Master.Machine()]++
	}
	if spread(got) > max(best, 1) {
		t.Errorf("masters by node: %v, where %d is the least that two must differ by; before: %+v", got, best, before.Partitions)
	}
}

// TestDrainSpreadsEvenly over the other nodes of a fleet that was even.
func TestDrainSpreadsEvenly(t *testing.T) {
	t.Parallel()
	m := fleetOf(12)
	for i := range m.Partitions {
		for j := range 2 {
			node := (i + j*(1+i/4%3)) % 4
			member := directory.Member{Addr: fmt.Sprintf("10.0.%d.%d:7000", node, i), Node: fmt.Sprint("n", node), Run: "r"}
			if j == 0 {
				m.Partitions[i].Master = member
			} else {
				m.Partitions[i].Replicas = []directory.Member{member}
			}
		}
	}
	var servers []directory.Member
	for i := range 9 {
		servers = append(servers, directory.Member{Addr: fmt.Sprintf("10.0.%d.%d:7100", i%3, i), Node: fmt.Sprint("n", i%3)})
	}
	p, err := Make(m, DrainNode{"n3", servers})
	if err != nil {
		t.Fatal(err)
	}
	members, masters := map[string]int{}, map[string]int{}
	for _, c := range p.Changes(m) {
		if c.Leaves != "" {
			members[nodeOf(m, servers, c.Comes)]++
		}
	}
	for i, partition := range m.Partitions {
		master := partition.Master.Addr
		if task, ok := p.Tasks[i]; ok && task.Master != "" {
			master = task.Master
		}
		masters[nodeOf(m, servers, master)]++
	}
	if diff := cmp.Diff(map[string]int{"n0": 2, "n1": 2, "n2": 2}, members); diff != "" {
		t.Errorf("members by node that come (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int{"n0": 4, "n1": 4, "n2": 4}, masters); diff != "" {
		t.Errorf("masters by node (-want +got):\n%s", diff)
	}
}

func nodeOf(m *directory.Map, servers []directory.Member, addr string) string {
	for _, p := range m.Partitions {
		servers = append(servers, p.Members()...)
	}
	if member := directory.Find(servers, addr); member != nil {
		return member.Node
	}
	return "none"
}

// pair is a fleet of two partitions with two members each, on nodes a and b.
func pair() *directory.Map {
	m := fleetOf(2)
	a, b := func(i int) directory.Member {
		return directory.Member{Addr: fmt.Sprintf("a:%d", i), Node: "a", Run: "r"}
	},
		func(i int) directory.Member {
			return directory.Member{Addr: fmt.Sprintf("b:%d", i), Node: "b", Run: "r"}
		}
	m.Partitions[0].Master, m.Partitions[0].Replicas = a(0), []directory.Member{b(0)}
	m.Partitions[1].Master, m.Partitions[1].Replicas = b(1), []directory.Member{a(1)}
	return m
}

// TestRefusals of requests that must not be carried out, each with the next step.
func TestRefusals(t *testing.T) {
	t.Parallel()
	c0, c1 := directory.Member{Addr: "c:0", Node: "c"}, directory.Member{Addr: "c:1", Node: "c"}
	for name, tc := range map[string]struct {
		edit    func(m *directory.Map)
		request Request
		want    error
		says    string
	}{
		"no such partition":             {nil, AddReplica{7, c0}, millrace.ErrNotFound, "no partition 7"},
		"a member already":              {nil, AddReplica{0, directory.Member{Addr: "a:1", Node: "a"}}, millrace.ErrBadArgument, "member of partition 1"},
		"the same node":                 {nil, AddReplica{0, directory.Member{Addr: "b:9", Node: "b"}}, millrace.ErrBadArgument, "two members on node b"},
		"another plan":                  {func(m *directory.Map) { m.Partitions[0].Task = &directory.Task{Plan: "x-y"} }, AddReplica{0, c0}, ErrRefused, "x-y"},
		"one leaves":                    {func(m *directory.Map) { m.Partitions[0].Leaving = &directory.Member{Addr: "z:1"} }, AddReplica{0, c0}, ErrRefused, "z:1 is just leaving"},
		"read-only":                     {func(m *directory.Map) { m.Partitions[0].ReadOnly = true }, AddReplica{0, c0}, ErrRefused, "no master"},
		"partitions are being added":    {func(m *directory.Map) { m.Floor = m.Epoch + 1 }, AddReplica{0, c0}, ErrRefused, "being added"},
		"what is not there":             {nil, RemoveReplica{0, "q:0", false}, millrace.ErrNotFound, "is not a member"},
		"too few replicas":              {nil, RemoveReplica{0, "b:0", false}, ErrRefused, "0 live replicas"},
		"the last copy, by force":       {func(m *directory.Map) { m.Partitions[0].Replicas = nil }, RemoveReplica{0, "a:0", true}, ErrRefused, "last copy"},
		"the last live copy, by force":  {func(m *directory.Map) { m.Partitions[0].Replicas[0].Down = true }, RemoveReplica{0, "a:0", true}, ErrRefused, "last copy"},
		"no such member":                {nil, MoveReplica{0, "q:1", c0}, millrace.ErrNotFound, "not a member"},
		"no such node":                  {nil, ReplaceNode{"q", []directory.Member{c0}}, millrace.ErrNotFound, "the nodes are a, b"},
		"too few servers":               {nil, ReplaceNode{"a", []directory.Member{c0}}, millrace.ErrBadArgument, "2 members, and 1 server to"},
		"a server twice":                {nil, ReplaceNode{"a", []directory.Member{c0, c0}}, millrace.ErrBadArgument, "twice"},
		"no room on another node":       {nil, DrainNode{"a", []directory.Member{c0, {Addr: "b:9", Node: "b"}}}, millrace.ErrBadArgument, "two members on one node"},
		"servers on the drained node":   {nil, DrainNode{"a", []directory.Member{c0, {Addr: "a:9", Node: "a"}}}, millrace.ErrBadArgument, "to be drained"},
		"too few copies without a node": {nil, DrainNode{"a", nil}, ErrRefused, "too few copies remain of 2 partitions"},
		"two members on the node": {
			func(m *directory.Map) { m.Partitions[0].Replicas[0].Node = "a" },
			DrainNode{"a", []directory.Member{c0, c1}}, ErrRefused, "two members on node a",
		},
		"restart a member that is down":    {func(m *directory.Map) { m.Partitions[0].Replicas[0].Down = true }, Restart{}, ErrRefused, "b:0"},
		"restart a member that has less":   {func(m *directory.Map) { m.Partitions[0].Replicas[0].Run = "" }, Restart{}, ErrRefused, "b:0"},
		"restart the only copy":            {func(m *directory.Map) { m.Partitions[0].Replicas = nil }, Restart{}, ErrRefused, "only copy"},
		"restart of a node that is not":    {nil, Restart{[]string{"q"}}, millrace.ErrNotFound, "the nodes are a, b"},
		"a switch that is in nobody's way": {func(m *directory.Map) { m.Partitions[0].Task = &directory.Task{Plan: "x-y"} }, MoveReplica{1, "b:1", c0}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := pair()
			if tc.edit != nil {
				tc.edit(m)
			}
			_, err := Make(m, tc.request)
			if !errors.Is(err, tc.want) || err != nil && (!strings.Contains(err.Error(), tc.says) || millrace.Hint(err) == "" && tc.want == ErrRefused) {
				t.Errorf("Make = %v (%s), want %v that says %q", err, millrace.Hint(err), tc.want, tc.says)
			}
		})
	}
}

// TestTasks of small fleets.
func TestTasks(t *testing.T) {
	t.Parallel()
	c0, c1 := directory.Member{Addr: "c:0", Node: "c"}, directory.Member{Addr: "c:1", Node: "c"}
	for name, tc := range map[string]struct {
		request Request
		want    map[int]directory.Task
	}{
		"add":                      {AddReplica{0, c0}, map[int]directory.Task{0: {Add: &c0}}},
		"add what is there":        {AddReplica{0, directory.Member{Addr: "b:0", Node: "b"}}, map[int]directory.Task{}},
		"remove by force":          {RemoveReplica{0, "b:0", true}, map[int]directory.Task{0: {Remove: "b:0"}}},
		"remove a master by force": {RemoveReplica{0, "a:0", true}, map[int]directory.Task{0: {Remove: "a:0", Master: "b:0"}}},
		"move a replica":           {MoveReplica{0, "b:0", c0}, map[int]directory.Task{0: {Add: &c0, Remove: "b:0"}}},
		"move a master":            {MoveReplica{0, "a:0", c0}, map[int]directory.Task{0: {Add: &c0, Remove: "a:0", Master: "c:0"}}},
		"move what has moved":      {MoveReplica{0, "q:0", directory.Member{Addr: "b:0", Node: "b"}}, map[int]directory.Task{}},
		"replace a node": {ReplaceNode{"a", []directory.Member{c0, c1}}, map[int]directory.Task{
			0: {Add: &c0, Remove: "a:0", Master: "c:0"}, 1: {Add: &c1, Remove: "a:1"},
		}},
		"replace what was replaced": {ReplaceNode{"q", []directory.Member{{Addr: "a:0", Node: "a"}, c0}}, map[int]directory.Task{}},
		"restart all": {Restart{}, map[int]directory.Task{
			0: {Restart: []directory.Restart{{Addr: "b:0", Run: "r"}, {Addr: "a:0", Run: "r"}}, Master: "b:0"},
			1: {Restart: []directory.Restart{{Addr: "a:1", Run: "r"}, {Addr: "b:1", Run: "r"}}, Master: "a:1"},
		}},
		"restart a node, whose master returns": {Restart{[]string{"a"}}, map[int]directory.Task{
			0: {Restart: []directory.Restart{{Addr: "a:0", Run: "r"}}, Master: "a:0"},
			1: {Restart: []directory.Restart{{Addr: "a:1", Run: "r"}}},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := Make(pair(), tc.request)
			if err != nil {
				t.Fatal(err)
			}
			for id, task := range p.Tasks {
				if task.Plan != ID(tc.request) {
					t.Errorf("the task of partition %d is of plan %q, want %q", id, task.Plan, ID(tc.request))
				}
				task.Plan = ""
				p.Tasks[id] = task
			}
			if diff := cmp.Diff(tc.want, p.Tasks); diff != "" {
				t.Errorf("tasks (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNoMemberThatIsDownLeads even where that would be more even.
func TestNoMemberThatIsDownLeads(t *testing.T) {
	t.Parallel()
	m := pair()
	m.Partitions[0].Replicas[0].Down = true
	m.Partitions[0].Replicas = append(m.Partitions[0].Replicas, directory.Member{Addr: "c:0", Node: "c", Run: "r"})
	m.Partitions[1].Master.Node = "c"
	p, err := Make(m, RemoveReplica{0, "a:0", true})
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Tasks[0].Master; got != "c:0" {
		t.Errorf("%s is to lead, want c:0: b:0 is down", got)
	}
}
