package figures

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/script"
)

// ScrapeTimeout is how long a collector waits for Redis. The default timeout of Prometheus
// is ten seconds.
const ScrapeTimeout = 2 * time.Second

// collector implements prometheus.Collector by a function.
type collector struct {
	descs   []*prometheus.Desc
	collect func(ch chan<- prometheus.Metric)
}

// Func returns a collector of the metrics that collect sends. A registry accepts one that
// describes none in advance beside any other.
func Func(collect func(ch chan<- prometheus.Metric), descs ...*prometheus.Desc) prometheus.Collector {
	return collector{descs, collect}
}

func (c collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		ch <- d
	}
}

func (c collector) Collect(ch chan<- prometheus.Metric) { c.collect(ch) }

// Of returns a collector of one structure, which reads its Stats from Redis at each
// scrape. If that fails, the metric up is 0 and the scrape succeeds. The name is the value of
// the label; there is none if it is empty.
func Of[S any](f Family[S], stats func(context.Context) (S, error), name string) prometheus.Collector {
	c := Func(func(ch chan<- prometheus.Metric) {
		ctx, cancel := context.WithTimeout(context.Background(), ScrapeTimeout)
		defer cancel()
		s, err := script.Prompt(ctx, stats)
		if err != nil && !errors.Is(err, millrace.ErrNotFound) {
			ch <- prometheus.MustNewConstMetric(f.Up, prometheus.GaugeValue, 0)
			return
		}
		ch <- prometheus.MustNewConstMetric(f.Up, prometheus.GaugeValue, 1)
		f.Send(ch, s)
	}, append(f.Descs, f.Up)...)
	if name == "" {
		return c
	}
	return prometheus.WrapCollectorWith(prometheus.Labels{f.Kind: name}, c)
}

// Many returns a collector of the results of take: the Stats of structures, and the names of
// those that could not be read. It does not ask Redis. It describes no metrics in advance, so
// a registry accepts it beside collectors of single structures, but not of the same ones.
func Many[S any](f Family[S], take func() (all []S, unread []string), name func(S) string) prometheus.Collector {
	return Func(func(ch chan<- prometheus.Metric) {
		all, unread := take()
		sent := map[string]bool{}
		for name, stats := range Labelled(all, name) {
			sent[name] = true
			ch <- prometheus.MustNewConstMetric(f.Up, prometheus.GaugeValue, 1, name)
			f.Send(ch, stats, name)
		}
		for _, name := range unread {
			if name := Label(name); !sent[name] {
				sent[name] = true
				ch <- prometheus.MustNewConstMetric(f.Up, prometheus.GaugeValue, 0, name)
			}
		}
	})
}
