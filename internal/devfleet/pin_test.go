package devfleet

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace/internal/redisproc"
	"github.com/millrace/millrace/internal/redistest"
)

// pinned returns the CPUs that a process's first thread may use.
func pinned(t *testing.T, s Server) string {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.Proc.PID()))
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(status), "Cpus_allowed_list:")
	list, _, _ = strings.Cut(list, "\n")
	return strings.TrimSpace(list)
}

func TestPinnedServers(t *testing.T) {
	t.Parallel()
	cpus := redisproc.CPUs("self")
	if len(cpus) < 2 {
		t.Skip("there is only one CPU")
	}
	f := start(t, Config{Binary: redistest.Binary(t), Pin: true})
	masters := map[string]int{}
	for _, s := range f.Servers() {
		cpu := setting(t, s, "server_cpulist")
		if got, want := pinned(t, s), cpu; got != want || strings.ContainsAny(cpu, ",-") {
			t.Errorf("%s runs on %s, want one CPU, %s", s, got, want)
		}
		background := setting(t, s, "bio_cpulist")
		if background == cpu || strings.ContainsAny(background, ",-") {
			t.Errorf("%s on %s does the rest on %s, want another one", s, cpu, background)
		}
		for _, name := range []string{"bgsave_cpulist", "aof_rewrite_cpulist"} {
			if got, want := setting(t, s, name), background; got != want {
				t.Errorf("%s of %s = %s, want %s", name, s, got, want)
			}
		}
		if s.Role == Master {
			masters[cpu]++
		}
	}
	if got, want := len(masters), min(4, len(cpus)); got != want {
		t.Errorf("4 masters are on CPUs %v, want %d of them", masters, want)
	}

	loose := start(t, small(t))
	for _, s := range loose.Servers() {
		if got, want := redisproc.CPUs(strconv.Itoa(s.Proc.PID())), cpus; !slices.Equal(got, want) {
			t.Errorf("%s runs on %v without Pin, want %v", s, got, want)
		}
	}
}

func TestPins(t *testing.T) {
	t.Parallel()
	servers := describe(0, [][]string{{"a", "b"}, {"b", "c"}, {"c", "a"}, {"a", "c"}})
	tests := []struct {
		name string
		cpus []int
		want string // CPU and the other CPU of each server
	}{
		{"one CPU", []int{0}, ""},
		{"two", []int{0, 1}, "0/1 1/0, 1/0 0/1, 0/1 1/0, 1/0 0/1"},
		{"five are shared", []int{2, 3, 4, 5, 6}, "2/3 3/4, 4/5 5/6, 6/2 3/4, 5/6 2/3"},
		{"six are not", []int{0, 1, 2, 3, 4, 5}, "0/1 2/3, 3/2 4/5, 5/4 1/0, 1/0 4/5"},
		{"seven", []int{0, 1, 2, 3, 4, 5, 6}, "0/1 2/3, 3/2 4/5, 5/6 1/0, 1/0 6/4"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := newPins(tc.cpus, []string{"a", "b", "c"})
			var got strings.Builder
			for i, s := range servers {
				args := p.take(s)
				if args == nil {
					continue
				}
				if s.Role == Master && i > 0 {
					got.WriteByte(',')
				}
				fmt.Fprintf(&got, " %s/%s", args[1], args[3])
				if want := []string{"--server_cpulist", args[1], "--bio_cpulist", args[3], "--bgsave_cpulist", args[3], "--aof_rewrite_cpulist", args[3]}; !slices.Equal(args, want) {
					t.Errorf("arguments = %v, want %v", args, want)
				}
			}
			if diff := cmp.Diff(tc.want, strings.TrimSpace(got.String())); diff != "" {
				t.Errorf("CPUs (-want +got):\n%s", diff)
			}
		})
	}
}
