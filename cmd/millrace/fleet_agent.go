package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/failover"
	"github.com/millrace/millrace/internal/fleet/rebalance"
	"github.com/millrace/millrace/internal/fleet/snapshot"
	"github.com/millrace/millrace/internal/readable"
)

type fleetAgent struct {
	Every          time.Duration `default:"500ms" placeholder:"DURATION" help:"How often to look at each member. A master that is lost is noticed after three looks. Defaults to 500ms."`
	SnapshotsEvery time.Duration `placeholder:"DURATION" help:"How old a partition's snapshot may become before the next one is taken. Defaults to taking none."`
	Archive        string        `placeholder:"DIR" help:"The folder to which snapshots are fetched, such as a network mount. Defaults to leaving them with the members."`
	Keep           int           `placeholder:"N" help:"How many snapshots of each partition the archive keeps. Defaults to 7."`
}

// Help shows examples.
func (*fleetAgent) Help() string {
	return `It replaces masters that are lost, makes members that are back replicas again, finishes what was cut off, moves of tags (fleet rebalance) and additions (fleet add), and runs until it is interrupted (Ctrl-C, SIGTERM). What it does is on standard error, and in the fleet's log, which fleet show shows.

Run several, on different machines: one leads, and another one takes over within seconds when it is gone. None of them needs a disk, and none must run for the fleet to serve: without them a lost master is not replaced, no more.

With --snapshots-every it has members write their data to their disks, one at a time on a node and the oldest snapshot first; with --archive it fetches them. Give all agents the same.

With --json it prints one line when it has found the fleet: {"ready":true,"epoch":1,"partitions":4,"members":8}.

Examples:

    millrace fleet agent --redis fleet://10.0.0.1:7000
    millrace fleet agent --every 200ms --json
    millrace fleet agent --snapshots-every 1h --archive /mnt/backup/redis --keep 24`
}

// watchedDoc is what an agent says when it begins.
type watchedDoc struct {
	Ready      bool  `json:"ready"`
	Epoch      int64 `json:"epoch"`
	Partitions int   `json:"partitions"`
	Members    int   `json:"members"`
}

// Run runs an agent until it is interrupted.
func (c *fleetAgent) Run(ctx context.Context, a *app) error {
	if err := c.check(); err != nil {
		return err
	}
	return a.withMap(ctx, func(dir *directory.Redis, option rueidis.ClientOption, m *directory.Map) error {
		doc := watchedDoc{Ready: true, Epoch: m.Epoch, Partitions: len(m.Partitions)}
		for _, p := range m.Partitions {
			doc.Members += len(p.Members())
		}
		if err := a.print(doc, func(w io.Writer) {
			fmt.Fprintf(w, "watching %s, %s, until this command is interrupted\n", readable.Count(doc.Partitions, "partition"), readable.Count(doc.Members, "server"))
		}); err != nil {
			return err
		}
		return c.watch(ctx, dir, option, a.logger())
	})
}

func (c *fleetAgent) check() error {
	switch {
	case c.Every <= 0:
		return errUsage.Errorf("members cannot be looked at every %s", c.Every)
	case c.SnapshotsEvery < 0:
		return errUsage.Errorf("snapshots cannot be taken every %s", c.SnapshotsEvery)
	case c.SnapshotsEvery == 0 && (c.Archive != "" || c.Keep != 0):
		return errUsage.Errorf("--archive and --keep are for snapshots: say how often with --snapshots-every")
	case c.Keep < 0, c.Keep > 0 && c.Archive == "":
		return errUsage.Errorf("--keep is how many snapshots of each partition --archive keeps, from 1 on")
	}
	return checkArchive(c.Archive)
}

// checkArchive refuses a folder that is not there; none at all is fine.
func checkArchive(dir string) error {
	if dir == "" {
		return nil
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return errUsage.Errorf("--archive %s: there is no such folder", dir)
	}
	return nil
}

// watch does an agent's work until ctx ends. What the jobs return is why that was.
func (c *fleetAgent) watch(ctx context.Context, dir *directory.Redis, option rueidis.ClientOption, log *slog.Logger) error {
	f, err := fleet.Open(ctx, dir, fleet.Config{Option: option, Logger: log})
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return err
	}
	defer f.Close()
	mover, err := rebalance.New(f, rebalance.Config{Moves: dir, Logger: log})
	if err != nil {
		return err
	}
	servers := failover.NewRedis(option)
	defer servers.Close()
	agent := failover.New(dir, servers, failover.Config{Every: c.Every, Logger: log, Restored: func(ctx context.Context, m *directory.Map, partition int, addr string) error {
		n, err := rebalance.Restored(ctx, option, dir, m, partition, addr)
		if n > 0 {
			log.InfoContext(ctx, "tags that a restored partition had were moved away since, and stay where they are", "partition", partition, "tags", n)
		}
		return err
	}})
	var work sync.WaitGroup
	work.Go(func() { _ = agent.Run(ctx) })
	work.Go(func() { _ = mover.Tend(ctx) })
	work.Go(func() { _ = fleet.FinishAdding(ctx, dir, fleet.GrowConfig{Option: option}, log) })
	if c.SnapshotsEvery > 0 {
		keeper := snapshot.New(dir, snapshot.Config{
			Every: c.SnapshotsEvery, Archive: c.Archive, Keep: c.Keep, Option: option, Logger: log,
		})
		work.Go(func() { _ = keeper.Run(ctx) })
	}
	work.Wait()
	return nil
}
