package doctor

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestJudgeCPUs(t *testing.T) {
	t.Parallel()
	type findings = []Finding
	const ofItsOwn = "When one of them is busy the others wait: give each its own CPU with server_cpulist."
	const fewer = "Busy instances wait for each other: run one for each CPU, or more only until machines are added."
	tests := map[string]struct {
		allowed map[string][]int
		want    findings
	}{
		"one":        {map[string][]int{"a": {0}}, findings{ok("1 instance, 1 CPU that they may use").in("cpu")}},
		"apart":      {map[string][]int{"a": {0}, "b": {3}}, findings{ok("2 instances, 2 CPUs that they may use").in("cpu")}},
		"room":       {map[string][]int{"a": {0, 1, 2}, "b": {0, 1, 2}}, findings{ok("2 instances, 3 CPUs that they may use").in("cpu")}},
		"not pinned": {map[string][]int{"a": {0, 1}, "b": {0}}, findings{ok("2 instances, 2 CPUs that they may use").in("cpu")}},
		"same CPU": {
			map[string][]int{"a": {1}, "b": {1}, "c": {0, 1, 2}},
			findings{warning("shared_cpu", "CPU 1 is shared by a, b, which are pinned to it", ofItsOwn).in("cpu")},
		},
		"many": {
			map[string][]int{"a": {7}, "b": {7}, "c": {7}, "d": {7}, "e": {7}, "f": {7}},
			findings{
				warning("shared_cpu", "CPU 7 is shared by a, b, c, d and 2 more, which are pinned to it", ofItsOwn).in("cpu"),
				warning("few_cpus", "6 instances, 1 CPU that they may use", fewer).in("cpu"),
			},
		},
		"too many": {
			map[string][]int{"a": {0, 1}, "b": {0, 1}, "c": {0, 1}},
			findings{warning("few_cpus", "3 instances, 2 CPUs that they may use", fewer).in("cpu")},
		},
	}
	for name, test := range tests {
		if diff := cmp.Diff(test.want, judgeCPUs(test.allowed)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestCheckCPUsElsewhere(t *testing.T) {
	t.Parallel()
	// This process is no Redis, and no address of the documentation's is here.
	for _, i := range []process{{"127.0.0.1:1", ""}, {"127.0.0.1:1", "0"}, {"127.0.0.1:1", "self"}, {"192.0.2.1:1", "1"}, {"nowhere.invalid:1", "1"}} {
		if got := checkCPUs(t.Context(), []process{i}); got != nil {
			t.Errorf("checkCPUs of %+v = %+v, want nothing", i, got)
		}
	}
	for addr, want := range map[string]bool{"/run/redis.sock": true, "127.0.0.1:7": true, "[::1]:7": true, "192.0.2.1:7": false, "socket": false} {
		if got := isHere(t.Context(), addr); got != want {
			t.Errorf("isHere(%s) = %t, want %t", addr, got, want)
		}
	}
}
