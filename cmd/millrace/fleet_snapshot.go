package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/snapshot"
	"github.com/millrace/millrace/internal/readable"
)

type fleetSnapshot struct {
	Partitions []int  `arg:"" optional:"" name:"partition" help:"Numbers of partitions. Defaults to all."`
	Now        bool   `help:"Take one of each, whatever the age of the newest, and wait until all are done."`
	Archive    string `placeholder:"DIR" help:"The folder to which new snapshots are fetched. Needs --now. Defaults to leaving them with the members."`
	Keep       int    `placeholder:"N" help:"How many snapshots of each partition the archive keeps. Defaults to 7."`
}

// Help shows examples.
func (*fleetSnapshot) Help() string {
	return `Without --now it says how old the newest snapshot of each partition is, whoever took it, and what failed. With --now it has a member of each write its data to its disk, a replica if there is one: one at a time on a node, also beside agents that do the same; each that is done goes to standard error.

One that fails does not keep it from the others, and makes it exit with 1.

Examples:

    millrace fleet snapshot
    millrace fleet snapshot --now
    millrace fleet snapshot 3 7 --now --archive /mnt/backup/redis`
}

// snapshotsDoc tells of the snapshots of partitions, each of them, also those that
// have none.
type snapshotsDoc struct {
	Snapshots []snapshotDoc `json:"snapshots"`
}

// Run shows ages, and takes snapshots before if it is asked to.
func (c *fleetSnapshot) Run(ctx context.Context, a *app) error {
	switch {
	case !c.Now && (c.Archive != "" || c.Keep != 0):
		return errUsage.Errorf("--archive and --keep are for new snapshots: take them with --now")
	case c.Keep < 0, c.Keep > 0 && c.Archive == "":
		return errUsage.Errorf("--keep is how many snapshots of each partition --archive keeps, from 1 on")
	}
	if err := checkArchive(c.Archive); err != nil {
		return err
	}
	return a.withMap(ctx, func(dir *directory.Redis, option rueidis.ClientOption, m *directory.Map) error {
		for _, id := range c.Partitions {
			if id < 0 || id >= len(m.Partitions) {
				return errNoPartition.Errorf("there is no partition %d: the fleet has %d, from 0 on", id, len(m.Partitions))
			}
		}
		var failed error
		if c.Now {
			failed = c.take(ctx, dir, option, a.logger())
		}
		ages, err := snapshot.Look(context.WithoutCancel(ctx), dir)
		if err != nil {
			return errors.Join(failed, err)
		}
		return errors.Join(c.print(a, ages), failed)
	})
}

// take takes a snapshot of each partition, and returns what went wrong.
func (c *fleetSnapshot) take(ctx context.Context, dir *directory.Redis, option rueidis.ClientOption, log *slog.Logger) error {
	keeper := snapshot.New(dir, snapshot.Config{Archive: c.Archive, Keep: c.Keep, Option: option, Logger: log})
	var failed []error
	for s, err := range keeper.Now(ctx, c.Partitions...) {
		switch {
		case err == nil:
			log.InfoContext(ctx, "saved", "partition", s.Partition, "addr", s.Saved.Addr, "took", s.Saved.Took.Round(time.Millisecond), "file", s.Archived.File)
		case s == directory.Snapshot{}:
			return err
		default:
			failed = append(failed, err) // and the keeper has told
		}
	}
	if len(failed) == 0 {
		return nil
	}
	said, ok := errors.AsType[*millrace.Error](failed[0])
	if !ok {
		return failed[0]
	}
	return said.Errorf("%s not saved: %s", readable.Count(len(failed), "partition"), said.Message)
}

// print prints the ages of the partitions that are meant.
func (c *fleetSnapshot) print(a *app, ages snapshot.Ages) error {
	doc := snapshotsDoc{Snapshots: []snapshotDoc{}}
	known := newSnapshotDocs(ages)
	for _, p := range ages.Partitions {
		if len(c.Partitions) > 0 && !slices.Contains(c.Partitions, p.Partition) {
			continue
		}
		doc.Snapshots = append(doc.Snapshots, snapshotOf(known, p.Partition))
	}
	return a.print(doc, func(w io.Writer) {
		fmt.Fprintln(w, "PARTITION\tAGE\tTOOK\tON\tARCHIVED\tFILE")
		for _, s := range doc.Snapshots {
			age, _ := s.cells()
			var took, on, archived, file string
			if s.Saved != nil {
				took, on = (time.Duration(s.Saved.Took) * time.Millisecond).String(), s.Saved.Addr
			}
			if s.Archived != nil {
				archived, file = ageOf(s.Archived.Age), s.Archived.File
			}
			fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\n", s.Partition, age, took, on, archived, file)
		}
		drawFailures(w, doc.Snapshots)
	})
}
