package main

import (
	"context"
	"time"

	"github.com/millrace/millrace/fleet/agent"
	"github.com/millrace/millrace/internal/readable"
)

type fleetAgent struct {
	Every          time.Duration `default:"500ms" placeholder:"DURATION" help:"How often to check each member. Three failed checks make a master lost. Defaults to 500ms."`
	SnapshotsEvery time.Duration `placeholder:"DURATION" help:"How old a partition's snapshot may become before the next one is taken. Defaults to taking none."`
	archiveFlags
}

func (*fleetAgent) Help() string {
	return `It replaces masters that are lost, makes members that are back replicas again, finishes what was cut off (fleet rebalance, fleet add), marks what a restored partition has lost (fleet set restored-ick NAME), and runs until it is interrupted (Ctrl-C, SIGTERM). It logs to standard error and to the fleet's log, which fleet show prints. Run several, on different machines: one leads, and another one takes over within seconds when the leader ends. They need no disk.

With --snapshots-every it has members write their data to their disks, one at a time on a node and the oldest snapshot first; with --archive it fetches them. Give all agents the same folder, or archive with one: each file is in one folder.

Examples:

    millrace fleet agent --redis fleet://10.0.0.1:7000
    millrace fleet agent --snapshots-every 1h --archive /mnt/backup/redis --keep 24`
}

// watchedDoc is the first output of an agent.
type watchedDoc struct {
	Ready      bool  `json:"ready"`
	Epoch      int64 `json:"epoch"`
	Partitions int   `json:"partitions"`
	Members    int   `json:"members"`
}

func (c *fleetAgent) Run(ctx context.Context, a *app) error {
	switch {
	case c.Every <= 0:
		return errUsage.Errorf("members cannot be checked every %s", c.Every)
	case c.SnapshotsEvery < 0:
		return errUsage.Errorf("snapshots cannot be taken every %s", c.SnapshotsEvery)
	}
	if err := c.check(c.SnapshotsEvery > 0, "snapshots: set the interval with --snapshots-every"); err != nil {
		return err
	}
	return a.withMap(ctx, func(f *fleetAt) (any, table, error) {
		doc := watchedDoc{Ready: true, Epoch: f.m.Epoch, Partitions: len(f.m.Partitions)}
		for _, p := range f.m.Partitions {
			doc.Members += len(p.Members())
		}
		if err := a.print(doc, says("watching %s, %s, until this command is interrupted", readable.Count(doc.Partitions, "partition"), readable.Count(doc.Members, "server"))); err != nil {
			return nil, nil, err
		}
		err := agent.Run(ctx, agent.Config{Fleet: f.Fleet, Interval: c.Every, SnapshotInterval: c.SnapshotsEvery, Archive: c.Archive, Keep: c.Keep, Logger: a.logger()})
		if ctx.Err() != nil {
			return nil, nil, nil //nolint:nilerr // it was interrupted, as it is to end
		}
		return nil, nil, err
	})
}
