package grow

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/retry"
)

// The interval of Finish's checks, and how long it leaves an addition to the command that
// began it.
const (
	finishEvery = time.Second
	finishAfter = 5 * time.Second
)

// Finish completes additions that were cut off: it opens their partitions, without which no
// new tags may be placed. It returns when ctx ends, with the cause. It starts no additions.
// Any number of agents may run it at the same time.
func Finish(ctx context.Context, dir directory.Directory, cfg Config, logger *slog.Logger) error {
	return cfg.finishAdding(ctx, dir, logger, finishAfter)
}

func (c *Config) finishAdding(ctx context.Context, dir directory.Directory, logger *slog.Logger, after time.Duration) error {
	var since time.Time // when an unfinished addition was first seen
	for retry.Sleep(ctx, min(finishEvery, after)) {
		m, err := dir.Confirm(ctx, 0)
		switch {
		case err != nil:
			continue // other jobs of the agent report the directory
		case !m.Adding():
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		case time.Since(since) > after+m.Grace():
			// By now all clients use a map that names the new partitions. The command may still
			// be alive: the first one to open them has done it for both.
			_, err := c.Open(ctx, dir)
			switch {
			case ctx.Err() != nil:
			case err != nil && !errors.Is(err, directory.ErrUnconfirmed):
				logger.WarnContext(ctx, "cannot finish an addition of partitions that was cut off yet", "error", err)
			default:
				logger.InfoContext(ctx, "finished an addition of partitions that was cut off")
			}
			since = time.Time{}
		}
	}
	return context.Cause(ctx)
}
