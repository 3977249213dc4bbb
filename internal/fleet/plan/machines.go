package plan

import (
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
)

// DefaultPort is the port of a machine's first server, unless its line has another one.
const DefaultPort = 7001

// Machine is a machine that runs servers of a fleet. Its JSON is a contract.
type Machine struct {
	Node      string `json:"node"`       // its name, the node of its members
	Host      string `json:"host"`       // its address or DNS name, for clients and agents
	FirstPort int    `json:"first_port"` // of its first server; the next ones follow
	Servers   int    `json:"servers"`    // that it runs
	Masters   int    `json:"masters"`    // how many of them are masters at first
}

// Placement says which servers machines run, and which of them are a partition. Its JSON is a contract.
type Placement struct {
	Machines []Machine `json:"machines"`

	// Members has for each partition HOST:PORT@NODE of the master, and behind commas that of
	// each replica.
	Members []string `json:"placement"`
}

// machineHint says how to list machines.
const machineHint = "Write one machine a line: its address, and a name if it is to have one: 10.0.0.1 a. Its servers take the ports from 7001 on, or from the one that follows the address: 10.0.0.1:6400 a."

// ParseMachines reads a file that lists machines, one a line:
//
//	HOST[:PORT] [NAME]    # comment
//
// PORT is that of its first server, DefaultPort by default; NAME defaults to HOST. An error
// is millrace.ErrBadArgument, and names the file and the line.
func ParseMachines(file, text string) ([]Machine, error) {
	var machines []Machine
	lines := map[string]int{} // of names
	err := Lines(file, text, func(number int, line string) error {
		m, err := parseMachine(line)
		if err != nil {
			return err
		}
		if before := lines[m.Node]; before > 0 {
			return refuse("A machine is one line, and each has a name of its own.", "the machine %q is in line %d already", m.Node, before)
		}
		lines[m.Node], machines = number, append(machines, m)
		return nil
	})
	if err == nil && len(machines) == 0 {
		err = refuse(machineHint, "%s lists no machine", file)
	}
	return machines, err
}

// hostName is a name in DNS, in /etc/hosts or of a container.
var hostName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?\.?$`)

func parseMachine(line string) (Machine, error) {
	words := strings.Fields(line)
	m := Machine{Host: strings.Trim(words[0], "[]"), FirstPort: DefaultPort}
	if host, port, err := net.SplitHostPort(words[0]); err == nil {
		number, err := strconv.ParseUint(port, 10, 16)
		if err != nil || number == 0 {
			return m, refuse(machineHint, "%q has no valid port", words[0])
		}
		m.Host, m.FirstPort = host, int(number)
	}
	_, err := netip.ParseAddr(m.Host)
	m.Node = m.Host
	if len(words) > 1 {
		m.Node = words[1]
	}
	switch {
	case err != nil && !hostName.MatchString(m.Host):
		return m, refuse(machineHint, "%q is no address of a machine", words[0])
	case len(words) > 2:
		return m, refuse(machineHint, "%q follows an address and a name", words[2])
	case strings.ContainsAny(m.Node, "@,"):
		return m, refuse(machineHint, "%q cannot be a name: it has a comma or an @", m.Node)
	}
	return m, nil
}

// PlaceServers places partitions on machines as Place does, and gives each server the next
// port of its machine. It returns millrace.ErrBadArgument where Place does, and if ports are
// too high or two servers would have one address.
func PlaceServers(machines []Machine, partitions, copies int) (*Placement, error) {
	p := &Placement{}
	var nodes []string
	at := map[string]*Machine{}
	for _, m := range machines {
		m.Servers, m.Masters = 0, 0
		nodes, p.Machines = append(nodes, m.Node), append(p.Machines, m)
	}
	for i := range p.Machines {
		at[nodes[i]] = &p.Machines[i]
	}
	placement, err := Place(nodes, partitions, copies)
	if err != nil {
		return nil, err
	}
	taken := map[string]string{} // the nodes of addresses
	for _, members := range placement {
		at[members[0]].Masters++
		for i, node := range members {
			m := at[node]
			addr := net.JoinHostPort(m.Host, strconv.Itoa(m.FirstPort+m.Servers))
			switch other := taken[addr]; {
			case m.FirstPort+m.Servers > 65535:
				return nil, refuse("Begin at a lower port, or use larger partitions.", "the servers of %s would need ports beyond 65535", node)
			case other != "":
				return nil, refuse("A machine is one line. Two on one host, to try something out, need ports that are further apart: 127.0.0.1:7001 a, 127.0.0.1:7101 b.",
					"the server at %s would be of %s and of %s", addr, other, node)
			}
			m.Servers++
			taken[addr], members[i] = node, addr+"@"+node
		}
		p.Members = append(p.Members, strings.Join(members, ","))
	}
	return p, nil
}
