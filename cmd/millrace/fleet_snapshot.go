package main

import (
	"context"
	"errors"
	"os"

	"github.com/millrace/millrace/internal/fleet/overview"
	"github.com/millrace/millrace/internal/fleet/snapshot"
)

// archiveFlags are the flags of commands that take snapshots.
type archiveFlags struct {
	Archive string `placeholder:"DIR" help:"The folder to which new snapshots are fetched, such as a network mount. Defaults to leaving them with the members."`
	Keep    int    `placeholder:"N" help:"How many snapshots of each partition the archive keeps. Defaults to 7."`
}

// check refuses a folder that does not exist, a number without one, and both for no snapshots.
func (f archiveFlags) check(snapshots bool, how string) error {
	info, err := os.Stat(f.Archive)
	switch {
	case !snapshots && (f.Archive != "" || f.Keep != 0):
		return errUsage.Errorf("--archive and --keep are for %s", how)
	case f.Keep < 0 || f.Keep > 0 && f.Archive == "":
		return errUsage.Errorf("--keep is how many snapshots of each partition --archive keeps, from 1 on")
	case f.Archive != "" && (err != nil || !info.IsDir()):
		return errUsage.Errorf("--archive %s: there is no such folder", f.Archive)
	}
	return nil
}

type fleetSnapshot struct {
	Partitions []int `arg:"" optional:"" name:"partition" help:"Numbers of partitions. Defaults to all."`
	Now        bool  `help:"Take one of each, whatever the age of the newest, and wait until all are done."`
	archiveFlags
}

func (*fleetSnapshot) Help() string {
	return `Without --now it shows the age of the newest snapshot of each partition, and what failed. With --now it has a member of each write its data to its disk, a replica if there is one: one at a time on a node, also beside agents that do the same; each that is done goes to standard error.

One that fails does not keep it from the others, and makes it exit with 1.

Examples:

    millrace fleet snapshot
    millrace fleet snapshot 3 7 --now --archive /mnt/backup/redis`
}

// Run takes snapshots with --now, and shows ages.
func (c *fleetSnapshot) Run(ctx context.Context, a *app) error {
	if err := c.check(c.Now, "new snapshots: take them with --now"); err != nil {
		return err
	}
	return a.withMap(ctx, func(f *fleetAt) (any, table, error) {
		var failed error
		if c.Now {
			cfg := snapshot.Config{Archive: c.Archive, Keep: c.Keep, Option: f.option, Logger: a.logger()}
			failed = snapshot.New(f.dir, cfg).All(ctx, c.Partitions...)
		}
		ages, err := snapshot.Read(context.WithoutCancel(ctx), f.dir)
		if err != nil {
			return nil, nil, errors.Join(failed, err)
		}
		doc := overview.SnapshotsOf(ages, c.Partitions...)
		return doc, doc.Table, besides{failed}
	}, c.Partitions...)
}
