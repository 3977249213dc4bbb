package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/millrace/millrace/internal/fleet/plan"
)

func TestParseMachines(t *testing.T) {
	t.Parallel()
	got, err := plan.ParseMachines("nodes.txt", strings.Join([]string{
		"# rack 1", "10.0.0.1 a", "", "  10.0.0.2\tb # the slow one\r", "db-3.example.com", "10.0.0.4:6400 rack#1",
		"[::1]:6500", "fe80::1 six", "[fe80::2]", "node_7. seven",
	}, "\n"))
	want := []plan.Machine{
		{Node: "a", Host: "10.0.0.1", FirstPort: 7001}, {Node: "b", Host: "10.0.0.2", FirstPort: 7001},
		{Node: "db-3.example.com", Host: "db-3.example.com", FirstPort: 7001}, {Node: "rack#1", Host: "10.0.0.4", FirstPort: 6400},
		{Node: "::1", Host: "::1", FirstPort: 6500}, {Node: "six", Host: "fe80::1", FirstPort: 7001},
		{Node: "fe80::2", Host: "fe80::2", FirstPort: 7001}, {Node: "seven", Host: "node_7.", FirstPort: 7001},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("ParseMachines: %v (-want +got):\n%s", err, diff)
	}
}

func TestParseMachinesRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                "n.txt lists no machine",
		"# none yet\n\n":                  "n.txt lists no machine",
		"10.0.0.1 a\n10.0.0.2 b 16":       `n.txt:2: "16" follows an address and a name`,
		"10.0.0.1 a\n\n10.0.0.2 a\n":      `n.txt:3: the machine "a" is in line 1 already`,
		"10.0.0.1\n10.0.0.1":              `n.txt:2: the machine "10.0.0.1" is in line 1 already`,
		"10.0.0.1:redis a":                `n.txt:1: "10.0.0.1:redis" has no valid port`,
		"10.0.0.1:0 a":                    `n.txt:1: "10.0.0.1:0" has no valid port`,
		"10.0.0.1:65536 a":                `n.txt:1: "10.0.0.1:65536" has no valid port`,
		":7001 a":                         `n.txt:1: ":7001" is no address of a machine`,
		"10.0.0.1:7001@a,10.0.0.2:7001@b": `n.txt:1: "10.0.0.1:7001@a,10.0.0.2:7001@b" is no address of a machine`,
		"redis://10.0.0.1 a":              `n.txt:1: "redis://10.0.0.1" has no valid port`,
		"10.0.0.1 a@b":                    `n.txt:1: "a@b" cannot be a name: it has a comma or an @`,
		"10.0.0.1 a,b":                    `n.txt:1: "a,b" cannot be a name: it has a comma or an @`,
		"10.0.0.1 a\n" + strings.Repeat("x", 1<<20): "n.txt:2: the line has 1048576 bytes, more than 4096",
	} {
		_, err := plan.ParseMachines("n.txt", text)
		checkRefusal(t, err, want)
	}
}

func machinesOf(t rapid.TB, text string) []plan.Machine {
	t.Helper()
	machines, err := plan.ParseMachines("n.txt", text)
	if err != nil {
		t.Fatal(err)
	}
	return machines
}

func TestPlaceServers(t *testing.T) {
	t.Parallel()
	got, err := plan.PlaceServers(machinesOf(t, "10.0.0.1 a\n10.0.0.2:6400 b\n::1 c"), 4, 2)
	want := &plan.Placement{
		Machines: []plan.Machine{
			{Node: "a", Host: "10.0.0.1", FirstPort: 7001, Servers: 3, Masters: 2},
			{Node: "b", Host: "10.0.0.2", FirstPort: 6400, Servers: 2, Masters: 1},
			{Node: "c", Host: "::1", FirstPort: 7001, Servers: 3, Masters: 1},
		},
		Members: []string{
			"10.0.0.1:7001@a,10.0.0.2:6400@b", "10.0.0.2:6401@b,[::1]:7001@c", "[::1]:7002@c,10.0.0.1:7002@a", "10.0.0.1:7003@a,[::1]:7003@c",
		},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("PlaceServers: %v (-want +got):\n%s", err, diff)
	}
}

func TestPlaceServersRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"10.0.0.1":                                "2 copies of a partition need as many nodes, and there are 1",
		"127.0.0.1 a\n127.0.0.1 b":                "the server at 127.0.0.1:7001 would be of a and of b",
		"127.0.0.1:7001 a\n127.0.0.1:7003 b":      "the server at 127.0.0.1:7003 would be of b and of a",
		"10.0.0.1:65533 a\n10.0.0.2:65500 b":      "the servers of a would need ports beyond 65535",
		"10.0.0.1:65500 a\n10.0.0.2:65535 second": "the servers of second would need ports beyond 65535",
	} {
		p, err := plan.PlaceServers(machinesOf(t, text), 4, 2)
		checkRefusal(t, err, want)
		if p != nil {
			t.Errorf("PlaceServers of %q = %+v, want none", text, p)
		}
	}
}

// Each server has an address of its own, and machines have as many as they say.
func TestPlaceServersAddsUp(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var file strings.Builder
		nodes := rapid.IntRange(1, 20).Draw(t, "nodes")
		for i := range nodes {
			fmt.Fprintf(&file, "host-%d:%d\n", i, rapid.IntRange(1, 60000).Draw(t, "port"))
		}
		partitions, copies := rapid.IntRange(1, 100).Draw(t, "partitions"), rapid.IntRange(1, min(nodes, 4)).Draw(t, "copies")
		p, err := plan.PlaceServers(machinesOf(t, file.String()), partitions, copies)
		if err != nil {
			t.Fatal(err)
		}
		members := map[string]bool{}
		for _, partition := range p.Members {
			for member := range strings.SplitSeq(partition, ",") {
				members[member] = true
			}
		}
		servers, masters := 0, 0
		for _, m := range p.Machines {
			servers, masters = servers+m.Servers, masters+m.Masters
			for i := range m.Servers {
				if want := fmt.Sprintf("%s:%d@%s", m.Host, m.FirstPort+i, m.Node); !members[want] {
					t.Errorf("no partition has %s", want)
				}
			}
		}
		if want := partitions * copies; len(p.Members) != partitions || len(members) != want || servers != want || masters != partitions {
			t.Errorf("%d partitions, %d members, %d servers, %d masters, want %d in %d copies", len(p.Members), len(members), servers, masters, partitions, copies)
		}
	})
}

func TestLines(t *testing.T) {
	t.Parallel()
	var got []string
	err := plan.Lines("f", "a\n#b\n c # d\n\n  \ne#f \r\n\t# g", func(number int, line string) error {
		got = append(got, fmt.Sprint(number, " ", line))
		return nil
	})
	if diff := cmp.Diff([]string{"1 a", "3 c", "6 e#f"}, got); err != nil || diff != "" {
		t.Errorf("Lines: %v (-want +got):\n%s", err, diff)
	}
}
