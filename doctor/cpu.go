package doctor

import (
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/readable"
)

// A Redis does its work on one thread. Two of them on one CPU are each half as fast
// when both are busy, and nothing that a server says of itself shows it.

// instance is a server and what it says its process is.
type instance struct {
	addr string
	pid  string
}

// instancesOf returns the members of a fleet.
func instancesOf(s fleet.Status) []instance {
	var all []instance
	for _, p := range s.Partitions {
		for _, m := range append([]fleet.MemberStatus{p.Master}, p.Replicas...) {
			all = append(all, instance{m.Addr, strconv.Itoa(m.PID)})
		}
	}
	return all
}

// checkCPUs looks at those instances that run on this host. It says nothing where
// there are none, and where there is no /proc.
func checkCPUs(ctx context.Context, instances []instance) []Finding {
	allowed := make(map[string][]int) // CPUs by address
	for _, i := range instances {
		if !isHere(ctx, i.addr) {
			continue
		}
		if cpus := cpusOf(i.pid); len(cpus) > 0 {
			allowed[i.addr] = cpus
		}
	}
	if len(allowed) == 0 {
		return nil
	}
	return judgeCPUs(allowed)
}

// judgeCPUs says which instances have to share.
func judgeCPUs(allowed map[string][]int) []Finding {
	const check = "cpu"
	all := make(map[int]bool)
	pinned := make(map[int][]string)
	for _, addr := range slices.Sorted(maps.Keys(allowed)) {
		cpus := allowed[addr]
		for _, cpu := range cpus {
			all[cpu] = true
		}
		if len(cpus) == 1 {
			pinned[cpus[0]] = append(pinned[cpus[0]], addr)
		}
	}
	var findings []Finding
	for _, cpu := range slices.Sorted(maps.Keys(pinned)) {
		if addrs := pinned[cpu]; len(addrs) > 1 {
			findings = append(findings, Finding{
				check, Warn, fmt.Sprintf("CPU %d is shared by %s, which are pinned to it", cpu, someOf(addrs)),
				"When one of them is busy the others wait: give each a CPU of its own with server_cpulist.",
			})
		}
	}
	value := fmt.Sprintf("%s, %s that they may use", readable.Count(len(allowed), "instance"), readable.Count(len(all), "CPU"))
	switch {
	case len(allowed) > len(all):
		findings = append(findings, Finding{
			check, Warn, value,
			"Busy instances wait for each other: run as many as there are CPUs, or more only until machines are added.",
		})
	case len(findings) == 0:
		findings = append(findings, Finding{check, OK, value, ""})
	}
	return findings
}

// someOf lists a few names: "a, b and 3 more".
func someOf(names []string) string {
	const most = 4
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}

// isHere reports whether an address is one of this host.
func isHere(ctx context.Context, addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return filepath.IsAbs(addr) // a socket
	}
	ips, err := net.DefaultResolver.LookupIPAddr(ctx, host)
	if err != nil {
		return false
	}
	own, err := net.InterfaceAddrs()
	return err == nil && slices.ContainsFunc(own, func(a net.Addr) bool {
		network, ok := a.(*net.IPNet)
		return ok && slices.ContainsFunc(ips, func(ip net.IPAddr) bool {
			return network.IP.Equal(ip.IP) || network.IP.IsLoopback() && ip.IP.IsLoopback()
		})
	})
}

// cpusOf returns the CPUs that a process may use, if it is a Redis on this host.
// One in a container has another number there than here.
func cpusOf(pid string) []int {
	folder := filepath.Join("/proc", pid)
	name, err := os.ReadFile(filepath.Join(folder, "comm"))
	if pid == "" || err != nil || !strings.HasPrefix(string(name), "redis-") && !strings.HasPrefix(string(name), "valkey-") {
		return nil
	}
	status, err := os.ReadFile(filepath.Join(folder, "status"))
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

// parseCPUs reads a list such as "0-3,8"; nil if it is none.
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
