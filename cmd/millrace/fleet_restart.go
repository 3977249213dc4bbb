package main

import (
	"context"

	"github.com/millrace/millrace/internal/fleet/membership"
)

type fleetRestart struct {
	Node []string `placeholder:"NODE" help:"Restart only the members on this node. May be repeated. Defaults to all."`
	consent
}

func (*fleetRestart) Help() string {
	return `Members are shut down one at a time in the whole fleet, and their supervisors start them again, perhaps as another version. Each has all data again before the next one goes. Replicas go first; a master is switched before its turn, and nothing is lost. Writers that wait for a replica have to wait while a partition's only one is away.

A command that was cut off has lost nothing: agents go on, and the same command waits for the rest. When all is done, the same command restarts all once more.

Examples:

    millrace fleet restart
    millrace fleet restart --node a --yes`
}

func (c *fleetRestart) Run(ctx context.Context, a *app) error {
	return a.changeMembers(ctx, membership.Restart{Nodes: c.Node}, c.consent, 0)
}
