package main

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/test/redistest"
)

func writeFile(t *testing.T, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFleetInitRefusesFile(t *testing.T) {
	t.Parallel()
	s := shell{t: t, url: "fleet://127.0.0.1:1"} // it is not asked
	for _, c := range []struct{ text, message, hint string }{
		{"", "standard input lists no partition", "millrace fleet plan --nodes nodes.txt"},
		{"# none\n \n", "standard input lists no partition", "> fleet.txt"},
		{"10.0.0.1:7001@a\nnohost\n", `standard input:2: partition "nohost": "nohost" is no HOST:PORT`, "HOST:PORT[@NODE]"},
		{"10.0.0.1:7001@a,wait=2", `standard input:1: partition "10.0.0.1:7001@a,wait=2": "wait=2" is no HOST:PORT`, "weight=N"},
		{"--partition 10.0.0.1:7001@a", `standard input:1: white space in partition "--partition 10.0.0.1:7001@a"`, "HOST:PORT[@NODE]"},
		{"10.0.0.1:7001@a, 10.0.0.2:7001@b", `standard input:1: white space in partition "10.0.0.1:7001@a, 10.0.0.2:7001@b"`, "behind a comma"},
		{"\n10.0.0.1:7001@a,10.0.0.2:7001@a", "standard input:2: two members of the partition are on node a, and would be lost with it", "each node once"},
		{"10.0.0.1:7001,10.0.0.1:7001", "standard input:1: the server at 10.0.0.1:7001 is in line 1 already", "each server once"},
		{"10.0.0.1:7001@a\n#\n10.0.0.2:7001@b,10.0.0.1:7001@a", "standard input:3: the server at 10.0.0.1:7001 is in line 1 already", "each server once"},
		{"10.0.0.1:7001@a\n" + strings.Repeat("x", 1<<20), "standard input:2: the line has 1048576 bytes, more than 4096", "Is this the right file?"},
	} {
		for _, verb := range []string{"init", "add"} {
			got := s.refusedFed(c.text, 2, "bad_argument", "fleet", verb, "--file", "-")
			if got.Error != c.message || !strings.Contains(got.Hint, c.hint) {
				t.Errorf("%s of %.40q = %+v, want %q and %q", verb, c.text, got, c.message, c.hint)
			}
		}
	}
	if got := s.refused(2, "bad_usage", "fleet", "init", "--file", "no such file"); !strings.Contains(got.Error, "no such file") {
		t.Errorf("init of a file that is not there = %+v, want its name", got)
	}
	s.refused(2, "bad_usage", "fleet", "init", "--file", writeFile(t, "10.0.0.1:7001"), "--partition", "10.0.0.2:7001")
}

// Three machines on loopback: the plan says which servers to start, and init makes a fleet of them.
func TestFleetFromPlan(t *testing.T) {
	t.Parallel()
	var nodes strings.Builder
	starts := map[string]*redistest.Server{}
	for _, name := range []string{"a", "b", "c"} {
		first := freePorts(t, 2)
		fmt.Fprintf(&nodes, "127.0.0.1:%d %s\n", first, name)
		for port := first; port < first+2; port++ {
			starts[fmt.Sprintf("127.0.0.1:%d@%s", port, name)] = redistest.Start(t, redistest.Options{Port: port, Args: []string{"--repl-diskless-sync-delay", "0"}})
		}
	}
	s := fleetShell(t)
	plan := []string{"fleet", "plan", "--nodes", writeFile(t, nodes.String()), "--partitions", "3"}
	made := s.init("--file", writeFile(t, s.run(plan...).stdout))
	shown := answer[fleet.Status](s, "fleet", "show")
	if made.State != fleet.Healthy || len(shown.Partitions) != 3 || shown.Epoch != made.Epoch {
		t.Fatalf("init = %+v, show = %+v; want three partitions, healthy", made, shown)
	}
	masters := map[string]int{}
	for _, p := range shown.Partitions {
		masters[p.Master.Node]++
		for _, m := range append(p.Replicas, p.Master) {
			if server := starts[m.Addr+"@"+m.Node]; server == nil || server.PID() != m.PID {
				t.Errorf("partition %d has the member %+v, which was not planned", p.ID, m)
			}
			delete(starts, m.Addr+"@"+m.Node)
		}
	}
	if want := map[string]int{"a": 1, "b": 1, "c": 1}; cmp.Diff(want, masters) != "" || len(starts) > 0 {
		t.Errorf("masters: %v, want one on each machine; not in use: %v", masters, starts)
	}
}

// freePorts returns the first of n ports in a row that are free, below those that systems give out.
func freePorts(t *testing.T, n int) int {
	t.Helper()
	for range 100 {
		first := 20000 + rand.IntN(10000)
		free := 0
		for ; free < n; free++ {
			l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", first+free))
			if err != nil {
				break
			}
			l.Close()
		}
		if free == n {
			return first
		}
	}
	t.Fatal("no ports are free")
	return 0
}
