package main

import (
	"context"

	"github.com/millrace/millrace/internal/fleet/plan"
)

type fleetPlan struct {
	Nodes      string `required:"" placeholder:"FILE" help:"A file with one machine a line, as HOST[:PORT] [NAME]; - for standard input."`
	Partitions int    `required:"" placeholder:"N" help:"How many partitions there are."`
	Copies     int    `default:"2" placeholder:"N" help:"How many members a partition has, with the master. Defaults to 2."`
}

func (*fleetPlan) Help() string {
	return `It asks no server. The file lists machines, one a line: an address, the port of the machine's first server behind a colon if that is not 7001, and a name if it is to have one; # begins a comment. The output is a file for fleet init: a partition a line, and in comments the ports of each machine.

A server uses one thread. Machines have enough to do with as many servers as threads: the partitions are then machines times threads, divided by copies. With twice as many the fleet can move to twice the machines without more partitions.

Examples:

    millrace fleet plan --nodes nodes.txt --partitions 6 > fleet.txt
    millrace fleet plan --nodes nodes.txt --partitions 24 --copies 3 --json`
}

func (c *fleetPlan) Run(ctx context.Context, a *app) error {
	name, text, err := a.readFile(ctx, c.Nodes)
	if err != nil {
		return err
	}
	machines, err := plan.ParseMachines(name, text)
	if err != nil {
		return err
	}
	p, err := plan.PlaceServers(machines, c.Partitions, c.Copies)
	if err != nil {
		return err
	}
	return a.show(p, p.Table, nil)
}
