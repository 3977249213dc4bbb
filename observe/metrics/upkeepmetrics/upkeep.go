// Package upkeepmetrics exports to Prometheus the totals that the recruiters of all processes
// publish: the metrics millrace_upkeep_... of docs/METRICS.md. Package metrics says how
// collectors behave.
package upkeepmetrics

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/internal/figures"
	"github.com/millrace/millrace/observe/upkeep"
	"github.com/millrace/millrace/steal"
)

// Collector returns a collector of the totals that read returns at each scrape. It usually is
//
//	func(ctx context.Context) (upkeep.Totals, error) { return upkeep.ReadTotals(ctx, client) }
func Collector(read func(context.Context) (upkeep.Totals, error)) prometheus.Collector {
	return figures.Of(family(), read, "")
}

func family() figures.Family[upkeep.Totals] {
	processes := figures.Desc("upkeep", "processes", "Running recruiters that publish their counts.")
	recruited := figures.Desc("upkeep", "recruited_total", "Recruits of all processes by outcome.", "task", "outcome")
	rounds := figures.Desc("upkeep", "rounds_total", "Slices of upkeep that all processes ran.", "task")
	worked := figures.Desc("upkeep", "last_worked_timestamp_seconds", "When a recruit of any process last found something to do; absent before.", "task")
	return figures.Family[upkeep.Totals]{
		Kind: "upkeep", Up: figures.Up("upkeep"), Descs: []*prometheus.Desc{processes, recruited, rounds, worked},
		Send: func(ch chan<- prometheus.Metric, t upkeep.Totals, _ ...string) {
			ch <- prometheus.MustNewConstMetric(processes, prometheus.GaugeValue, float64(t.Processes))
			for name, j := range figures.Labelled(t.Jobs, func(j steal.JobStats) string { return j.Name }) {
				for outcome, n := range map[string]int64{
					steal.Worked: j.Worked, steal.Idle: j.Idle,
					steal.Failed: j.Failed, steal.TimedOut: j.TimedOut, steal.Panicked: j.Panicked, steal.Busy: j.Busy, steal.Broken: j.Broken,
				} {
					ch <- prometheus.MustNewConstMetric(recruited, prometheus.CounterValue, float64(n), name, outcome)
				}
				ch <- prometheus.MustNewConstMetric(rounds, prometheus.CounterValue, float64(j.Rounds), name)
				figures.SendTime(ch, worked, j.LastWorked, name)
			}
		},
	}
}
