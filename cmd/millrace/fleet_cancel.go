package main

import (
	"context"

	"github.com/millrace/millrace/internal/fleet/membership"
)

type fleetCancel struct {
	Plan string `arg:"" help:"The plan of a change, as fleet show has it."`
	consent
}

func (*fleetCancel) Help() string {
	return `It drops what is left of a change of members (fleet replica, fleet node, fleet restart), for instance because a new server has died and will never join. What has been done stays: a server that has joined is a replica, and a member that is leaving leaves. Then the change can be made again, with other servers.

Examples:

    millrace fleet cancel replace-6vzk4qbv
    millrace fleet cancel restart-hlhgbmfa --yes`
}

func (c *fleetCancel) Run(ctx context.Context, a *app) error {
	return a.changeMembers(ctx, membership.Cancel{Plan: c.Plan}, c.consent, 0)
}
