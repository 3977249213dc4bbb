package survey

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/expiry"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/observe/metrics/expirymetrics"
	"github.com/millrace/millrace/observe/metrics/ickmetrics"
	"github.com/millrace/millrace/observe/metrics/pinnedmetrics"
	"github.com/millrace/millrace/observe/metrics/queuemetrics"
	"github.com/millrace/millrace/observe/metrics/upkeepmetrics"
	"github.com/millrace/millrace/observe/upkeep"
	"github.com/millrace/millrace/pinned"
)

// Collector returns a collector of the latest View: the metrics of all structures, as the
// packages below observe/metrics export single ones, those of the fleet, and those of the survey
// itself. It does not ask Redis. While no server answers, the _up of the structures is 0 and
// their other series are absent.
func Collector(s *Survey) prometheus.Collector {
	describe := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("millrace_survey_"+name, help, labels, nil)
	}
	return collector{
		survey: s,
		structures: []prometheus.Collector{
			queuemetrics.Many(func() ([]fairqueue.Stats, []string) { v, unread := s.figures(Queue); return v.Queues, unread }),
			ickmetrics.Collector(func() ([]ick.Stats, []string) { v, unread := s.figures(Ick); return v.Icks, unread }),
			ickmetrics.Collector(func() ([]ick.ChannelStats, []string) { v, unread := s.figures(Channel); return v.Channels, unread }),
			expirymetrics.Collector(func() ([]expiry.Stats, []string) { v, unread := s.figures(Hashes); return v.Hashes, unread }),
			pinnedmetrics.Collector(func() ([]pinned.Stats, []string) { v, unread := s.figures(Keys); return v.Keys, unread }),
			FleetCollector(func() *FleetView { return s.View().Fleet }),
		},
		upkeep: upkeepmetrics.Collector(func(context.Context) (upkeep.Totals, error) {
			if v, unread := s.figures(Steal); len(unread) == 0 {
				return v.Steal, nil
			}
			return upkeep.Totals{}, errors.New("the totals were not read")
		}),
		age: describe("age_seconds",
			"Age of the numbers; before the first survey, the time since the start."),
		leftOut:  describe("left_out", "Structures beyond the first 200 of a kind, which are not surveyed.", "kind"),
		troubles: describe("troubles", "Reads that failed in the last survey."),
	}
}

type collector struct {
	survey                 *Survey
	structures             []prometheus.Collector
	upkeep                 prometheus.Collector
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
	for _, structures := range c.structures {
		structures.Collect(ch)
	}
	if !v.At.IsZero() {
		c.upkeep.Collect(ch)
	}
}

// figures returns the latest View, and the names of the kind's structures that could not be
// read for it. While no server answers, these are all, and the View is empty.
func (s *Survey) figures(kind Kind) (v *View, unread []string) {
	v, known := s.seen()
	switch {
	case v.At.IsZero():
		return &View{}, nil
	case v.Away() != nil && kind == Steal:
		return &View{}, []string{""}
	case v.Away() != nil:
		return &View{}, known.of[kind]
	}
	for _, t := range v.Troubles {
		if t.Kind == kind {
			unread = append(unread, t.Name)
		}
	}
	return v, unread
}
