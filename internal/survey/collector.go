package survey

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/internal/finding"
	"github.com/millrace/millrace/internal/fleet/check"
	"github.com/millrace/millrace/observe/metrics"
)

// Collector returns a collector of the latest View: the metrics of all structures, as the
// collectors of package metrics export single ones, and those of the survey itself. It does
// not ask Redis. While no server answers, the _up of the structures is 0 and their other
// series are absent.
func Collector(s *Survey) prometheus.Collector {
	describe := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("millrace_survey_"+name, help, labels, nil)
	}
	return collector{
		survey: s,
		census: metrics.CensusCollector(func() metrics.Census { return census(s.seen()) }),
		age: describe("age_seconds",
			"Age of the numbers; before the first survey, the time since the start."),
		leftOut:  describe("left_out", "Structures beyond the first 200 of a kind, which are not surveyed.", "kind"),
		troubles: describe("troubles", "Reads that failed in the last survey."),
	}
}

type collector struct {
	survey                 *Survey
	census                 prometheus.Collector
	age, leftOut, troubles *prometheus.Desc
}

// Describe describes nothing: the structures are known only after a survey.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect exports the latest View.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	v := c.survey.View()
	since := v.At
	if since.IsZero() {
		since = c.survey.born
	}
	ch <- prometheus.MustNewConstMetric(c.age, prometheus.GaugeValue, time.Since(since).Seconds())
	for _, kind := range []Kind{Queue, Ick, Channel, Hashes, Keys, Lease} {
		ch <- prometheus.MustNewConstMetric(c.leftOut, prometheus.GaugeValue, float64(v.LeftOut[kind]), string(kind))
	}
	ch <- prometheus.MustNewConstMetric(c.troubles, prometheus.GaugeValue, float64(len(v.Troubles)))
	c.census.Collect(ch)
}

// census converts a View and the known names.
func census(v *View, known names) metrics.Census {
	c := metrics.Census{Unread: map[string][]string{}}
	if v.Fleet != nil {
		c.Fleet = &metrics.Fleet{Status: v.Fleet.Status}
		if !v.Fleet.Checked.IsZero() {
			c.Fleet.Findings = map[string]int{}
			for severity, n := range check.Count(v.Fleet.Findings) {
				c.Fleet.Findings[finding.Severity(severity).String()] = n
			}
		}
		for _, p := range v.Fleet.Snapshots.Partitions {
			c.Fleet.Snapshots = append(c.Fleet.Snapshots, metrics.SnapshotAge{
				Partition: p.Partition, Saved: v.Fleet.Snapshots.Age(p.Saved.At), Archived: v.Fleet.Snapshots.Age(p.Archived.At),
			})
		}
	}
	switch {
	case v.At.IsZero():
	case v.Away() != nil:
		for _, kind := range []Kind{Queue, Ick, Channel, Hashes, Keys} {
			for _, name := range known.of[kind] {
				c.Unread[string(kind)] = append(c.Unread[string(kind)], name)
			}
		}
		c.Unread["upkeep"] = []string{""}
	default:
		c.Queues, c.Icks, c.Channels, c.Hashes, c.Keys = v.Queues, v.Icks, v.Channels, v.Hashes, v.Keys
		c.Upkeep = &v.Steal
		for _, t := range v.Troubles {
			if t.Kind == Steal {
				c.Upkeep = nil
				t.Kind = "upkeep"
			}
			c.Unread[string(t.Kind)] = append(c.Unread[string(t.Kind)], t.Name)
		}
	}
	return c
}
