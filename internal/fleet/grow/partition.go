package grow

import (
	"strconv"
	"strings"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/plan"
)

// Partition lists the servers of a new partition.
type Partition struct {
	Master   directory.Member
	Replicas []directory.Member

	// Weight is the number of its points on the ring: weight 2 takes twice as many tags.
	// Defaults to 1.
	Weight int
}

func (n *Partition) members() []directory.Member {
	return append([]directory.Member{n.Master}, n.Replicas...)
}

var errSpec = millrace.ErrBadArgument.WithHint(
	"Write HOST:PORT[@NODE] for the master, the same for each replica behind a comma, and weight=N at the end for more than one share: 10.0.0.1:7001@a,10.0.0.2:7001@b,weight=2")

// UnmarshalText reads a partition as operators write it: HOST:PORT[@NODE] of the master, that of each replica,
// and perhaps weight=N, with commas between them.
func (n *Partition) UnmarshalText(text []byte) error {
	*n = Partition{}
	for i, part := range strings.Split(string(text), ",") {
		if weight, ok := strings.CutPrefix(part, "weight="); ok && i > 0 {
			number, err := strconv.Atoi(weight)
			if err != nil || number < 1 || n.Weight != 0 {
				return errSpec.Errorf("partition %q has no weight: %q", text, part)
			}
			n.Weight = number
			continue
		}
		m, err := directory.ParseMember(part)
		switch {
		case err != nil:
			return errSpec.Errorf("partition %q: %s", text, err)
		case i == 0:
			n.Master = m
		default:
			n.Replicas = append(n.Replicas, m)
		}
	}
	return nil
}

// ParseFile reads a file with one partition a line, as plan.Placement.Table writes it. No server and, in a
// partition, no node may be named twice. An error is millrace.ErrBadArgument, and names the line.
func ParseFile(name, text string) ([]Partition, error) {
	errTwice := millrace.ErrBadArgument.WithHint("Name each server once, and in a partition each node once.")
	var list []Partition
	lines := map[string]int{} // of addresses
	err := plan.Lines(name, text, func(number int, line string) error {
		var n Partition
		if strings.ContainsAny(line, " \t") {
			return errSpec.Errorf("white space in partition %q", line)
		}
		if err := n.UnmarshalText([]byte(line)); err != nil {
			return err
		}
		nodes := map[string]bool{}
		for _, m := range n.members() {
			switch before, twice := lines[m.Addr]; {
			case twice:
				return errTwice.Errorf("the server at %s is in line %d already", m.Addr, before)
			case m.Node != "" && nodes[m.Node]:
				return errTwice.Errorf("two members of the partition are on node %s, and would be lost with it", m.Node)
			}
			lines[m.Addr], nodes[m.Node] = number, true
		}
		list = append(list, n)
		return nil
	})
	if err == nil && len(list) == 0 {
		err = errSpec.Errorf("%s lists no partition", name).
			WithHint("Have it printed: millrace fleet plan --nodes nodes.txt --partitions 6 > fleet.txt")
	}
	return list, err
}
