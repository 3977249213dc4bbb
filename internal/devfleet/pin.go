package devfleet

import "strconv"

// pins gives servers their CPUs. A nil *pins gives none.
type pins struct {
	sets    map[string][]int // the CPUs of a node, two or more
	masters map[int]int      // their number by CPU
	servers map[int]int
}

// newPins returns nil if there are fewer than two CPUs. Nodes have CPUs of their own if
// there are two for each, and share all of them otherwise.
func newPins(cpus []int, nodes []string) *pins {
	if len(cpus) < 2 {
		return nil
	}
	p := &pins{sets: map[string][]int{}, masters: map[int]int{}, servers: map[int]int{}}
	for i, node := range nodes {
		p.sets[node] = cpus
		if n := len(cpus); n >= 2*len(nodes) {
			p.sets[node] = cpus[i*n/len(nodes) : (i+1)*n/len(nodes)]
		}
	}
	return p
}

// take returns the arguments that tie a server to the CPU of its node with the fewest
// masters, or the fewest servers for a replica, and its background work to the next CPU.
func (p *pins) take(s Server) []string {
	if p == nil {
		return nil
	}
	load := func(cpu int) int {
		const more = 1 << 16 // than there are servers
		if s.Role == Master {
			return p.masters[cpu]*more + p.servers[cpu]
		}
		return p.servers[cpu]*more + p.masters[cpu]
	}
	set, best := p.sets[s.Node], 0
	for i := range set {
		if load(set[i]) < load(set[best]) {
			best = i
		}
	}
	cpu, background := set[best], strconv.Itoa(set[(best+1)%len(set)])
	p.servers[cpu]++
	if s.Role == Master {
		p.masters[cpu]++
	}
	return []string{
		"--server_cpulist", strconv.Itoa(cpu),
		"--bio_cpulist", background,
		"--bgsave_cpulist", background,
		"--aof_rewrite_cpulist", background,
	}
}
