package settings

import (
	"context"
	"log/slog"
	"strconv"

	"github.com/millrace/millrace/internal/fleet/directory"
)

// Finish completes changes that were cut off, as directory.Finisher does.
func Finish(ctx context.Context, dir directory.Directory, cfg Config, logger *slog.Logger) error {
	cfg.Progress = func(step string) { logger.InfoContext(ctx, "a change of settings: "+step) }
	return directory.Finisher{
		What:   "a change of settings",
		Logger: logger,
		Step: func(m *directory.Map) string {
			if m.Next == nil {
				return ""
			}
			return strconv.FormatInt(m.Next.Since, 10)
		},
		Complete: func(ctx context.Context, m *directory.Map) error {
			_, err := cfg.complete(ctx, dir, m.Next.Since)
			return err
		},
	}.Run(ctx, dir)
}
