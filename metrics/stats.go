package metrics

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/internal/script"
)

// patience is how long a collector waits for Redis at a scrape. Prometheus itself
// gives up after ten seconds by default.
const patience = 2 * time.Second

// figure is one number of a structure's Stats as a metric. The tables of figures
// are what there is to say about a kind of structure; the rest is here.
type figure[S any] struct {
	name  string // without the prefix and the kind of structure
	help  string
	state string // the value of the label state; without one when empty
	kind  prometheus.ValueType
	value func(S) float64
}

// series are the figures of a kind of structure, of one or of many.
type series[S any] struct {
	figures []figure[S]
	descs   []*prometheus.Desc
}

// seriesOf returns the figures of a kind of structure. All have the labels that are
// fixed; send is given the values of the others.
func seriesOf[S any](kind string, figures []figure[S], fixed prometheus.Labels, others ...string) series[S] {
	s := series[S]{figures: figures}
	for _, f := range figures {
		labels := prometheus.Labels{}
		maps.Copy(labels, fixed)
		if f.state != "" {
			labels["state"] = f.state
		}
		s.descs = append(s.descs, prometheus.NewDesc(prometheus.BuildFQName(namespace, kind, f.name), f.help, others, labels))
	}
	return s
}

func (s series[S]) describe(ch chan<- *prometheus.Desc) {
	for _, desc := range s.descs {
		ch <- desc
	}
}

func (s series[S]) send(ch chan<- prometheus.Metric, stats S, others ...string) {
	for i, f := range s.figures {
		ch <- prometheus.MustNewConstMetric(s.descs[i], f.kind, f.value(stats), others...)
	}
}

// collector asks a structure for its Stats at each scrape.
type collector[S any] struct {
	stats    func(context.Context) (S, error)
	missing  error // what stats answers when there is no such structure
	up       *prometheus.Desc
	describe func(chan<- *prometheus.Desc)
	send     func(chan<- prometheus.Metric, S)
}

// upOf describes the metric that says whether a structure's Stats could be read.
func upOf(kind string, fixed prometheus.Labels, others ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(namespace, kind, "up"),
		"Whether this could be read from Redis the last time; when not, the other series are absent.", others, fixed)
}

// Describe says which metrics there are.
func (c collector[S]) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.up
	c.describe(ch)
}

// Collect asks, and says whether there was an answer. A failed look fails nobody
// else's scrape.
func (c collector[S]) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	stats, err := script.Prompt(ctx, c.stats) // a scrape waits for nobody else's patience
	if err != nil && !errors.Is(err, c.missing) {
		ch <- prometheus.MustNewConstMetric(c.up, prometheus.GaugeValue, 0)
		return
	}
	ch <- prometheus.MustNewConstMetric(c.up, prometheus.GaugeValue, 1)
	c.send(ch, stats)
}
