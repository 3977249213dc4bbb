package upkeep

import (
	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/expiry"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/registry"
	"github.com/millrace/millrace/lease"
	"github.com/millrace/millrace/steal"
)

// Install gives the recruiter the jobs that go round all structures on that Redis,
// at the rates of the package's documentation, which sum up to 0.0085. Errors are those
// of [steal.Recruiter.Install].
func Install(recruiter *steal.Recruiter, client rueidis.Client) error {
	for _, entry := range []struct {
		job  millrace.Job
		rate float64
	}{
		{ick.RetryJob(client), 0.002},
		{ick.TidyJob(client), 0.001},
		{lease.Jobs(client)[0], 0.001},
		{fairqueue.TendJob(client), 0.002},
		{expiry.RepairHashesJob(client), 0.001},
		{expiry.RepairKeysJob(client), 0.001},
		{TidyJob(client), 0.0005},
	} {
		if err := recruiter.Install(entry.job, entry.rate); err != nil {
			return err
		}
	}
	return nil
}

// TidyJob returns the job that removes entries of structures that are gone from the
// registry: once their key is missing on a server that answers, and never by age. A slice
// looks at up to 50 entries; after a round it rests for a minute.
func TidyJob(client rueidis.Client) millrace.Job { return registry.TidyJob(client) }
