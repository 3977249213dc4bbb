// Package fetchmetrics exports this process's use of a cache to Prometheus: the metrics
// millrace_fetch_... of docs/METRICS.md. It does not ask Redis.
package fetchmetrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/fetch"
	"github.com/millrace/millrace/internal/figures"
)

// Collector returns a collector of this process's use of a cache.
func Collector(c *fetch.Cache) prometheus.Collector {
	calls := figures.Desc("fetch", "calls_total", "Calls by outcome.", "outcome")
	loads := figures.Desc("fetch", "loads_total", "Computations that were started.")
	early := figures.Desc("fetch", "early_total", "Computations that were started before their value was stale.")
	return prometheus.WrapCollectorWith(prometheus.Labels{"cache": c.Name()}, figures.Func(func(ch chan<- prometheus.Metric) {
		s := c.Stats()
		for outcome, n := range map[fetch.Outcome]uint64{
			fetch.Failed: s.Failed, fetch.Hit: s.Hits, fetch.Negative: s.Negatives, fetch.Stale: s.Stale,
			fetch.Miss: s.Misses, fetch.Waited: s.Waited, fetch.Bypass: s.Bypassed, fetch.Remembered: s.Remembered,
		} {
			ch <- prometheus.MustNewConstMetric(calls, prometheus.CounterValue, float64(n), string(outcome))
		}
		ch <- prometheus.MustNewConstMetric(loads, prometheus.CounterValue, float64(s.Loads))
		ch <- prometheus.MustNewConstMetric(early, prometheus.CounterValue, float64(s.Early))
	}, calls, loads, early))
}
