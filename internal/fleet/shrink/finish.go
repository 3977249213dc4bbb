package shrink

import (
	"context"
	"log/slog"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/rebalance"
)

// Finish completes removals that were cut off, as directory.Finisher does.
func Finish(ctx context.Context, f *fleet.Fleet, dir directory.Directory, mover *rebalance.Mover, cfg Config, logger *slog.Logger) error {
	cfg.Progress = func(step string) { logger.InfoContext(ctx, "removing a partition: "+step) }
	return cfg.finisher(f, dir, mover, logger).Run(ctx, dir)
}

func (c *Config) finisher(f *fleet.Fleet, dir directory.Directory, mover *rebalance.Mover, logger *slog.Logger) directory.Finisher {
	return directory.Finisher{
		What:   "a removal of a partition",
		Logger: logger,
		Step: func(m *directory.Map) string {
			if p := m.Removing(); p != nil {
				return p.Phase
			}
			return ""
		},
		Complete: func(ctx context.Context, _ *directory.Map) error {
			_, err := c.complete(ctx, f, dir, mover)
			return err
		},
	}
}
