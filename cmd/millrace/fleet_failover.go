package main

import (
	"context"
	"errors"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/failover"
)

type fleetFailover struct {
	Partition int    `arg:"" help:"The number of a partition."`
	To        string `placeholder:"HOST:PORT" help:"The replica that is to be the master. Defaults to any that is in step."`
}

func (*fleetFailover) Help() string {
	return `Use it before a machine goes down: it makes a replica the master, and loses nothing. Writes to the partition wait for about a fifth of view-life, until the replica has all data and clients have the new map; reads continue. The agents make the old master a replica.

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
	if err := checkAddr("--to", c.To); c.To != "" && err != nil {
		return err
	}
	return a.withMap(ctx, func(f *fleetAt) (any, table, error) {
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
		return doc, says("%s is the master of partition %d, in place of %s, after %s. Writes waited for a part of that, and none was lost.",
			doc.To, doc.Partition, doc.From, time.Since(began).Round(10*time.Millisecond)), nil
	}, c.Partition)
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
