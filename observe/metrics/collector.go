package metrics

import (
	"context"
	"errors"
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
	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/redis/script"
	"github.com/millrace/millrace/observe/upkeep"
	"github.com/millrace/millrace/pinned"
	"github.com/millrace/millrace/steal"
	"github.com/millrace/millrace/tracker"
)

// scrapeTimeout is how long a collector waits for Redis. The default timeout of Prometheus
// is ten seconds.
const scrapeTimeout = 2 * time.Second

// Collector returns a collector of the Stats of a structure, or of this process's use of
// a cache or a recruiter. A label has the structure's name, so use it for programs
// with few structures. Register it once for each registry and name. The package's
// documentation lists the metrics, and explains what to do in several processes.
//
// A channel has the metrics of each of its Icks, with the index of the Ick in the label
// ick, and a few of its own.
func Collector[S *fairqueue.Queue | *ick.Ick | *ick.Channel | *expiry.Hashes | *pinned.Keys | *tracker.Tracker | *fetch.Cache | *steal.Recruiter](of S) prometheus.Collector {
	switch s := any(of).(type) {
	case *fairqueue.Queue:
		return reading(newQueueFamily(), s.Stats, s.Name())
	case *ick.Ick:
		return reading(newFamily("ick", ickFigures), s.Stats, s.Name())
	case *ick.Channel:
		return reading(newChannelFamily(), s.Stats, s.Name())
	case *expiry.Hashes:
		return reading(newFamily("hashes", hashesFigures), s.Stats, s.Name())
	case *pinned.Keys:
		return reading(newFamily("keys", keysFigures), s.Stats, s.Name())
	case *tracker.Tracker:
		return reading(newFamily("tracker", trackerFigures), s.Stats, s.Name())
	case *fetch.Cache:
		return cacheCollector(s)
	case *steal.Recruiter:
		return recruiterCollector(s)
	}
	panic("unreachable")
}

// UpkeepCollector returns a collector of the totals that the recruiters of all processes published
// in that Redis; see [upkeep.Publish].
func UpkeepCollector(client rueidis.Client) prometheus.Collector {
	return reading(newUpkeepFamily(), func(ctx context.Context) (upkeep.Totals, error) { return upkeep.ReadTotals(ctx, client) }, "")
}

func desc(kind, name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(namespace, kind, name), help, labels, nil)
}

// family is the metrics of a kind of structure. The values of its labels are arguments of
// send.
type family[S any] struct {
	kind  string
	up    *prometheus.Desc
	descs []*prometheus.Desc
	send  func(ch chan<- prometheus.Metric, stats S, labels ...string)
}

// newFamily returns the family of a kind that has only figures.
func newFamily[S any](kind string, figures []figure[S], labels ...string) family[S] {
	f := family[S]{kind: kind, up: upDesc(kind, labels...)}
	for _, g := range figures {
		var state prometheus.Labels
		if g.state != "" {
			state = prometheus.Labels{"state": g.state}
		}
		f.descs = append(f.descs, prometheus.NewDesc(prometheus.BuildFQName(namespace, kind, g.name), g.help, labels, state))
	}
	f.send = func(ch chan<- prometheus.Metric, stats S, values ...string) {
		for i, g := range figures {
			ch <- prometheus.MustNewConstMetric(f.descs[i], g.kind, g.value(stats), values...)
		}
	}
	return f
}

// newQueueFamily returns the figures of a queue, and its faults: one series for each
// cause, with the first tenant that causes it.
func newQueueFamily(labels ...string) family[fairqueue.Stats] {
	f := newFamily("queue", queueFigures, labels...)
	notice := desc("queue", "notice", "For how long the oldest message waits that suffers from a cause; of the first tenant that is the cause.",
		append(labels, "cause", "severity", "tenant")...)
	sendFigures := f.send
	f.descs = append(f.descs, notice)
	f.send = func(ch chan<- prometheus.Metric, s fairqueue.Stats, values ...string) {
		sendFigures(ch, s, values...)
		sent := map[string]bool{}
		for _, found := range diagnosis.OfQueue(s) {
			if sent[found.Code] {
				continue
			}
			sent[found.Code] = true
			of := label(found.Tenant)
			ch <- prometheus.MustNewConstMetric(notice, prometheus.GaugeValue, found.Waits.Seconds(),
				append(slices.Clip(values), found.Code, found.Severity.String(), of)...)
		}
	}
	return f
}

// newChannelFamily returns the figures of a channel and those of its Icks.
func newChannelFamily(labels ...string) family[ick.ChannelStats] {
	f := newFamily("channel", channelFigures, labels...)
	sendWhole, icks := f.send, newFamily("channel", ickFigures, append(labels, "ick")...)
	f.descs = append(f.descs, icks.descs...)
	f.send = func(ch chan<- prometheus.Metric, s ick.ChannelStats, values ...string) {
		sendWhole(ch, s, values...)
		for index, stats := range s.Icks {
			icks.send(ch, stats, append(values, strconv.Itoa(index))...)
		}
	}
	return f
}

func upDesc(kind string, labels ...string) *prometheus.Desc {
	return desc(kind, "up", "1 if the last read from Redis succeeded; if not, the other series are absent.", labels...)
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

// reading returns a collector of one structure, which reads its Stats from Redis at each
// scrape. If that fails, the metric up is 0 and the scrape succeeds.
func reading[S any](f family[S], stats func(context.Context) (S, error), name string) prometheus.Collector {
	c := collector{append(f.descs, f.up), func(ch chan<- prometheus.Metric) {
		ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
		defer cancel()
		s, err := script.Prompt(ctx, stats)
		if err != nil && !errors.Is(err, millrace.ErrNotFound) {
			ch <- prometheus.MustNewConstMetric(f.up, prometheus.GaugeValue, 0)
			return
		}
		ch <- prometheus.MustNewConstMetric(f.up, prometheus.GaugeValue, 1)
		f.send(ch, s)
	}}
	if name == "" {
		return c
	}
	return prometheus.WrapCollectorWith(prometheus.Labels{f.kind: name}, c)
}

// newUpkeepFamily returns the metrics of upkeep.Totals.
func newUpkeepFamily() family[upkeep.Totals] {
	processes := desc("upkeep", "processes", "Running recruiters that publish their counts.")
	recruited := desc("upkeep", "recruited_total", "Recruits of all processes by outcome.", "task", "outcome")
	rounds := desc("upkeep", "rounds_total", "Slices of upkeep that all processes ran.", "task")
	worked := desc("upkeep", "last_worked_timestamp_seconds", "When a recruit of any process last found something to do; absent before.", "task")
	return family[upkeep.Totals]{
		kind: "upkeep", up: upDesc("upkeep"), descs: []*prometheus.Desc{processes, recruited, rounds, worked},
		send: func(ch chan<- prometheus.Metric, t upkeep.Totals, _ ...string) {
			ch <- prometheus.MustNewConstMetric(processes, prometheus.GaugeValue, float64(t.Processes))
			for name, j := range labelled(t.Jobs, func(j steal.JobStats) string { return j.Name }) {
				for outcome, n := range map[steal.Outcome]int64{
					steal.Worked: j.Worked, steal.Idle: j.Idle,
					steal.Failed: j.Aborted.Error, steal.TimedOut: j.Aborted.Timeout, steal.Panicked: j.Aborted.Panic,
					steal.Busy: j.Aborted.Busy, steal.Broken: j.Aborted.Breaker,
				} {
					ch <- prometheus.MustNewConstMetric(recruited, prometheus.CounterValue, float64(n), name, string(outcome))
				}
				ch <- prometheus.MustNewConstMetric(rounds, prometheus.CounterValue, float64(j.Rounds), name)
				sendTime(ch, worked, j.LastWorked, name)
			}
		},
	}
}

// sendTime sends an instant, unless it is zero.
func sendTime(ch chan<- prometheus.Metric, desc *prometheus.Desc, at time.Time, labels ...string) {
	if !at.IsZero() {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(at.UnixMilli())/1e3, labels...)
	}
}

// recruiterCollector shows figures that a recruiter does not report to the hook.
func recruiterCollector(r *steal.Recruiter) prometheus.Collector {
	enlisted := desc("steal", "enlisted_total", "Moments that were offered for upkeep, estimated from one in 64.")
	rate := desc("steal", "rate", "The job's chance at each moment.", "task")
	running := desc("steal", "running", "Recruits of the job that run now.", "task")
	worked := desc("steal", "last_worked_timestamp_seconds", "When a recruit of the job last found something to do; absent before.", "task")
	return collector{[]*prometheus.Desc{enlisted, rate, running, worked}, func(ch chan<- prometheus.Metric) {
		stats := r.Stats()
		ch <- prometheus.MustNewConstMetric(enlisted, prometheus.CounterValue, float64(stats.Enlisted))
		for _, job := range stats.Jobs {
			name := label(job.Name)
			ch <- prometheus.MustNewConstMetric(rate, prometheus.GaugeValue, job.Rate, name)
			ch <- prometheus.MustNewConstMetric(running, prometheus.GaugeValue, float64(job.Running), name)
			sendTime(ch, worked, job.LastWorked, name)
		}
	}}
}

// cacheCollector shows this process's use of a cache.
func cacheCollector(c *fetch.Cache) prometheus.Collector {
	calls := desc("fetch", "calls_total", "Calls by outcome.", "outcome")
	loads := desc("fetch", "loads_total", "Computations that were started.")
	early := desc("fetch", "early_total", "Computations that were started before their value was stale.")
	return prometheus.WrapCollectorWith(prometheus.Labels{"cache": c.Name()}, collector{[]*prometheus.Desc{calls, loads, early}, func(ch chan<- prometheus.Metric) {
		s := c.Stats()
		for outcome, n := range map[fetch.Outcome]uint64{
			fetch.Failed: s.Failed, fetch.Hit: s.Hits, fetch.Negative: s.Negatives, fetch.Stale: s.Stale,
			fetch.Miss: s.Misses, fetch.Waited: s.Waited, fetch.Bypass: s.Bypassed, fetch.Remembered: s.Remembered,
		} {
			ch <- prometheus.MustNewConstMetric(calls, prometheus.CounterValue, float64(n), outcome.String())
		}
		ch <- prometheus.MustNewConstMetric(loads, prometheus.CounterValue, float64(s.Loads))
		ch <- prometheus.MustNewConstMetric(early, prometheus.CounterValue, float64(s.Early))
	}})
}
