package shrink

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/rebalance"
	"github.com/millrace/millrace/internal/retry"
)

// The interval of Finish's checks, and how long it leaves a step to the command that removes
// the partition.
const (
	finishEvery = time.Second
	finishAfter = 5 * time.Second
)

// Finish completes removals that were cut off. It returns when ctx ends, with the cause. It
// begins none. Any number of agents may run it at the same time.
func Finish(ctx context.Context, f *fleet.Fleet, dir directory.Directory, mover *rebalance.Mover, cfg Config, logger *slog.Logger) error {
	cfg.Progress = func(step string) { logger.InfoContext(ctx, "removing a partition: "+step) }
	return cfg.finish(ctx, f, dir, mover, logger, finishAfter)
}

func (c *Config) finish(ctx context.Context, f *fleet.Fleet, dir directory.Directory, mover *rebalance.Mover, logger *slog.Logger, after time.Duration) error {
	var phase directory.Phase // that was seen, and since when
	var since time.Time
	for retry.Sleep(ctx, min(finishEvery, after)) {
		m, err := dir.Confirm(ctx, 0)
		if err != nil {
			continue // other jobs of the agent report the directory
		}
		switch p := m.Removing(); {
		case p == nil:
			phase = ""
		case p.Phase != phase:
			phase, since = p.Phase, time.Now()
		case time.Since(since) > after+m.Grace():
			_, err := c.complete(ctx, f, dir, mover)
			switch {
			case ctx.Err() != nil:
			case err != nil && !errors.Is(err, directory.ErrUnconfirmed):
				logger.WarnContext(ctx, "cannot finish the removal of a partition that was cut off yet", "partition", p.ID, "error", err)
			default:
				logger.InfoContext(ctx, "finished the removal of a partition that was cut off", "partition", p.ID)
			}
			phase = ""
		}
	}
	return context.Cause(ctx)
}
