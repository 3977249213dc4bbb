// Package queuemetrics exports the Stats of a fairqueue to Prometheus: the metrics
// millrace_queue_... of docs/METRICS.md. Package metrics says how collectors behave.
package queuemetrics

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/fairqueue/queuestats"
	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/figures"
)

// Collector returns a collector of a queue, such as fairqueue.Queue, which it reads at each scrape.
func Collector(queue interface {
	Name() string
	Stats(ctx context.Context) (queuestats.Stats, error)
}) prometheus.Collector {
	return figures.Of(family(), queue.Stats, queue.Name())
}

// Many returns a collector of many queues that a function has read, with the names of those that it could not read.
func Many(read func() (all []queuestats.Stats, unread []string)) prometheus.Collector {
	return figures.Many(family("queue"), read, func(s queuestats.Stats) string { return s.Name })
}

// family returns the figures of a queue; its ages by reason; its faults, one series for each cause, with the first tenant that
// causes it; and the tenants that fail, 32 at most.
func family(labels ...string) figures.Family[queuestats.Stats] {
	f := figures.New("queue", queue, labels...)
	desc := func(name, help string, more ...string) *prometheus.Desc {
		d := figures.Desc("queue", name, help, slices.Concat(labels, more)...)
		f.Descs = append(f.Descs, d)
		return d
	}
	notice := desc("notice", "For how long the oldest message waits that suffers from a cause; of the first tenant that is the cause.", "cause", "severity", "tenant")
	age := desc("waiting_age_seconds", "How long the oldest message has been readable that waits for this, of the flows that come next; 0 if none does.", "waits_for")
	failed := desc("tenant_failed_total", "Deliveries of a tenant that failed, of the at most 32 tenants that failed last; from 0 again after ten minutes without a failure.", "tenant")
	died := desc("tenant_died_total", "Messages of these tenants that died.", "tenant")
	sendFigures := f.Send
	f.Send = func(ch chan<- prometheus.Metric, s queuestats.Stats, values ...string) {
		sendFigures(ch, s, values...)
		send := func(of *prometheus.Desc, kind prometheus.ValueType, value float64, more ...string) {
			ch <- prometheus.MustNewConstMetric(of, kind, value, slices.Concat(values, more)...)
		}
		ages := diagnosis.Ages(s)
		for _, why := range diagnosis.Whys {
			send(age, prometheus.GaugeValue, ages[why].Seconds(), string(why))
		}
		for tenant, t := range figures.Labelled(s.Failing, func(t queuestats.Failures) string { return t.Tenant }) {
			send(failed, prometheus.CounterValue, float64(t.Count), tenant)
			send(died, prometheus.CounterValue, float64(t.Died), tenant)
		}
		sent := map[string]bool{}
		for _, found := range diagnosis.OfQueue(s) {
			if sent[found.Code] {
				continue
			}
			sent[found.Code] = true
			send(notice, prometheus.GaugeValue, found.Waits.Seconds(), found.Code, found.Severity.String(), figures.Label(found.Tenant))
		}
	}
	return f
}

const messages = "Messages by state."

var queue = figures.WithCounters(func(s queuestats.Stats) queuestats.Counters { return s.Counters },
	figures.Gauge("messages", messages, func(s queuestats.Stats) int { return s.Waiting }).Of("waiting"),
	figures.Gauge("messages", messages, func(s queuestats.Stats) int { return s.InFlight }).Of("in_flight"),
	figures.Gauge("messages", messages, func(s queuestats.Stats) int { return s.Delayed }).Of("delayed"),
	figures.Gauge("messages", messages, func(s queuestats.Stats) int { return s.Dead }).Of("dead"),
	figures.Gauge("oldest_age_seconds", "How long the oldest waiting message has been readable; 0 if none waits.",
		func(s queuestats.Stats) time.Duration { return s.OldestAge }),
	figures.Gauge("flows", "Flows with waiting messages: tenants, or streams.", func(s queuestats.Stats) int { return s.FlowCount }),
	figures.Gauge("held_flows", "Flows that have their full share of handlers, so their next message waits; at most 1,024.", heldFlows),
	figures.Gauge("readers", "Consumers that reported in the last 15 seconds.", overReaders(func(queuestats.Reader) int { return 1 })),
	figures.Gauge("capacity", "Handlers that these consumers run at once.", overReaders(func(r queuestats.Reader) int { return r.Concurrency })),
	figures.Gauge("busy_handlers", "Busy handlers of these consumers, by their last report.", overReaders(func(r queuestats.Reader) int { return r.InFlight })),
	figures.Gauge("schedules", "Schedules that the queue keeps.", func(s queuestats.Stats) int { return s.Schedules }),
	figures.Gauge("overdue_schedules", "Schedules whose tick is late by more than a minute; at most 100.", func(s queuestats.Stats) int { return s.OverdueSchedules }),
	figures.Gauge("paused", "1 if reading is paused.", func(s queuestats.Stats) bool { return s.Paused }),
)

func heldFlows(s queuestats.Stats) (n int) {
	for _, f := range s.Flows {
		if f.Held {
			n++
		}
	}
	return n
}

// overReaders returns a sum over the readers, which are those that live: Stats has the others in Vanished.
func overReaders(of func(queuestats.Reader) int) func(queuestats.Stats) int {
	return func(s queuestats.Stats) (sum int) {
		for _, r := range s.Readers {
			sum += of(r)
		}
		return sum
	}
}
