package settings

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/retry"
)

// The interval of Finish's checks, and how long it leaves a change to the command that began
// it.
const (
	finishEvery = time.Second
	finishAfter = 5 * time.Second
)

// Finish completes changes that were cut off. It returns when ctx ends, with the cause. It
// begins no changes. Any number of agents may run it at the same time.
func Finish(ctx context.Context, dir directory.Directory, cfg Config, logger *slog.Logger) error {
	cfg.Progress = func(step string) { logger.InfoContext(ctx, "a change of settings: "+step) }
	return cfg.finish(ctx, dir, logger, finishAfter)
}

func (c *Config) finish(ctx context.Context, dir directory.Directory, logger *slog.Logger, after time.Duration) error {
	var found int64 // the change that was seen, and since when
	var since time.Time
	for retry.Sleep(ctx, min(finishEvery, after)) {
		m, err := dir.Confirm(ctx, 0)
		switch {
		case err != nil: // other jobs of the agent report the directory
		case m.Next == nil:
			found = 0
		case m.Next.Since != found:
			found, since = m.Next.Since, time.Now()
		case time.Since(since) > after+m.Grace():
			// The command may still be alive: the first one to complete it has done it for both.
			_, err := c.complete(ctx, dir, found)
			switch {
			case ctx.Err() != nil:
			case err != nil && !errors.Is(err, directory.ErrUnconfirmed):
				logger.WarnContext(ctx, "cannot finish a change of settings that was cut off yet", "error", err)
			default:
				logger.InfoContext(ctx, "finished a change of settings that was cut off")
			}
			found = 0
		}
	}
	return context.Cause(ctx)
}
