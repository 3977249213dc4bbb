package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/failover"
)

type fleetFailover struct {
	Partition int    `arg:"" help:"The number of a partition."`
	To        string `placeholder:"HOST:PORT" help:"The replica that is to be the master. Defaults to any that is in step."`
}

// Help shows examples.
func (*fleetFailover) Help() string {
	return `Before a machine is taken down: it makes a replica the master, and loses nothing. Writes of the partition are held up for a second or two, until no client writes to the old master any more and the replica has all that it has; reads go on. The old master becomes a replica, made so by the agents.

A switch that has begun is brought to its end, also when the command is interrupted; a second Ctrl-C ends it at once.

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

// Run switches.
func (c *fleetFailover) Run(ctx context.Context, a *app) error {
	if member, err := parseMember(c.To); c.To != "" && (err != nil || member.Node != "") {
		return errUsage.Errorf("--to %s: a replica is named by its HOST:PORT", c.To)
	}
	return a.withMap(ctx, func(dir *directory.Redis, option rueidis.ClientOption, m *directory.Map) error {
		if c.Partition < 0 || c.Partition >= len(m.Partitions) {
			return errNoPartition.Errorf("there is no partition %d: the fleet has %d, from 0 on", c.Partition, len(m.Partitions))
		}
		servers := failover.NewRedis(option)
		defer servers.Close()
		ctx := context.WithoutCancel(ctx) // halfway there is no master
		began := time.Now()
		if err := failover.Switch(ctx, dir, servers, c.Partition, c.To, a.logger()); err != nil {
			return stranded(ctx, dir, c.Partition, err)
		}
		doc := switchDoc{Partition: c.Partition, From: m.Partitions[c.Partition].Master.Addr, Took: time.Since(began).Milliseconds()}
		now, err := dir.Confirm(ctx, 0)
		if err != nil {
			return err
		}
		doc.To = now.Partitions[c.Partition].Master.Addr
		return a.print(doc, func(w io.Writer) {
			fmt.Fprintf(w, "%s is the master of partition %d, in place of %s. Writes were held up for %s, and none was lost.\n",
				doc.To, doc.Partition, doc.From, time.Since(began).Round(10*time.Millisecond))
		})
	})
}

// errNoPartition means that the fleet has no partition of that number.
var errNoPartition = &millrace.Error{Code: "not_found", Hint: "Look at millrace fleet show for the partitions that there are."}

// stranded tells of a switch that failed what to do, if it left no master behind.
func stranded(ctx context.Context, dir directory.Directory, partition int, err error) error {
	m, unknown := dir.Confirm(ctx, 0)
	if unknown != nil || !m.Partitions[partition].ReadOnly {
		return err
	}
	said, ok := errors.AsType[*millrace.Error](err)
	if !ok {
		said = failover.ErrNotSwitched.Wrap(err)
	}
	said = said.Errorf("%s; partition %d takes no writes until it has a master", said.Message, partition)
	said.Hint = "If no agent runs, start one: millrace fleet agent. It gives the partition a master as soon as one can be had."
	return said
}
