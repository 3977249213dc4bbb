package main

import (
	"context"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/fleet/overview"
)

type fleetShow struct{ watchable }

func (*fleetShow) Help() string {
	return `It asks every member; one that does not answer within 2 seconds is down. A partition has two limits: its memory, and the one thread of its master; it shows which one is nearer. The thread's use is an average since the server started. An epoch is one more with each change of the map, or of a partition's master; what agents did and could not do comes last, newest first.

Examples:

    millrace fleet show
    millrace fleet show --json | jq -r '.partitions[].master.addr'`
}

func (*fleetShow) Run(ctx context.Context, a *app) error {
	return a.withFleet(ctx, func(f *fleet.Fleet) (any, table, error) {
		doc, err := overview.Read(ctx, f, a.logger())
		return doc, doc.Table, err
	})
}
