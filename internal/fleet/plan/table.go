package plan

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/millrace/millrace/internal/readable"
)

// Table writes a file for fleet init: a partition a line, below comments for people.
func (p *Placement) Table(w io.Writer) {
	servers := 0
	for _, m := range p.Machines {
		servers += m.Servers
	}
	var comments strings.Builder
	columns := tabwriter.NewWriter(&comments, 0, 0, 2, ' ', 0)
	fmt.Fprintf(columns, "%s of %s. Start these servers. The maxmemory of each is its machine's memory for Redis,\n", readable.Count(len(p.Members), "partition"), readable.Count(servers/len(p.Members), "member"))
	fmt.Fprint(columns, "divided by one more than the machine has servers: for what changes while one of them takes a snapshot.\n\nNODE\tHOST\tPORTS\tSERVERS\tMASTERS\n")
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
