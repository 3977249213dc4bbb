package grow

import (
	"context"
	"log/slog"

	"github.com/millrace/millrace/internal/fleet/directory"
)

// Finish completes additions that were cut off, as directory.Finisher does: it opens their
// partitions, without which no new tags may be placed.
func Finish(ctx context.Context, dir *directory.Directory, cfg Config, logger *slog.Logger) error {
	return cfg.finisher(dir, logger).Run(ctx, dir)
}

func (c *Config) finisher(dir *directory.Directory, logger *slog.Logger) directory.Finisher {
	return directory.Finisher{
		What:   "an addition of partitions",
		Logger: logger,
		Step: func(m *directory.Map) string {
			if m.Adding() {
				return directory.LookUp
			}
			return ""
		},
		// By then all clients use a map that names the new partitions.
		Complete: func(ctx context.Context, _ *directory.Map) error {
			_, err := c.Open(ctx, dir)
			return err
		},
	}
}
