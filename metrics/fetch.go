package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/fetch"
)

// CacheCollector returns a collector of what this process did with a cache of
// package fetch: how often each outcome came of a call, and how many computations
// began. The label cache holds the cache's name; keys are no label. Unlike what
// other collectors read this is in memory and another's in each process.
func CacheCollector(c *fetch.Cache) prometheus.Collector {
	describe := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName(namespace, "fetch", name), help, labels, prometheus.Labels{"cache": c.Name()})
	}
	return cacheCollector{
		cache: c,
		calls: describe("calls_total", "Calls by how they came by their answer.", "outcome"),
		loads: describe("loads_total", "Computations that were begun."),
		early: describe("early_total", "Times that a computation was to begin before its value was old."),
	}
}

type cacheCollector struct {
	cache               *fetch.Cache
	calls, loads, early *prometheus.Desc
}

// Describe says which metrics there are.
func (c cacheCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.calls
	ch <- c.loads
	ch <- c.early
}

// Collect takes the cache's Stats, which are in memory.
func (c cacheCollector) Collect(ch chan<- prometheus.Metric) {
	s := c.cache.Stats()
	for outcome, n := range map[fetch.Outcome]uint64{
		fetch.Failed: s.Failed, fetch.Hit: s.Hits, fetch.Negative: s.Negatives, fetch.Stale: s.Stale,
		fetch.Miss: s.Misses, fetch.Waited: s.Waited, fetch.Bypass: s.Bypassed,
		fetch.Remembered: s.Remembered,
	} {
		ch <- prometheus.MustNewConstMetric(c.calls, prometheus.CounterValue, float64(n), outcome.String())
	}
	ch <- prometheus.MustNewConstMetric(c.loads, prometheus.CounterValue, float64(s.Loads))
	ch <- prometheus.MustNewConstMetric(c.early, prometheus.CounterValue, float64(s.Early))
}
