package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/steal"
	"github.com/millrace/millrace/upkeep"
)

// upkeepSeries are the figures of the totals.
type upkeepSeries struct {
	processes, recruited, rounds, lastWorked *prometheus.Desc
}

func newUpkeepSeries() upkeepSeries {
	return upkeepSeries{
		processes:  desc("upkeep", "processes", "Recruiters whose counts are in the totals and that run now.", nil),
		recruited:  desc("upkeep", "recruited_total", "Recruits of all processes by how they ended.", nil, "task", "outcome"),
		rounds:     desc("upkeep", "rounds_total", "Slices of upkeep that recruits of all processes ran.", nil, "task"),
		lastWorked: desc("upkeep", "last_worked_timestamp_seconds", "When a recruit of any process last found something to do; absent before.", nil, "task"),
	}
}

func (u upkeepSeries) send(ch chan<- prometheus.Metric, t upkeep.Totals) {
	ch <- prometheus.MustNewConstMetric(u.processes, prometheus.GaugeValue, float64(t.Processes))
	for name, j := range labelled(t.Jobs, func(j steal.JobStats) string { return j.Name }) {
		for outcome, n := range map[steal.Outcome]int64{
			steal.Worked: j.Worked, steal.Idle: j.Idle,
			steal.Failed: j.Aborted.Error, steal.TimedOut: j.Aborted.Timeout, steal.Panicked: j.Aborted.Panic,
			steal.Busy: j.Aborted.Busy, steal.Broken: j.Aborted.Breaker,
		} {
			ch <- prometheus.MustNewConstMetric(u.recruited, prometheus.CounterValue, float64(n), name, string(outcome))
		}
		ch <- prometheus.MustNewConstMetric(u.rounds, prometheus.CounterValue, float64(j.Rounds), name)
		if !j.LastWorked.IsZero() {
			ch <- prometheus.MustNewConstMetric(u.lastWorked, prometheus.GaugeValue, float64(j.LastWorked.UnixMilli())/1e3, name)
		}
	}
}
