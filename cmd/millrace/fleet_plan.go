package main

import (
	"fmt"
	"io"

	"github.com/alecthomas/kong"

	"github.com/millrace/millrace/internal/fleet/plan"
	"github.com/millrace/millrace/internal/readable"
)

// memorySize is an amount of memory on a command line: 96gb, 200kb, 1024.
type memorySize int64

// Decode reads one; kong calls it.
func (m *memorySize) Decode(ctx *kong.DecodeContext) error {
	arg, _ := ctx.Scan.Pop().Value.(string)
	n, err := plan.ParseBytes(arg)
	*m = memorySize(n)
	return err
}

type fleetPlan struct {
	Nodes      int        `required:"" placeholder:"N" help:"How many machines there are."`
	RAM        memorySize `name:"ram" required:"" placeholder:"SIZE" help:"The memory that a machine has for Redis, such as 96gb."`
	Threads    int        `required:"" placeholder:"N" help:"How many hardware threads a machine has for Redis."`
	UserBytes  memorySize `placeholder:"SIZE" help:"What a user, or whatever a tag is, needs at most, such as 200kb. Without it the plan counts no users."`
	Growth     float64    `placeholder:"FACTOR" help:"How many times the number of machines may grow without more partitions. Defaults to 1."`
	Copies     int        `placeholder:"N" help:"How many members a partition has, with the master. Defaults to 2."`
	Partitions int        `placeholder:"N" help:"How many partitions there are, if that is settled. Defaults to what threads and growth make."`
}

// Help shows examples.
func (*fleetPlan) Help() string {
	return `It asks no server. A server uses one thread, so a machine runs as many as it has threads, times the growth that is wanted without adding partitions. Each may take its part of the memory, with one more part for the copy that a snapshot makes.

Examples:

    millrace fleet plan --nodes 14 --ram 96GB --threads 16 --user-bytes 200kb --growth 2
    millrace fleet plan --nodes 14 --ram 96GB --threads 16 --partitions 160 --json`
}

// Run plans.
func (c *fleetPlan) Run(a *app) error {
	p, err := plan.Make(plan.Config{
		Nodes: c.Nodes, RAM: int64(c.RAM), Threads: c.Threads, UserBytes: int64(c.UserBytes),
		Growth: c.Growth, Copies: c.Copies, Partitions: c.Partitions,
	})
	if err != nil {
		return err
	}
	return a.print(p, func(w io.Writer) { c.table(w, p) })
}

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
