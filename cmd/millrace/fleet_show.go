package main

import (
	"context"
	"fmt"
	"io"

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
	return a.withFleet(ctx, func(f *fleet.Fleet) (any, table, error) { return a.showFleet(ctx, f, "") })
}

// showFleet prints the state of a fleet below a title.
func (a *app) showFleet(ctx context.Context, f *fleet.Fleet, title string) (any, table, error) {
	doc, err := a.readFleet(ctx, f)
	return doc, func(w io.Writer) {
		fmt.Fprint(w, title)
		doc.Table(w)
	}, err
}

// readFleet reads the state of all members, and what the directory knows about agents and
// snapshots unless it does not answer.
func (a *app) readFleet(ctx context.Context, f *fleet.Fleet) (overview.Fleet, error) {
	doc, unread, err := overview.Read(ctx, f)
	if unread != nil {
		a.logger().WarnContext(ctx, "cannot read from the directory what agents did", "error", overview.OneLine(unread))
	}
	return doc, err
}
