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
	"github.com/millrace/millrace/internal/redis/redisproc"
)

// A Redis works on one thread. Two of them on one CPU run at half speed when both are
// busy, and INFO does not show it.

// process is a server with the number of its process.
type process struct{ addr, pid string }

// processesOf returns those of a fleet's members.
func processesOf(s fleet.Status) []process {
	var all []process
	for _, p := range s.Partitions {
		for _, m := range append([]fleet.MemberStatus{p.Master}, p.Replicas...) {
			all = append(all, process{m.Addr, strconv.Itoa(m.PID)})
		}
	}
	return all
}

// checkCPUs checks the servers on this host. It returns nothing if there are none, or
// no /proc.
func checkCPUs(ctx context.Context, processes []process) []Finding {
	allowed := make(map[string][]int) // CPUs by address
	for _, p := range processes {
		if !isHere(ctx, p.addr) {
			continue
		}
		if cpus := cpusOf(p.pid); len(cpus) > 0 {
			allowed[p.addr] = cpus
		}
	}
	if len(allowed) == 0 {
		return nil
	}
	return judgeCPUs(allowed)
}

// judgeCPUs reports which servers share CPUs.
func judgeCPUs(allowed map[string][]int) []Finding {
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
			findings = append(findings, warning("shared_cpu",
				fmt.Sprintf("CPU %d is shared by %s, which are pinned to it", cpu, someOf(addrs)),
				"When one of them is busy the others wait: give each its own CPU with server_cpulist."))
		}
	}
	value := fmt.Sprintf("%s, %s that they may use", readable.Count(len(allowed), "instance"), readable.Count(len(all), "CPU"))
	switch {
	case len(allowed) > len(all):
		findings = append(findings, warning("few_cpus", value,
			"Busy instances wait for each other: run one for each CPU, or more only until machines are added."))
	case len(findings) == 0:
		findings = append(findings, ok(value))
	}
	return in("cpu", findings)
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

// cpusOf returns the CPUs that a process may use if it is a Redis on this host: the
// number is another one if the server runs in a container.
func cpusOf(pid string) []int {
	name, err := os.ReadFile(filepath.Join("/proc", pid, "comm"))
	if pid == "" || err != nil || !strings.HasPrefix(string(name), "redis-") && !strings.HasPrefix(string(name), "valkey-") {
		return nil
	}
	return redisproc.CPUs(pid)
}
