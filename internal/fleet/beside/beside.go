// Package beside runs an agent beside something that takes a while: a command, a measurement.
// So these need no agent that runs anyway.
package beside

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/fleet/agent"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/failover"
	"github.com/millrace/millrace/internal/redis/retry"
)

// Agent returns a function that runs an agent for the fleet of a directory until its end is
// called. If the fleet cannot be opened yet it tries again. Option says how to connect to
// members, and cfg all but the Fleet.
func Agent(dir *directory.Directory, option rueidis.ClientOption, cfg agent.Config) failover.Help {
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	return func(ctx context.Context) (end func()) {
		ctx, stop := context.WithCancel(ctx)
		var running sync.WaitGroup
		running.Go(func() {
			for ok := true; ok; ok = retry.Sleep(ctx, time.Second) {
				if err := run(ctx, dir, option, cfg); ctx.Err() == nil {
					cfg.Logger.WarnContext(ctx, "cannot run an agent yet", "error", err)
				}
			}
		})
		return func() {
			stop()
			running.Wait()
		}
	}
}

func run(ctx context.Context, dir *directory.Directory, option rueidis.ClientOption, cfg agent.Config) (err error) {
	if cfg.Fleet, err = fleet.Open(ctx, dir, fleet.Config{Option: option, Logger: cfg.Logger}); err != nil {
		return err
	}
	defer cfg.Fleet.Close()
	return agent.Run(ctx, cfg)
}
