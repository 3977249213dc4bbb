// Package stealmetrics exports to Prometheus the counts of a recruiter of this process that it does not report to
// the hook of package metrics: metrics millrace_steal_... of docs/METRICS.md. Package metrics says how collectors behave.
package stealmetrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/internal/figures"
	"github.com/millrace/millrace/steal"
)

// Collector returns a collector of the figures that a recruiter of this process does not
// report to the hook.
func Collector(r *steal.Recruiter) prometheus.Collector {
	enlisted := figures.Desc("steal", "enlisted_total", "Moments that were offered for upkeep, estimated from one in 64.")
	rate := figures.Desc("steal", "rate", "The job's chance at each moment.", "task")
	running := figures.Desc("steal", "running", "Recruits of the job that run now.", "task")
	worked := figures.Desc("steal", "last_worked_timestamp_seconds", "When a recruit of the job last found something to do; absent before.", "task")
	return figures.Func(func(ch chan<- prometheus.Metric) {
		stats := r.Stats()
		ch <- prometheus.MustNewConstMetric(enlisted, prometheus.CounterValue, float64(stats.Enlisted))
		for _, job := range stats.Jobs {
			name := figures.Label(job.Name)
			ch <- prometheus.MustNewConstMetric(rate, prometheus.GaugeValue, job.Rate, name)
			ch <- prometheus.MustNewConstMetric(running, prometheus.GaugeValue, float64(job.Running), name)
			figures.SendTime(ch, worked, job.LastWorked, name)
		}
	}, enlisted, rate, running, worked)
}
