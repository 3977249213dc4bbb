package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fleet/agent"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/failover"
	"github.com/millrace/millrace/internal/fleet/overview"
	"github.com/millrace/millrace/internal/fleet/snapshot"
	"github.com/millrace/millrace/internal/readable"
)

type fleetAgent struct {
	Every          time.Duration `default:"500ms" placeholder:"DURATION" help:"How often to check each member. Three failed checks make a master lost. Defaults to 500ms."`
	SnapshotsEvery time.Duration `placeholder:"DURATION" help:"How old a partition's snapshot may become before the next one is taken. Defaults to taking none."`
	archiveFlags
}

// archiveFlags are the flags of commands that take snapshots.
type archiveFlags struct {
	Archive string `placeholder:"DIR" help:"The folder to which new snapshots are fetched, such as a network mount. Defaults to leaving them with the members."`
	Keep    int    `placeholder:"N" help:"How many snapshots of each partition the archive keeps. Defaults to 7."`
}

// check refuses a folder that does not exist, and a number without one.
func (f archiveFlags) check() error {
	if f.Keep < 0 || f.Keep > 0 && f.Archive == "" {
		return errUsage.Errorf("--keep is how many snapshots of each partition --archive keeps, from 1 on")
	}
	return checkArchive(f.Archive)
}

// checkArchive refuses a folder that does not exist.
func checkArchive(dir string) error {
	if info, err := os.Stat(dir); dir != "" && (err != nil || !info.IsDir()) {
		return errUsage.Errorf("--archive %s: there is no such folder", dir)
	}
	return nil
}

func (*fleetAgent) Help() string {
	return `It replaces masters that are lost, makes members that are back replicas again, finishes what was cut off (fleet rebalance, fleet add), marks what a restored partition has lost (fleet set restored-ick NAME), and runs until it is interrupted (Ctrl-C, SIGTERM). It logs to standard error and to the fleet's log, which fleet show prints.

Run several, on different machines: one leads, and another one takes over within seconds when the leader ends. Agents need no disk. The fleet serves without agents, but a lost master is then not replaced.

With --snapshots-every it has members write their data to their disks, one at a time on a node and the oldest snapshot first; with --archive it fetches them. Give all agents the same folder, or archive with one: each file is in one folder.

With --json it prints one line when it has found the fleet: {"ready":true,"epoch":1,"partitions":4,"members":8}.

Examples:

    millrace fleet agent --redis fleet://10.0.0.1:7000
    millrace fleet agent --every 200ms --json
    millrace fleet agent --snapshots-every 1h --archive /mnt/backup/redis --keep 24`
}

// watchedDoc is what an agent prints when it begins.
type watchedDoc struct {
	Ready      bool  `json:"ready"`
	Epoch      int64 `json:"epoch"`
	Partitions int   `json:"partitions"`
	Members    int   `json:"members"`
}

func (c *fleetAgent) Run(ctx context.Context, a *app) error {
	if err := c.check(); err != nil {
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
		return nil, nil, untilEnd(ctx, agent.Run(ctx, agent.Config{
			Fleet: f.Fleet, Interval: c.Every, SnapshotInterval: c.SnapshotsEvery, Archive: c.Archive, Keep: c.Keep, Logger: a.logger(),
		}))
	})
}

func (c *fleetAgent) check() error {
	switch {
	case c.Every <= 0:
		return errUsage.Errorf("members cannot be checked every %s", c.Every)
	case c.SnapshotsEvery < 0:
		return errUsage.Errorf("snapshots cannot be taken every %s", c.SnapshotsEvery)
	case c.SnapshotsEvery == 0 && (c.Archive != "" || c.Keep != 0):
		return errUsage.Errorf("--archive and --keep are for snapshots: set the interval with --snapshots-every")
	}
	return c.archiveFlags.check()
}

type fleetFailover struct {
	Partition int    `arg:"" help:"The number of a partition."`
	To        string `placeholder:"HOST:PORT" help:"The replica that is to be the master. Defaults to any that is in step."`
}

func (*fleetFailover) Help() string {
	return `Use it before a machine goes down: it makes a replica the master, and loses nothing. Writes to the partition wait for a second or two, until no client writes to the old master and the replica has all its data; reads continue. The agents make the old master a replica.

An interrupted command finishes a switch that has begun; a second Ctrl-C ends it at once.

Examples:

    millrace fleet failover 3
    millrace fleet failover 3 --to 10.0.0.2:7003`
}

// switchDoc is what a switch did.
type switchDoc struct {
	Partition int    `json:"partition"`
	From      string `json:"from"`
	To        string `json:"to"`
	Took      int64  `json:"took_ms"`
}

func (c *fleetFailover) Run(ctx context.Context, a *app) error {
	if member, err := parseMember(c.To); c.To != "" && (err != nil || member.Node != "") {
		return errUsage.Errorf("--to %s: a replica is named by its HOST:PORT", c.To)
	}
	return a.withMap(ctx, func(f *fleetAt) (any, table, error) {
		if err := checkPartitions(f.m, c.Partition); err != nil {
			return nil, nil, err
		}
		servers := failover.NewRedis(f.option)
		defer servers.Close()
		ctx := context.WithoutCancel(ctx) // halfway there is no master
		began, log := time.Now(), a.logger()
		if err := failover.Switch(ctx, f.dir, servers, c.Partition, c.To, log, a.help(f.dir, f.option)); err != nil {
			return nil, nil, stranded(ctx, f.dir, c.Partition, err)
		}
		doc := switchDoc{Partition: c.Partition, From: f.m.Partitions[c.Partition].Master.Addr, Took: time.Since(began).Milliseconds()}
		now, err := f.dir.Confirm(ctx, 0)
		if err != nil {
			return nil, nil, err
		}
		doc.To = now.Partitions[c.Partition].Master.Addr
		return doc, func(w io.Writer) {
			fmt.Fprintf(w, "%s is the master of partition %d, in place of %s, after %s. Writes waited for a part of that, and none was lost.\n",
				doc.To, doc.Partition, doc.From, time.Since(began).Round(10*time.Millisecond))
		}, nil
	})
}

// errNoPartition means that the fleet has no partition of that number.
var errNoPartition = &millrace.Error{Code: "not_found", Hint: "Look at millrace fleet show for the partitions that there are."}

func checkPartitions(m *directory.Map, ids ...int) error {
	for _, id := range ids {
		if id < 0 || id >= len(m.Partitions) {
			return errNoPartition.Errorf("there is no partition %d: the fleet has %d, from 0 on", id, len(m.Partitions))
		}
	}
	return nil
}

// stranded adds a hint to the error of a switch that left no master.
func stranded(ctx context.Context, dir *directory.Directory, partition int, err error) error {
	m, unknown := dir.Confirm(ctx, 0)
	if unknown != nil || !m.Partitions[partition].ReadOnly {
		return err
	}
	known, ok := errors.AsType[*millrace.Error](err)
	if !ok {
		known = failover.ErrNotSwitched.Wrap(err)
	}
	known = known.Errorf("%s; partition %d takes no writes until it has a master", known.Message, partition)
	known.Hint = "If no agent runs, start one: millrace fleet agent. It gives the partition a master as soon as possible."
	return known
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
    millrace fleet snapshot --now
    millrace fleet snapshot 3 7 --now --archive /mnt/backup/redis`
}

// Run takes snapshots with --now, and shows ages.
func (c *fleetSnapshot) Run(ctx context.Context, a *app) error {
	if !c.Now && (c.Archive != "" || c.Keep != 0) {
		return errUsage.Errorf("--archive and --keep are for new snapshots: take them with --now")
	}
	if err := c.check(); err != nil {
		return err
	}
	return a.withMap(ctx, func(f *fleetAt) (any, table, error) {
		if err := checkPartitions(f.m, c.Partitions...); err != nil {
			return nil, nil, err
		}
		var failed error
		if c.Now {
			failed = c.take(ctx, f, a.logger())
		}
		ages, err := snapshot.Read(context.WithoutCancel(ctx), f.dir)
		if err != nil {
			return nil, nil, errors.Join(failed, err)
		}
		doc := overview.SnapshotsOf(ages, c.Partitions...)
		return doc, doc.Table, besides{failed}
	})
}

// take takes a snapshot of each partition, and returns the failures.
func (c *fleetSnapshot) take(ctx context.Context, f *fleetAt, log *slog.Logger) error {
	keeper := snapshot.New(f.dir, snapshot.Config{Archive: c.Archive, Keep: c.Keep, Option: f.option, Logger: log})
	var failed []error
	for s, err := range keeper.Now(ctx, c.Partitions...) {
		switch {
		case err == nil:
			log.InfoContext(ctx, "saved", "partition", s.Partition, "addr", s.Saved.Addr, "took", s.Saved.Took.Round(time.Millisecond), "file", s.Archived.File)
		case s == directory.Snapshot{}:
			return err
		default:
			failed = append(failed, err) // the keeper has logged it
		}
	}
	if len(failed) == 0 {
		return nil
	}
	known, ok := errors.AsType[*millrace.Error](failed[0])
	if !ok {
		return failed[0]
	}
	return known.Errorf("%s not saved: %s", readable.Count(len(failed), "partition"), known.Message)
}
