package main

import (
	"context"
	"strconv"

	"github.com/millrace/millrace/internal/fleet/plan"
)

type fleetPlan struct {
	Nodes      string     `required:"" placeholder:"FILE" help:"The machines: how many there are, or a file with one a line, as HOST[:PORT] [NAME]; - for standard input. From a file it prints also where each server goes."`
	RAM        plan.Bytes `name:"ram" required:"" placeholder:"SIZE" help:"The memory that a machine has for Redis, such as 96gb."`
	Threads    int        `required:"" placeholder:"N" help:"How many hardware threads a machine has for Redis."`
	UserBytes  plan.Bytes `placeholder:"SIZE" help:"What a user, or whatever a tag is, needs at most, such as 200kb. Without it the plan counts no users."`
	Growth     float64    `placeholder:"FACTOR" help:"How many times the number of machines may grow without more partitions. Defaults to 1."`
	Copies     int        `placeholder:"N" help:"How many members a partition has, with the master. Defaults to 2."`
	Partitions int        `placeholder:"N" help:"How many partitions there are, if that is settled. Defaults to what threads and growth make."`
}

func (*fleetPlan) Help() string {
	return `It asks no server. A server uses one thread, so a machine runs as many as it has threads, times the growth that is wanted without adding partitions. Each may take its part of the memory, with one more part for the copy that a snapshot makes.

A file lists machines, one a line: an address, the port of the machine's first server behind a colon if that is not 7001, and a name if it is to have one; # begins a comment. Then the output is a file for fleet init: a partition a line, and in comments the sizes and the ports of each machine.

Examples:

    millrace fleet plan --nodes 14 --ram 96GB --threads 16 --user-bytes 200kb --growth 2
    millrace fleet plan --nodes nodes.txt --ram 96GB --threads 16 > fleet.txt`
}

func (c *fleetPlan) Run(ctx context.Context, a *app) error {
	cfg := plan.Config{
		RAM: int64(c.RAM), Threads: c.Threads, UserBytes: int64(c.UserBytes), Growth: c.Growth, Copies: c.Copies, Partitions: c.Partitions,
	}
	var err error
	if cfg.Nodes, err = strconv.Atoi(c.Nodes); err != nil {
		name, text, err := a.readFile(ctx, c.Nodes)
		if err != nil {
			return err
		}
		if cfg.Machines, err = plan.ParseMachines(name, text); err != nil {
			return err
		}
	}
	p, err := plan.Make(cfg)
	return a.show(p, p.Table, err)
}
