package metrics

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/expiry"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/fetch"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/script"
	"github.com/millrace/millrace/pinned"
	"github.com/millrace/millrace/steal"
	"github.com/millrace/millrace/tracker"
	"github.com/millrace/millrace/upkeep"
)

// scrapeTimeout is how long a collector waits for Redis. Prometheus itself gives up
// after ten seconds by default.
const scrapeTimeout = 2 * time.Second

// Collector returns a collector of what the structure holds, or of what this process
// did with a cache or a recruiter. A label holds the structure's name, so use it for
// structures of which a program has a few. Register it once for each registry and name;
// the package's documentation says which metrics there are, and what to do in several
// processes.
//
// The metrics of a channel are those of each of its Icks, with the index of the Ick in
// the label ick, and a few of the whole.
func Collector[S *fairqueue.Queue | *ick.Ick | *ick.Channel | *expiry.Hashes | *pinned.Keys | *tracker.Tracker | *fetch.Cache | *steal.Recruiter](of S) prometheus.Collector {
	switch s := any(of).(type) {
	case *fairqueue.Queue:
		return single("queue", s.Name(), s.Stats, queueFigures)
	case *ick.Ick:
		return single("ick", s.Name(), s.Stats, ickFigures)
	case *ick.Channel:
		fixed := prometheus.Labels{"channel": s.Name()}
		all := channelSeriesOf(fixed)
		return reading("channel", fixed, s.Stats, slices.Concat(all.whole.descs, all.each.descs),
			func(ch chan<- prometheus.Metric, stats ick.ChannelStats) { all.send(ch, stats) })
	case *expiry.Hashes:
		return single("hashes", s.Name(), s.Stats, hashesFigures)
	case *pinned.Keys:
		return single("keys", s.Name(), s.Stats, keysFigures)
	case *tracker.Tracker:
		return single("tracker", s.Name(), s.Stats, trackerFigures)
	case *fetch.Cache:
		return cacheCollector(s)
	case *steal.Recruiter:
		return recruiterCollector(s)
	}
	panic("unreachable")
}

// UpkeepCollector returns a collector of what the recruiters of all processes did that
// publish to that Redis; see [upkeep.Publish].
func UpkeepCollector(client rueidis.Client) prometheus.Collector {
	all := newUpkeepSeries()
	return reading("upkeep", nil, func(ctx context.Context) (upkeep.Totals, error) { return upkeep.ReadTotals(ctx, client) },
		[]*prometheus.Desc{all.processes, all.recruited, all.rounds, all.lastWorked}, all.send)
}

// figure is one number of a structure's Stats as a metric.
type figure[S any] struct {
	name  string // without the prefix and the kind of structure
	help  string
	state string // the value of the label state; without one when empty
	kind  prometheus.ValueType
	value func(S) float64
}

func gauge[S any](name, help string, value func(S) float64) figure[S] {
	return figure[S]{name: name, help: help, kind: prometheus.GaugeValue, value: value}
}

func counter[S any](name, help string, value func(S) float64) figure[S] {
	return figure[S]{name: name, help: help, kind: prometheus.CounterValue, value: value}
}

// of returns the figure for one value of the label state.
func (f figure[S]) of(state string) figure[S] {
	f.state = state
	return f
}

func desc(kind, name, help string, fixed prometheus.Labels, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(namespace, kind, name), help, labels, fixed)
}

// series are the figures of a kind of structure.
type series[S any] struct {
	figures []figure[S]
	descs   []*prometheus.Desc
}

// seriesOf returns figures with fixed labels. The values of the other labels are
// arguments of send.
func seriesOf[S any](kind string, figures []figure[S], fixed prometheus.Labels, others ...string) series[S] {
	s := series[S]{figures: figures}
	for _, f := range figures {
		labels := prometheus.Labels{}
		maps.Copy(labels, fixed)
		if f.state != "" {
			labels["state"] = f.state
		}
		s.descs = append(s.descs, desc(kind, f.name, f.help, labels, others...))
	}
	return s
}

func (s series[S]) send(ch chan<- prometheus.Metric, stats S, others ...string) {
	for i, f := range s.figures {
		ch <- prometheus.MustNewConstMetric(s.descs[i], f.kind, f.value(stats), others...)
	}
}

// channelSeries are the figures of a channel as a whole and of each of its Icks.
type channelSeries struct {
	whole series[ick.ChannelStats]
	each  series[ick.Stats]
}

func channelSeriesOf(fixed prometheus.Labels, others ...string) channelSeries {
	return channelSeries{
		whole: seriesOf("channel", channelFigures, fixed, others...),
		each:  seriesOf("channel", ickFigures, fixed, append(slices.Clip(others), "ick")...),
	}
}

func (c channelSeries) send(ch chan<- prometheus.Metric, s ick.ChannelStats, others ...string) {
	c.whole.send(ch, s, others...)
	for index, stats := range s.Icks {
		c.each.send(ch, stats, append(slices.Clip(others), strconv.Itoa(index))...)
	}
}

// collector implements prometheus.Collector by a function.
type collector struct {
	descs   []*prometheus.Desc
	collect func(ch chan<- prometheus.Metric)
}

func (c collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		ch <- d
	}
}

func (c collector) Collect(ch chan<- prometheus.Metric) { c.collect(ch) }

// single returns a collector of one structure that has a name and figures.
func single[S any](kind, name string, stats func(context.Context) (S, error), figures []figure[S]) prometheus.Collector {
	fixed := prometheus.Labels{kind: name}
	all := seriesOf(kind, figures, fixed)
	return reading(kind, fixed, stats, all.descs, func(ch chan<- prometheus.Metric, s S) { all.send(ch, s) })
}

// reading returns a collector that reads Stats from Redis at each scrape. A read that
// fails sets the metric up to 0 and does not fail the scrape.
func reading[S any](
	kind string, fixed prometheus.Labels, stats func(context.Context) (S, error),
	descs []*prometheus.Desc, send func(chan<- prometheus.Metric, S),
) prometheus.Collector {
	up := upDesc(kind, fixed)
	return collector{append([]*prometheus.Desc{up}, descs...), func(ch chan<- prometheus.Metric) {
		ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
		defer cancel()
		s, err := script.Prompt(ctx, stats)
		if err != nil && !errors.Is(err, millrace.ErrNotFound) {
			ch <- prometheus.MustNewConstMetric(up, prometheus.GaugeValue, 0)
			return
		}
		ch <- prometheus.MustNewConstMetric(up, prometheus.GaugeValue, 1)
		send(ch, s)
	}}
}

func upDesc(kind string, fixed prometheus.Labels, others ...string) *prometheus.Desc {
	return desc(kind, "up", "Whether this could be read from Redis the last time; when not, the other series are absent.", fixed, others...)
}

// recruiterCollector shows what a recruiter does not report to the hook.
func recruiterCollector(r *steal.Recruiter) prometheus.Collector {
	enlisted := desc("steal", "enlisted_total", "Moments that were offered for upkeep, estimated from one in 64.", nil)
	rate := desc("steal", "rate", "The job's chance at each moment.", nil, "task")
	running := desc("steal", "running", "Recruits of the job that are at work.", nil, "task")
	lastWorked := desc("steal", "last_worked_timestamp_seconds", "When a recruit of the job last found something to do; absent before.", nil, "task")
	return collector{[]*prometheus.Desc{enlisted, rate, running, lastWorked}, func(ch chan<- prometheus.Metric) {
		stats := r.Stats()
		ch <- prometheus.MustNewConstMetric(enlisted, prometheus.CounterValue, float64(stats.Enlisted))
		for _, job := range stats.Jobs {
			name := label(job.Name)
			ch <- prometheus.MustNewConstMetric(rate, prometheus.GaugeValue, job.Rate, name)
			ch <- prometheus.MustNewConstMetric(running, prometheus.GaugeValue, float64(job.Running), name)
			if !job.LastWorked.IsZero() {
				ch <- prometheus.MustNewConstMetric(lastWorked, prometheus.GaugeValue, float64(job.LastWorked.UnixMilli())/1e3, name)
			}
		}
	}}
}

// cacheCollector shows what this process did with a cache.
func cacheCollector(c *fetch.Cache) prometheus.Collector {
	fixed := prometheus.Labels{"cache": c.Name()}
	calls := desc("fetch", "calls_total", "Calls by how they came by their answer.", fixed, "outcome")
	loads := desc("fetch", "loads_total", "Computations that were begun.", fixed)
	early := desc("fetch", "early_total", "Times that a computation was to begin before its value was old.", fixed)
	return collector{[]*prometheus.Desc{calls, loads, early}, func(ch chan<- prometheus.Metric) {
		s := c.Stats()
		for outcome, n := range map[fetch.Outcome]uint64{
			fetch.Failed: s.Failed, fetch.Hit: s.Hits, fetch.Negative: s.Negatives, fetch.Stale: s.Stale,
			fetch.Miss: s.Misses, fetch.Waited: s.Waited, fetch.Bypass: s.Bypassed, fetch.Remembered: s.Remembered,
		} {
			ch <- prometheus.MustNewConstMetric(calls, prometheus.CounterValue, float64(n), outcome.String())
		}
		ch <- prometheus.MustNewConstMetric(loads, prometheus.CounterValue, float64(s.Loads))
		ch <- prometheus.MustNewConstMetric(early, prometheus.CounterValue, float64(s.Early))
	}}
}
