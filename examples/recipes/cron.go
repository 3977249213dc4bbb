package recipes

import (
	"context"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/schedule/cron"
)

// setSchedules runs in each replica when it starts. Setting a schedule again changes nothing.
func setSchedules(ctx context.Context, q *fairqueue.Queue) error {
	mondays, err := cron.Parse("30 8 * * MON", "Europe/Berlin")
	if err != nil {
		return err
	}
	return q.Schedules().Set(ctx, fairqueue.Schedule{
		Name:  "weekly-invoice",
		Spec:  mondays,
		Draft: fairqueue.Draft{Tenant: "acme", Body: []byte("invoice")},
	})
}
