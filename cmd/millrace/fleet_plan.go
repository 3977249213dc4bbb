package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/alecthomas/kong"

	"github.com/millrace/millrace/internal/fleet/plan"
	"github.com/millrace/millrace/internal/readable"
)

type fleetPlan struct {
	Nodes      machines   `required:"" placeholder:"FILE" help:"The machines: how many there are, or a file with one a line, as HOST[:PORT] [NAME]; - for standard input. From a file it prints also where each server goes."`
	RAM        memorySize `name:"ram" required:"" placeholder:"SIZE" help:"The memory that a machine has for Redis, such as 96gb."`
	Threads    int        `required:"" placeholder:"N" help:"How many hardware threads a machine has for Redis."`
	UserBytes  memorySize `placeholder:"SIZE" help:"What a user, or whatever a tag is, needs at most, such as 200kb. Without it the plan counts no users."`
	Growth     float64    `placeholder:"FACTOR" help:"How many times the number of machines may grow without more partitions. Defaults to 1."`
	Copies     int        `placeholder:"N" help:"How many members a partition has, with the master. Defaults to 2."`
	Partitions int        `placeholder:"N" help:"How many partitions there are, if that is settled. Defaults to what threads and growth make."`
}

func (*fleetPlan) Help() string {
	return `It asks no server. A server uses one thread, so a machine runs as many as it has threads, times the growth that is wanted without adding partitions. Each may take its part of the memory, with one more part for the copy that a snapshot makes.

A file lists machines, one a line: an address, the port of the machine's first server behind a colon if that is not 7001, and a name if it is to have one; # begins a comment. Then the output is a file for fleet init: a partition a line, and in comments the sizes and the ports of each machine.

Examples:

    millrace fleet plan --nodes 14 --ram 96GB --threads 16 --user-bytes 200kb --growth 2
    millrace fleet plan --nodes nodes.txt --ram 96GB --threads 16 --growth 2 > fleet.txt
    millrace fleet plan --nodes 14 --ram 96GB --threads 16 --partitions 160 --json`
}

// machines is how many machines there are, or the file that lists them.
type machines struct {
	count int
	file  string
}

// Decode reads a number or a name; kong calls it.
func (m *machines) Decode(ctx *kong.DecodeContext) error { //nolint:unparam // kong calls it
	*m = machines{}
	arg := word(ctx)
	n, err := strconv.Atoi(arg)
	if err != nil {
		m.file = arg
	}
	m.count = n
	return nil
}

func (c *fleetPlan) Run(ctx context.Context, a *app) error {
	var machines []plan.Machine
	if c.Nodes.file != "" {
		name, text, err := a.readFile(ctx, c.Nodes.file)
		if err != nil {
			return err
		}
		if machines, err = plan.ParseMachines(name, text); err != nil {
			return err
		}
	}
	p, err := plan.Make(plan.Config{
		Nodes: cmp.Or(len(machines), c.Nodes.count), RAM: int64(c.RAM), Threads: c.Threads, UserBytes: int64(c.UserBytes),
		Growth: c.Growth, Copies: c.Copies, Partitions: c.Partitions,
	})
	if err != nil {
		return err
	}
	if machines == nil {
		return a.print(p, func(w io.Writer) { c.table(w, p) })
	}
	placed, err := plan.PlaceServers(machines, p.Partitions, p.Copies)
	if err != nil {
		return err
	}
	doc := struct {
		plan.Plan
		*plan.Placement
	}{p, placed}
	return a.print(doc, func(w io.Writer) { c.partitionsFile(w, p, placed) })
}

// partitionsFile writes a file for fleet init: partitions, below comments for people.
func (c *fleetPlan) partitionsFile(w io.Writer, p plan.Plan, placed *plan.Placement) {
	var comments strings.Builder
	columns := tabwriter.NewWriter(&comments, 0, 0, 2, ' ', 0)
	c.table(columns, p)
	fmt.Fprintf(columns, "\nStart these servers, each with maxmemory %d:\n\nNODE\tHOST\tPORTS\tSERVERS\tMASTERS\n", p.InstanceBytes)
	for _, m := range placed.Machines {
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
	for _, partition := range placed.Members {
		fmt.Fprintln(w, partition)
	}
}

// table writes the sizes.
func (c *fleetPlan) table(w io.Writer, p plan.Plan) {
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
	if c.UserBytes > 0 {
		row("users of a partition", readable.Number(p.UsersPerPartition), readable.Number(p.Grown.UsersPerPartition))
		row("users of the fleet", readable.Number(p.Users), readable.Number(p.Grown.Users))
	}
	fmt.Fprintf(w, "\nA machine's memory is cut into %s and one more, for what changes while one of them takes a snapshot.\n",
		readable.Count(p.InstancesPerNode, "part"))
	switch {
	case grows:
		fmt.Fprintf(w, "With up to %s the servers are spread over them, and no partition is added; beyond that, add partitions.\n", readable.Count(p.Grown.Nodes, "machine"))
	default:
		fmt.Fprintln(w, "More machines have no server to take over: to grow, add partitions, or plan with --growth 2.")
	}
	fmt.Fprintln(w, "A fleet sends new tags on from a partition that is 80% full, so that those it has can grow: plan with what a user needs at most.")
}
