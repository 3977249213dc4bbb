package grow

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/retry"
)

// How often Finish looks, and for how long it leaves an addition to who began
// it.
const (
	finishEvery = time.Second
	finishAfter = 5 * time.Second
)

// Finish finishes what an Add that was cut off left undone, until ctx ends, of
// which it returns the cause: new partitions that are not open yet, and tags that
// nobody may place in the meantime. Agents run it, any number of them at the same
// time. It adds nothing of its own accord.
func Finish(ctx context.Context, dir directory.Directory, cfg Config, logger *slog.Logger) error {
	return cfg.finishAdding(ctx, dir, logger, finishAfter)
}

func (c *Config) finishAdding(ctx context.Context, dir directory.Directory, logger *slog.Logger, after time.Duration) error {
	var since time.Time // when it was first seen that one is under way
	for retry.Sleep(ctx, min(finishEvery, after)) {
		m, err := dir.Confirm(ctx, 0)
		switch {
		case err != nil:
			continue // others say that the directory does not answer
		case !m.Adding():
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		case time.Since(since) > after+m.Settings.Grace():
			// Clients go by a map that names the new partitions by now, however long the one who
			// began has waited for that. Who opens them first has done it for both.
			_, err := c.Open(ctx, dir)
			switch {
			case ctx.Err() != nil:
			case err != nil && !errors.Is(err, directory.ErrUnconfirmed):
				logger.WarnContext(ctx, "the adding of partitions was cut off, and cannot be finished yet", "error", err)
			default:
				logger.InfoContext(ctx, "the adding of partitions that was cut off is finished")
			}
			since = time.Time{}
		}
	}
	return context.Cause(ctx)
}
