package recipes

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fetch"
)

// Report is the value of a long computation.
type Report struct {
	Quarter string
	Rows    int
}

// site has a cache of reports.
type site struct {
	reports *fetch.Cache
	compute func(ctx context.Context, quarter string) (Report, error) // minutes of SQL
}

func newSite(ctx context.Context, client rueidis.Client, compute func(context.Context, string) (Report, error)) (*site, error) {
	reports, err := fetch.Open(ctx, client, "reports", fetch.Config{
		TTL:     time.Hour,
		Stale:   24 * time.Hour,   // the old report, while one caller computes, or while that fails
		Timeout: 10 * time.Minute, // of one computation
	})
	return &site{reports, compute}, err
}

// report returns a report that one process computes, and all processes get.
func (s *site) report(ctx context.Context, quarter string) (Report, error) {
	report, _, err := fetch.Get(ctx, s.reports, quarter, func(ctx context.Context) (Report, error) {
		return s.compute(ctx, quarter)
	})
	return report, err
}

// changed makes the next call compute. Call it after the database has the change.
func (s *site) changed(ctx context.Context, quarter string) error {
	return s.reports.Forget(ctx, quarter)
}
