package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/steal"
)

// RecruiterCollector returns a collector of what a recruiter knows besides what
// it tells the [Hook]: how many moments it was offered, and of each job the rate,
// the recruits at work and when one last found something to do. A registry takes
// one; for a second recruiter wrap the Registerer with a label.
func RecruiterCollector(r *steal.Recruiter) prometheus.Collector {
	describe := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName(namespace, "steal", name), help, labels, nil)
	}
	return recruiterCollector{
		recruiter:  r,
		enlisted:   describe("enlisted_total", "Moments that were offered for upkeep, estimated from one in 64."),
		rate:       describe("rate", "The job's chance at each moment.", "task"),
		running:    describe("running", "Recruits of the job that are at work.", "task"),
		lastWorked: describe("last_worked_timestamp_seconds", "When a recruit of the job last found something to do; absent before.", "task"),
	}
}

type recruiterCollector struct {
	recruiter                           *steal.Recruiter
	enlisted, rate, running, lastWorked *prometheus.Desc
}

// Describe says which metrics there are.
func (c recruiterCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.enlisted
	ch <- c.rate
	ch <- c.running
	ch <- c.lastWorked
}

// Collect takes the recruiter's Stats, which are in memory.
func (c recruiterCollector) Collect(ch chan<- prometheus.Metric) {
	stats := c.recruiter.Stats()
	ch <- prometheus.MustNewConstMetric(c.enlisted, prometheus.CounterValue, float64(stats.Enlisted))
	for _, job := range stats.Jobs {
		name := label(job.Name)
		ch <- prometheus.MustNewConstMetric(c.rate, prometheus.GaugeValue, job.Rate, name)
		ch <- prometheus.MustNewConstMetric(c.running, prometheus.GaugeValue, float64(job.Running), name)
		if !job.LastWorked.IsZero() {
			ch <- prometheus.MustNewConstMetric(c.lastWorked, prometheus.GaugeValue, float64(job.LastWorked.UnixMilli())/1e3, name)
		}
	}
}
