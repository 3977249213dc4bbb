package recipes

import (
	"context"
	"errors"
	"time"

	"github.com/millrace/millrace/lease"
	"github.com/millrace/millrace/schedule"
)

// nightly is called each minute, in each replica. night is cron.Parse("0 3 * * *", "Europe/Berlin"): a night begins at three.
func nightly(ctx context.Context, locker *lease.Locker, night schedule.Spec, report func(context.Context) error) error {
	_, err := locker.Once(ctx, "nightly-report", 30*time.Second, night.Next, func(ctx context.Context, _ int64) error {
		return report(ctx) // an error, or the replica's death, has another call make it
	})
	if errors.Is(err, lease.ErrHeld) {
		return nil // another replica is making it
	}
	return err
}
