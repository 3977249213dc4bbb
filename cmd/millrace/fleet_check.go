package main

import (
	"context"
	"time"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/fleet/check"
)

type fleetCheck struct {
	watchable
	All            bool          `help:"Look up all tags, with one pass over the keys of all partitions, instead of a sample."`
	Sample         int           `placeholder:"N" help:"How many tags to look up. Defaults to 1000; 0 looks up none." default:"1000"`
	MaxSnapshotAge time.Duration `placeholder:"DURATION" help:"From which age a snapshot is too old. Defaults to 24h."`
}

func (*fleetCheck) Help() string {
	return `It asks all members and the servers of the directory what they say about themselves, compares that with what a fleet assumes, and looks up where tags are. It writes nothing. A server that does not answer within 2 seconds is a note of its checks. Exits with 1 when a finding is critical; warnings and notes do not count.

With --all it reads the names of all keys of all masters, and works at most half of the time: about two seconds for a million keys of a partition, or more. Progress goes to standard error.

Run it as the user of agents, where servers have users: others may not read settings.

Examples:

    millrace fleet check --all
    millrace fleet check --json | jq -r '.findings[] | select(.severity == "critical") | .advice'`
}

func (c *fleetCheck) Run(ctx context.Context, a *app) error {
	if c.Sample < 0 || c.MaxSnapshotAge < 0 {
		return errUsage.Errorf("--sample and --max-snapshot-age must not be negative")
	}
	log := a.paced(scanInterval)
	cfg := check.Config{All: c.All, Sample: c.Sample, MaxSnapshotAge: c.MaxSnapshotAge, Progress: func(visited, keys int64) {
		log("looking tags up", "visited", visited, "keys", keys)
	}}
	return a.withFleet(ctx, func(f *fleet.Fleet) (any, table, error) {
		found, err := check.Run(ctx, f, cfg)
		if err != nil {
			return nil, nil, err
		}
		doc := check.NewReport(found)
		if !doc.OK {
			return doc, doc.Table, besides{errPrinted}
		}
		return doc, doc.Table, nil
	})
}
