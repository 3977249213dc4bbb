package metrics

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/rueidis"

	"github.com/millrace/millrace/steal"
	"github.com/millrace/millrace/upkeep"
)

// UpkeepCollector returns a collector of the metrics millrace_upkeep_: what the
// recruiters of all processes did that publish to that Redis, with
// [upkeep.Publish]. Register it in one process; see the package's documentation for
// several.
func UpkeepCollector(client rueidis.Client) prometheus.Collector {
	all := newUpkeepSeries()
	return collector[upkeep.Totals]{
		stats:    func(ctx context.Context) (upkeep.Totals, error) { return upkeep.ReadTotals(ctx, client) },
		up:       upOf("upkeep", nil),
		describe: all.describe,
		send:     all.send,
	}
}

// upkeepSeries are the figures of the totals.
type upkeepSeries struct {
	processes, recruited, rounds, lastWorked *prometheus.Desc
}

func newUpkeepSeries() upkeepSeries {
	describe := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName(namespace, "upkeep", name), help, labels, nil)
	}
	return upkeepSeries{
		processes:  describe("processes", "Recruiters whose counts are in the totals and that run now."),
		recruited:  describe("recruited_total", "Recruits of all processes by how they ended.", "task", "outcome"),
		rounds:     describe("rounds_total", "Slices of upkeep that recruits of all processes ran.", "task"),
		lastWorked: describe("last_worked_timestamp_seconds", "When a recruit of any process last found something to do; absent before.", "task"),
	}
}

func (u upkeepSeries) describe(ch chan<- *prometheus.Desc) {
	ch <- u.processes
	ch <- u.recruited
	ch <- u.rounds
	ch <- u.lastWorked
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
