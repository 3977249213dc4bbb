package main

import (
	"context"
	"time"

	"github.com/millrace/millrace/internal/fleet/failover"
	"github.com/millrace/millrace/internal/fleet/overview"
)

type fleetFailover struct {
	Partition []int  `arg:"" optional:"" help:"The number of a partition. With --force several, by default all whose master does not answer."`
	To        string `placeholder:"HOST:PORT" help:"The replica that is to be the master. Defaults to any that is in step, with --force to the one with the newest data."`
	Force     bool   `help:"Go on without members that are gone for good, and lose what only they have."`
	Yes       bool   `help:"Do not ask: only --force does."`
}

func (*fleetFailover) Help() string {
	return `Use it before a machine goes down: it makes a replica the master, and loses nothing. Writes to the partition wait for about a fifth of view-life, until the replica has all data and clients have the new map; reads continue. The agents make the old master a replica. An interrupted command finishes a switch that has begun; a second Ctrl-C ends it at once.

Agents replace a master that is lost by themselves. They do nothing, and say so in fleet show, while more than half of all members are silent, or too few to be sure that nothing confirmed is missing. If those are gone for good, --force decides: it shows what each partition may lose, asks, and agents make the replica with the newest data the master.

Examples:

    millrace fleet failover 3 --to 10.0.0.2:7003
    millrace fleet failover --force`
}

// switchDoc is the result of a switch.
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
	if len(c.Partition) != 1 && (!c.Force || c.To != "") {
		return errUsage.Errorf("name one partition").WithHint("Only with --force, and without --to, there can be several: those whose masters are gone for good.")
	}
	return a.withMap(ctx, func(f *fleetAt) (any, table, error) {
		servers := failover.NewRedis(f.option)
		defer servers.Close()
		if c.Force {
			return c.force(ctx, a, f, servers)
		}
		ctx := context.WithoutCancel(ctx) // halfway there is no master
		began, log, id := time.Now(), a.logger(), c.Partition[0]
		if err := failover.Switch(ctx, f.dir, servers, id, c.To, log, a.help(f.dir, f.option)); err != nil {
			return nil, nil, err
		}
		doc := switchDoc{Partition: id, From: f.m.Partitions[id].Master.Addr, Took: time.Since(began).Milliseconds()}
		now, err := f.dir.Confirm(ctx, 0)
		if err != nil {
			return nil, nil, err
		}
		doc.To = now.Partitions[id].Master.Addr
		return doc, says("%s is the master of partition %d, in place of %s, after %s. Writes waited for a part of that, and none was lost.",
			doc.To, doc.Partition, doc.From, time.Since(began).Round(10*time.Millisecond)), nil
	}, c.Partition...)
}

// force gives partitions a master, of the members that answer.
func (c *fleetFailover) force(ctx context.Context, a *app, f *fleetAt, servers failover.Servers) (any, table, error) {
	doc, err := overview.Force(ctx, f.option, f.dir, f.m, c.Partition, c.To)
	if err != nil {
		return nil, nil, err
	}
	if len(doc.Partitions) == 0 {
		return doc, says("the masters of all partitions answer: nothing was done"), nil
	}
	if err := a.agree(ctx, c.Yes, doc, doc.Loses, "Are the silent members gone for good? Go on without them?"); err != nil {
		return nil, nil, err
	}
	if err := doc.Do(context.WithoutCancel(ctx), f.dir, servers, a.logger(), a.help(f.dir, f.option)); err != nil {
		return doc, doc.Table, besides{err}
	}
	return doc, doc.Table, nil
}
