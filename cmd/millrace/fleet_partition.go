package main

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/rebalance"
	"github.com/millrace/millrace/internal/fleet/shrink"
	"github.com/millrace/millrace/internal/readable"
)

type fleetPartition struct {
	Remove fleetPartitionRemove `cmd:"" help:"Remove the last partition of a fleet that is in use, when it is empty."`
}

type fleetPartitionRemove struct {
	Partition int  `arg:"" help:"The highest number of a partition."`
	Yes       bool `help:"Do not ask."`
}

func (*fleetPartitionRemove) Help() string {
	return `The partition must be the one with the highest number, closed and without tags: fleet rebalance --from N --retire makes it so. To free certain machines, move members with fleet replica move or fleet node drain; which number goes does not matter for that.

Others take over its part of the ring and its records of tags that were moved away, in a few seconds and one pass over the keys of all partitions. Reads go on, and new tags wait for milliseconds. Then its servers are fenced and forget the fleet, so that they can be used again. Progress goes to standard error. A command that was cut off is finished by the agents, or by the same command again.

Examples:

    millrace fleet rebalance --from 7 --retire
    millrace fleet partition remove 7`
}

// removedDoc is what was removed.
type removedDoc struct {
	Partition  int      `json:"partition"`
	Servers    []string `json:"servers"`    // of it
	Partitions int      `json:"partitions"` // that are left
	Took       int64    `json:"took_ms"`
}

func (c *fleetPartitionRemove) Run(ctx context.Context, a *app) error {
	return a.withMap(ctx, func(dir directory.Directory, option rueidis.ClientOption, m *directory.Map) (any, table, error) {
		if err := checkPartitions(m, c.Partition); err != nil {
			return nil, nil, err
		}
		doc := removedDoc{Partition: c.Partition}
		for _, member := range m.Partitions[c.Partition].Members() {
			doc.Servers = append(doc.Servers, member.Addr)
		}
		f, err := fleet.Open(ctx, dir, fleet.Config{Option: option, Logger: a.logger()})
		if err != nil {
			return nil, nil, err
		}
		defer f.Close()
		if err := shrink.Check(ctx, f, m, c.Partition); err != nil {
			return nil, nil, err
		}
		if err := a.ask(ctx, c.Yes, fmt.Sprintf("Remove partition %d from the fleet, with the servers at %v?", doc.Partition, doc.Servers)); err != nil {
			return nil, nil, err
		}
		began := time.Now()
		if m, err = c.remove(ctx, a, f, dir, option); err != nil {
			return nil, nil, err
		}
		doc.Partitions, doc.Took = len(m.Partitions), time.Since(began).Milliseconds()
		return doc, says("removed partition %d: the fleet has %s", doc.Partition, readable.Count(doc.Partitions, "partition")), nil
	})
}

// remove removes the partition, and finishes moves that were cut off, for which it would wait.
func (c *fleetPartitionRemove) remove(ctx context.Context, a *app, f *fleet.Fleet, dir directory.Directory, option rueidis.ClientOption) (*directory.Map, error) {
	log := a.logger()
	mover, err := rebalance.New(f, rebalance.Config{Moves: dir, Logger: log})
	if err != nil {
		return nil, err
	}
	maintaining, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = mover.Maintain(maintaining)
	}()
	m, err := shrink.Remove(ctx, f, dir, mover, c.Partition, shrink.Config{Option: option, Progress: func(step string) { log.InfoContext(ctx, step) }})
	stop()
	<-done
	if err != nil && ctx.Err() != nil {
		err = errCut.WithHint("Repeat the command: it goes on. Agents finish it, too.")
	}
	return m, err
}
