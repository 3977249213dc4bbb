package plan

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/millrace/millrace/internal/readable"
)

// Table writes the sizes for people, in columns that end in tabs. With a placement it writes a file
// for fleet init: a partition a line, below comments for people.
func (p Plan) Table(w io.Writer) {
	if p.Placement == nil {
		p.sizes(w)
		return
	}
	var comments strings.Builder
	columns := tabwriter.NewWriter(&comments, 0, 0, 2, ' ', 0)
	p.sizes(columns)
	fmt.Fprintf(columns, "\nStart these servers, each with maxmemory %d:\n\nNODE\tHOST\tPORTS\tSERVERS\tMASTERS\n", p.InstanceBytes)
	for _, m := range p.Machines {
		ports := "-"
		if m.Servers > 0 {
			ports = fmt.Sprintf("%d..%d", m.FirstPort, m.FirstPort+m.Servers-1)
		}
		fmt.Fprintf(columns, "%s\t%s\t%s\t%d\t%d\n", m.Node, m.Host, ports, m.Servers, m.Masters)
	}
	fmt.Fprint(columns, "\nThe partitions, for fleet init --file: the master, then replicas.\n")
	_ = columns.Flush() // to a string
	for line := range strings.Lines(comments.String()) {
		fmt.Fprintln(w, strings.TrimRight("# "+line, " \n"))
	}
	fmt.Fprintln(w, strings.Join(p.Members, "\n"))
}

// sizes writes how large everything is.
func (p Plan) sizes(w io.Writer) {
	fmt.Fprintf(w, "%s of %s: %s\n\n", readable.Count(p.Partitions, "partition"), readable.Count(p.Copies, "member"), readable.Count(p.Instances, "server"))
	grows := p.Grown.Nodes > p.Nodes
	row := func(name string, at, grown any) {
		fmt.Fprintf(w, "%s\t%v", name, at)
		if grows {
			fmt.Fprintf(w, "\t%v", grown)
		}
		fmt.Fprintln(w)
	}
	if grows {
		row("", "AT FIRST", "GROWN")
	}
	row("machines", p.Nodes, p.Grown.Nodes)
	row("servers on a machine, at most", p.InstancesPerNode, p.Grown.InstancesPerNode)
	row("maxmemory of a server", readable.Bytes(p.InstanceBytes), readable.Bytes(p.Grown.InstanceBytes))
	if p.Users > 0 {
		row("users of a partition", readable.Number(p.UsersPerPartition), readable.Number(p.Grown.UsersPerPartition))
		row("users of the fleet", readable.Number(p.Users), readable.Number(p.Grown.Users))
	}
	fmt.Fprintf(w, "\nA machine's memory is cut into %s and one more, for what changes while one of them takes a snapshot.\n",
		readable.Count(p.InstancesPerNode, "part"))
	if grows {
		fmt.Fprintf(w, "With up to %s the servers are spread over them, and no partition is added; beyond that, add partitions.\n", readable.Count(p.Grown.Nodes, "machine"))
	} else {
		fmt.Fprintln(w, "More machines have no server to take over: to grow, add partitions, or plan with --growth 2.")
	}
	fmt.Fprintln(w, "A fleet sends new tags on from a partition that is 80% full, so that those it has can grow: plan with what a user needs at most.")
}
