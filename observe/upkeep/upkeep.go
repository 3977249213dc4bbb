package upkeep

import (
	"cmp"
	"slices"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/expiry"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/redis/registry"
	"github.com/millrace/millrace/lease"
	"github.com/millrace/millrace/pinned"
	"github.com/millrace/millrace/steal"
)

// Install installs the jobs of all structures on that Redis, at the rates of the package's
// documentation, whose sum is 0.0085. Errors are those of [steal.Recruiter.Install].
func Install(recruiter *steal.Recruiter, client rueidis.Client) error {
	jobs := slices.Concat(ick.Jobs(client), lease.Jobs(client), fairqueue.Jobs(client),
		expiry.Jobs(client), pinned.Jobs(client), []millrace.Job{registry.TidyJob(client)})
	for _, job := range jobs {
		if err := recruiter.Install(job, cmp.Or(rates[job.Name], 0.001)); err != nil {
			return err
		}
	}
	return nil
}

// rates are the chances of jobs that are not installed at 0.001.
var rates = map[string]float64{"ick.retry": 0.002, "fairqueue.tend": 0.002, "registry.tidy": 0.0005}
