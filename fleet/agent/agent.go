package agent

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/failover"
	"github.com/millrace/millrace/internal/fleet/rebalance"
	"github.com/millrace/millrace/internal/fleet/restored"
	"github.com/millrace/millrace/internal/fleet/snapshot"
	"github.com/millrace/millrace/internal/redis/retry"
)

// Config says which fleet an agent works for, and how. Only Fleet is required.
type Config struct {
	// Fleet is the fleet, opened with fleet.Dial, or with etcd.Dial for a directory in etcd.
	// The agent reaches members as it does: with its user, password and TLS settings. It
	// must stay open until Run has returned.
	Fleet *fleet.Fleet

	// Interval is the interval of probes of each member. A master that misses three is
	// replaced. Defaults to 500 milliseconds.
	Interval time.Duration

	// SnapshotInterval is how old the newest snapshot of a partition may become before the
	// next one is taken; with an Archive the newest one there counts. Defaults to taking
	// none.
	SnapshotInterval time.Duration

	// Archive is an existing folder to which snapshots are fetched, such as a network mount.
	// It needs a SnapshotInterval. Defaults to leaving snapshots on the members' disks.
	Archive string

	// Keep is how many snapshots of each partition the Archive keeps. Defaults to 7.
	Keep int

	// Logger logs the agent's actions, and its failures. Defaults to slog.Default().
	Logger *slog.Logger
}

func (c *Config) check() error {
	refused := millrace.ErrBadArgument
	switch {
	case c.Fleet == nil:
		return refused.Errorf("an agent needs a Fleet").WithHint("Open one with fleet.Dial, or with Dial of package fleet/etcd.")
	case c.Interval < 0 || c.SnapshotInterval < 0 || c.Keep < 0:
		return refused.Errorf("Interval %s, SnapshotInterval %s and Keep %d must not be negative", c.Interval, c.SnapshotInterval, c.Keep).
			WithHint("Leave them out for the defaults.")
	case c.SnapshotInterval == 0 && (c.Archive != "" || c.Keep != 0):
		return refused.Errorf("Archive and Keep are for snapshots").WithHint("Set SnapshotInterval, too.")
	case c.Archive == "" && c.Keep != 0:
		return refused.Errorf("Keep is for snapshots in an Archive").WithHint("Set Archive, too.")
	}
	if info, err := os.Stat(c.Archive); c.Archive != "" && (err != nil || !info.IsDir()) {
		return refused.Errorf("there is no folder %s for the Archive", c.Archive).WithHint("Create or mount it first.")
	}
	return nil
}

// Run does the work of an agent until ctx ends, and returns the cause when all of it has
// ended. Call it in a goroutine, and wait for it. Other errors come at once:
// millrace.ErrBadArgument for a wrong Config, or that of a directory that has no fleet.
func Run(ctx context.Context, cfg Config) error {
	if err := cfg.check(); err != nil {
		return err
	}
	log := cmp.Or(cfg.Logger, slog.Default())
	option := directory.OptionOf(cfg.Fleet.Client())
	dir := directory.Of(cfg.Fleet.Client())
	f, err := open(ctx, dir, fleet.Config{Option: option, Logger: log})
	if err != nil {
		return err
	}
	defer f.Close()
	mover, err := rebalance.New(f, rebalance.Config{Moves: dir, Logger: log})
	if err != nil {
		return err
	}
	servers := failover.NewRedis(option)
	defer servers.Close()

	tasks := []func(context.Context) error{
		failover.New(dir, servers, failover.Config{
			Interval: cfg.Interval, Archive: cfg.Archive, Restored: restored.BeforeUse(option, log), Logger: log,
		}).Run,
		mover.Maintain,
		restored.New(f, mover, restored.Config{Mark: marker(f, log), Logger: log}).Run,
	}
	if cfg.SnapshotInterval > 0 {
		tasks = append(tasks, snapshot.New(dir, snapshot.Config{
			Interval: cfg.SnapshotInterval, Archive: cfg.Archive, Keep: cfg.Keep, Option: option, Logger: log,
		}).Run)
	}
	var work sync.WaitGroup
	for _, run := range tasks {
		work.Go(func() { _ = run(ctx) }) // it ends with ctx alone
	}
	work.Wait()
	return context.Cause(ctx)
}

// open opens the fleet of a directory, as soon as it answers.
func open(ctx context.Context, dir *directory.Directory, cfg fleet.Config) (*fleet.Fleet, error) {
	for {
		f, err := fleet.Open(ctx, dir, cfg)
		switch {
		case ctx.Err() != nil && err != nil:
			return nil, context.Cause(ctx)
		case !errors.Is(err, fleet.ErrUnavailable):
			return f, err
		}
		cfg.Logger.WarnContext(ctx, "the agent waits for the fleet's directory", "error", err)
		retry.Sleep(ctx, time.Second)
	}
}

// marker returns a function that adds tags of a restored partition to an Ick. Tags that are
// too long for an Ick go to the log.
func marker(f *fleet.Fleet, log *slog.Logger) func(ctx context.Context, name string, tags []string) error {
	return func(ctx context.Context, name string, tags []string) error {
		marks, err := ick.New(f.Client(), name, ick.Config{Logger: log})
		if err != nil {
			return err
		}
		_, err = marks.AddNow(ctx, tags...)
		if !errors.Is(err, millrace.ErrTooLarge) {
			return err
		}
		for _, tag := range tags {
			if _, err := marks.AddNow(ctx, tag); errors.Is(err, millrace.ErrTooLarge) {
				log.WarnContext(ctx, "a tag of a restored partition is too long to be marked", "begins", tag[:100], "bytes", len(tag))
			} else if err != nil {
				return err
			}
		}
		return nil
	}
}
