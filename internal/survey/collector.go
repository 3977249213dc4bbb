package survey

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/metrics"
)

// Collector returns a collector of the metrics of all structures that the latest
// View has, as the collectors of package metrics show single ones, and of the
// survey's own. It asks Redis nothing. While no server answers, the structures' _up
// is 0 and their other series are absent, as with those.
//
//	millrace_survey_age_seconds      how long ago the View was read
//	millrace_survey_left_out{kind}   structures beyond those that are looked at
//	millrace_survey_troubles         what could not be read
func Collector(s *Survey) prometheus.Collector {
	describe := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("millrace_survey_"+name, help, labels, nil)
	}
	return collector{
		survey: s,
		census: metrics.CensusCollector(func() metrics.Census { return census(s.seen()) }),
		age: describe("age_seconds",
			"How long ago the structures' numbers were read; since the start before the first time."),
		leftOut:  describe("left_out", "Structures that are not surveyed, because there are too many of the kind.", "kind"),
		troubles: describe("troubles", "What could not be read in the last survey."),
	}
}

type collector struct {
	survey                 *Survey
	census                 prometheus.Collector
	age, leftOut, troubles *prometheus.Desc
}

// Describe says nothing: which structures there are is known when they were seen.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect shows the latest View.
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

// census returns what there is to show of a View, of which names were known.
func census(v *View, known names) metrics.Census {
	c := metrics.Census{Unread: map[string][]string{}}
	if v.Fleet != nil {
		c.Fleet = &metrics.Fleet{Status: v.Fleet.Status}
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
