package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/fleet/grow"
	"github.com/millrace/millrace/internal/fleet/plan"
)

// The machines of Meshin, 14 of one kind with 160 partitions: the plan is printed, and init reads it.
func TestFleetPlanIsReadByInit(t *testing.T) {
	t.Parallel()
	s := shell{t: t}
	var nodes strings.Builder
	for i := range 14 {
		fmt.Fprintf(&nodes, "10.0.0.%d n%d # rack %d\n", i+1, i+1, i%2)
	}
	args := []string{"fleet", "plan", "--nodes", writeFile(t, nodes.String()), "--partitions", "160"}
	printed := s.run(args...)
	if printed.code != 0 || printed.stderr != "" {
		t.Fatalf("plan = %+v, want a file alone", printed)
	}
	for _, part := range []string{
		"# 160 partitions of 2 members. Start these servers.", "divided by one more than the machine has servers",
		"\n# n1    10.0.0.1   7001..7023  23       12\n", "\n10.0.0.1:7001@n1,10.0.0.2:7001@n2\n",
	} {
		if !strings.Contains(printed.stdout, part) {
			t.Errorf("plan prints no %q:\n%s", part, printed.stdout)
		}
	}

	partitions, err := grow.ParseFile("plan", printed.stdout)
	if err != nil {
		t.Fatal(err)
	}
	masters, servers, addrs := map[string]int{}, map[string]int{}, map[string]bool{}
	for i, p := range partitions {
		if len(p.Replicas) != 1 || p.Master.Node == p.Replicas[0].Node {
			t.Errorf("partition %d is on %v, want two nodes", i, p)
		}
		masters[p.Master.Node]++
		for _, m := range append(p.Replicas, p.Master) {
			servers[m.Node]++
			addrs[m.Addr] = true
		}
	}
	if len(partitions) != 160 || len(addrs) != 320 || len(masters) != 14 {
		t.Errorf("%d partitions, %d servers, masters on %d machines; want 160, 320, 14", len(partitions), len(addrs), len(masters))
	}
	for node, n := range masters {
		if n != 11 && n != 12 || servers[node] != 22 && servers[node] != 23 {
			t.Errorf("%s has %d servers, %d of them masters; want 22 or 23, 11 or 12", node, servers[node], n)
		}
	}

	doc := answer[plan.Placement](s, args...)
	if first := (plan.Machine{Node: "n1", Host: "10.0.0.1", FirstPort: 7001, Servers: 23, Masters: 12}); len(doc.Machines) != 14 || doc.Machines[0] != first {
		t.Errorf("plan with --json has the machines %+v, want 14, the first %+v", doc.Machines, first)
	}
	if lines := strings.Join(doc.Members, "\n") + "\n"; !strings.HasSuffix(printed.stdout, "#\n# The partitions, for fleet init --file: the master, then replicas.\n"+lines) {
		t.Errorf("the file does not end with the placement of --json:\n%s", lines)
	}
}

func TestFleetPlanRefuses(t *testing.T) {
	t.Parallel()
	s := shell{t: t}
	for _, c := range []struct{ nodes, code, message, hint string }{
		{"10.0.0.1 a\n10.0.0.2 b\n10.0.0.3 c 96gb", "bad_argument", `standard input:3: "96gb" follows an address and a name`, "10.0.0.1 a"},
		{"10.0.0.1 a\n10.0.0.1 a", "bad_argument", `standard input:2: the machine "a" is in line 1 already`, "A machine is one line"},
		{"10.0.0.1 a", "bad_argument", "2 copies of a partition need as many nodes, and there are 1", "Add nodes"},
		{"# none\n", "bad_argument", "standard input lists no machine", "10.0.0.1 a"},
		{strings.Repeat("a", 1<<20), "bad_argument", "standard input:1: the line has 1048576 bytes, more than 4096", "Is this the right file?"},
		{"127.0.0.1 a\n127.0.0.1 b", "bad_argument", "the server at 127.0.0.1:7001 would be of a and of b", "127.0.0.1:7101 b"},
	} {
		got := s.refusedFed(c.nodes, 2, c.code, "fleet", "plan", "--nodes", "-", "--partitions", "3")
		if got.Error != c.message || !strings.Contains(got.Hint, c.hint) {
			t.Errorf("plan of %.40q = %+v, want %q", c.nodes, got, c.message)
		}
	}
	if got := s.refused(2, "bad_usage", "fleet", "plan", "--nodes", "no such file", "--partitions", "3"); !strings.Contains(got.Error, "no such file") {
		t.Errorf("plan of a file that is not there = %+v, want its name", got)
	}
	example := "millrace fleet plan --nodes nodes.txt --partitions 6 > fleet.txt"
	for args, missing := range map[string]string{"": "--nodes=FILE, --partitions=N", " --nodes 3": "--partitions=N"} {
		got := s.refused(2, "bad_usage", strings.Fields("fleet plan"+args)...)
		if want := (failure{"missing flags: " + missing, "bad_usage", example}); got != want {
			t.Errorf("fleet plan%s = %+v, want %+v", args, got, want)
		}
	}
}

// docs/FLEET.md plans a fleet, and takes ports from the plan.
func TestFleetPlanOfDocs(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/FLEET.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?s) nodes.txt <<'EOF'\n(.*?) *EOF\n *millrace (fleet plan --nodes )nodes.txt(.*?) > fleet.txt\n.*?member@{(.*?)}.*more-nodes.txt(.*?) > more.txt\n`).FindStringSubmatch(string(page))
	if found == nil {
		t.Fatal("the page has no plan")
	}
	if found[5] != found[3] { // machines that are added get the same units
		t.Errorf("more machines are planned with%s, the first ones with%s", found[5], found[3])
	}
	plan := (shell{t: t}).run(strings.Fields(found[2] + writeFile(t, found[1]) + found[3])...)
	for _, part := range []string{"\n# a     10.0.0.1  " + found[4] + "  ", "\n# c     10.0.0.3  " + found[4] + "  ", "\n10.0.0.1:7001@a,10.0.0.2:7001@b\n"} {
		if !strings.Contains(plan.stdout, part) {
			t.Errorf("the plan has no %q: %+v", part, plan)
		}
	}
}
