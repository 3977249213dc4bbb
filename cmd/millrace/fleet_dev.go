package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"strconv"
	"time"

	"github.com/millrace/millrace/fleet/agent"
	"github.com/millrace/millrace/internal/devfleet"
	"github.com/millrace/millrace/internal/fleet/beside"
	"github.com/millrace/millrace/internal/fleet/open"
	"github.com/millrace/millrace/internal/fleet/plan"
)

type fleetDev struct {
	Nodes        int           `default:"3" placeholder:"N" help:"How many machines to play. Defaults to 3."`
	Partitions   int           `default:"4" placeholder:"N" help:"How many partitions. Defaults to 4."`
	Replicas     int           `default:"1" placeholder:"N" help:"How many replicas a partition has. Defaults to 1."`
	Dir          string        `placeholder:"DIR" help:"The folder to work in, which stays. Defaults to a temporary one, which goes."`
	MaxMemory    plan.Bytes    `placeholder:"SIZE" help:"The memory limit of each server, such as 64mb. Defaults to none."`
	RestartAfter time.Duration `default:"5s" placeholder:"DURATION" help:"How long after its death a server is restarted, without its data; 0 for never. Defaults to 5s."`
}

func (*fleetDev) Help() string {
	return `It starts real servers on this machine, one for each member, a directory and an agent; nodes are only names. It runs until it is interrupted (Ctrl-C, SIGTERM), and then ends its servers and deletes their data.

Cause accidents with lines on standard input: kill, freeze, resume or restart, with the address of a server, or the number of a partition for its present master. servers lists the servers, and help lists the commands.

Examples:

    millrace fleet dev --dir ./fleet
    (sleep 10; echo kill 0; sleep 20) | millrace fleet dev`
}

func (c *fleetDev) Run(ctx context.Context, a *app) error {
	switch {
	case c.Nodes < 1 || c.Partitions < 1:
		return errUsage.Errorf("a fleet needs at least one partition and one node, not %d and %d", c.Partitions, c.Nodes)
	case c.Replicas < 0:
		return errUsage.Errorf("a partition cannot have %d replicas", c.Replicas)
	case c.RestartAfter < 0:
		return errUsage.Errorf("--restart-after cannot be %s", c.RestartAfter)
	}
	servers, err := devfleet.Start(ctx, devfleet.Config{
		Nodes: c.Nodes, Partitions: c.Partitions, Replicas: cmp.Or(c.Replicas, devfleet.NoReplicas), Dir: c.Dir,
		MaxMemory: strconv.FormatInt(int64(c.MaxMemory), 10), RestartAfter: c.RestartAfter, Logger: a.logger(),
	})
	if err != nil {
		return err
	}
	return errors.Join(c.serve(ctx, a, servers), servers.Stop())
}

// serve runs an agent, and carries out lines of standard input, until it is interrupted.
func (*fleetDev) serve(ctx context.Context, a *app, servers *devfleet.Fleet) error {
	dir, option, err := open.Directory(ctx, servers.URL())
	if err != nil {
		return err
	}
	defer dir.Close()
	doc := struct {
		Ready     bool   `json:"ready"`
		Directory string `json:"directory"`
	}{true, servers.URL()}
	if err := a.print(doc, func(w io.Writer) { servers.Welcome(ctx, w) }); err != nil {
		return err
	}
	defer beside.Agent(dir, option, agent.Config{Interval: 250 * time.Millisecond, Logger: a.logger()})(ctx)()
	neverStopForInput()
	servers.Console(ctx, a.stdin, func(doc any, table func(io.Writer), err error) {
		if err := a.show(doc, table, err); err != nil && ctx.Err() == nil {
			a.fail(err, "help")
		}
	})
	return nil
}
