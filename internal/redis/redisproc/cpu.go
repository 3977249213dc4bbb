package redisproc

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// CPUs returns the CPUs that a process may use, by its id or "self". It returns none on
// systems without /proc.
func CPUs(pid string) []int {
	status, err := os.ReadFile(filepath.Join("/proc", pid, "status"))
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(status)) {
		if list, ok := strings.CutPrefix(line, "Cpus_allowed_list:"); ok {
			return parseCPUs(strings.TrimSpace(list))
		}
	}
	return nil
}

// parseCPUs reads a list such as "0-3,8", in ascending order. It returns nil for
// anything else.
func parseCPUs(list string) []int {
	var cpus []int
	for part := range strings.SplitSeq(list, ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		first, err1 := strconv.Atoi(from)
		last, err2 := strconv.Atoi(to)
		if err1 != nil || err2 != nil {
			return nil
		}
		for cpu := first; cpu <= last; cpu++ {
			cpus = append(cpus, cpu)
		}
	}
	return cpus
}
