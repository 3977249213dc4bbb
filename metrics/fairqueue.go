package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
)

// QueueCollector returns a collector of the metrics millrace_queue_ for a queue.
// The label queue holds its name, so it is for queues of which a program has a
// few; tenants are no label. Register it once a registry and name; see the
// package's documentation for several processes.
func QueueCollector(q *fairqueue.Queue) prometheus.Collector {
	this := prometheus.Labels{"queue": q.Name()}
	all := seriesOf("queue", queueFigures, this)
	return collector[fairqueue.Stats]{
		stats:    q.Stats,
		missing:  millrace.ErrNotFound,
		up:       upOf("queue", this),
		describe: all.describe,
		send:     func(ch chan<- prometheus.Metric, s fairqueue.Stats) { all.send(ch, s) },
	}
}

const messagesHelp = "Messages by state."

var queueFigures = []figure[fairqueue.Stats]{
	{
		name: "messages", state: "waiting", kind: prometheus.GaugeValue,
		help:  messagesHelp,
		value: func(s fairqueue.Stats) float64 { return float64(s.Waiting) },
	},
	{
		name: "messages", state: "in_flight", kind: prometheus.GaugeValue,
		help:  messagesHelp,
		value: func(s fairqueue.Stats) float64 { return float64(s.InFlight) },
	},
	{
		name: "messages", state: "delayed", kind: prometheus.GaugeValue,
		help:  messagesHelp,
		value: func(s fairqueue.Stats) float64 { return float64(s.Delayed) },
	},
	{
		name: "messages", state: "dead", kind: prometheus.GaugeValue,
		help:  messagesHelp,
		value: func(s fairqueue.Stats) float64 { return float64(s.Dead) },
	},
	{
		name: "oldest_age_seconds", kind: prometheus.GaugeValue,
		help:  "For how long the message that has waited longest could have been read; 0 when none waits.",
		value: func(s fairqueue.Stats) float64 { return s.OldestAge.Seconds() },
	},
	{
		name: "flows", kind: prometheus.GaugeValue,
		help:  "Flows in which messages wait: tenants, or streams.",
		value: func(s fairqueue.Stats) float64 { return float64(s.FlowCount) },
	},
	{
		name: "held_flows", kind: prometheus.GaugeValue,
		help:  "Flows whose next message waits for their own handlers, which have their share of all; at most 1,024.",
		value: func(s fairqueue.Stats) float64 { return float64(heldFlows(s)) },
	},
	{
		name: "readers", kind: prometheus.GaugeValue,
		help:  "Programs that consume and were heard of in the last 15 seconds.",
		value: overReaders(func(fairqueue.ReaderStats) int { return 1 }),
	},
	{
		name: "capacity", kind: prometheus.GaugeValue,
		help:  "Handlers that those programs run at once, all together.",
		value: overReaders(func(r fairqueue.ReaderStats) int { return r.Concurrency }),
	},
	{
		name: "busy_handlers", kind: prometheus.GaugeValue,
		help:  "Handlers of those programs that work, as they last said.",
		value: overReaders(func(r fairqueue.ReaderStats) int { return r.InFlight }),
	},
	{
		name: "paused", kind: prometheus.GaugeValue,
		help: "Whether reading is off.",
		value: func(s fairqueue.Stats) float64 {
			if s.Paused {
				return 1
			}
			return 0
		},
	},
	{
		name: "written_total", kind: prometheus.CounterValue,
		help:  "Messages that were written.",
		value: func(s fairqueue.Stats) float64 { return float64(s.Counters.Written) },
	},
	{
		name: "delivered_total", kind: prometheus.CounterValue,
		help:  "Deliveries.",
		value: func(s fairqueue.Stats) float64 { return float64(s.Counters.Delivered) },
	},
	{
		name: "acked_total", kind: prometheus.CounterValue,
		help:  "Messages that were acknowledged.",
		value: func(s fairqueue.Stats) float64 { return float64(s.Counters.Acked) },
	},
	{
		name: "nacked_total", kind: prometheus.CounterValue,
		help:  "Deliveries that failed and were given back.",
		value: func(s fairqueue.Stats) float64 { return float64(s.Counters.Nacked) },
	},
	{
		name: "returned_total", kind: prometheus.CounterValue,
		help:  "Deliveries that were handed back because nobody was there any more.",
		value: func(s fairqueue.Stats) float64 { return float64(s.Counters.Returned) },
	},
	{
		name: "reclaimed_total", kind: prometheus.CounterValue,
		help:  "Deliveries whose reader did not finish in time.",
		value: func(s fairqueue.Stats) float64 { return float64(s.Counters.Reclaimed) },
	},
	{
		name: "expired_total", kind: prometheus.CounterValue,
		help:  "Messages whose deadline came before their turn.",
		value: func(s fairqueue.Stats) float64 { return float64(s.Counters.Expired) },
	},
	{
		name: "cancelled_total", kind: prometheus.CounterValue,
		help:  "Messages that were cancelled.",
		value: func(s fairqueue.Stats) float64 { return float64(s.Counters.Cancelled) },
	},
	{
		name: "buried_total", kind: prometheus.CounterValue,
		help:  "Messages that died.",
		value: func(s fairqueue.Stats) float64 { return float64(s.Counters.Buried) },
	},
	{
		name: "redriven_total", kind: prometheus.CounterValue,
		help:  "Dead messages that were given another try.",
		value: func(s fairqueue.Stats) float64 { return float64(s.Counters.Redriven) },
	},
	{
		name: "purged_total", kind: prometheus.CounterValue,
		help:  "Dead messages that were forgotten.",
		value: func(s fairqueue.Stats) float64 { return float64(s.Counters.Purged) },
	},
	{
		name: "dropped_total", kind: prometheus.CounterValue,
		help:  "Dead messages that were dropped because there were too many, or for their age.",
		value: func(s fairqueue.Stats) float64 { return float64(s.Counters.Dropped) },
	},
	{
		name: "lost_total", kind: prometheus.CounterValue,
		help:  "Messages whose body somebody deleted past the library.",
		value: func(s fairqueue.Stats) float64 { return float64(s.Counters.Lost) },
	},
}

func heldFlows(s fairqueue.Stats) (n int) {
	for _, f := range s.Flows {
		if f.Held {
			n++
		}
	}
	return n
}

// readerLife is for how long a reader counts that is not heard of. The queue forgets it
// then, too, but only when another one is heard of.
const readerLife = 15 * time.Second

// overReaders adds something up over the readers that are alive.
func overReaders(of func(fairqueue.ReaderStats) int) func(fairqueue.Stats) float64 {
	return func(s fairqueue.Stats) float64 {
		sum := 0
		for _, r := range s.Readers {
			if s.At.Sub(r.LastSeen) <= readerLife {
				sum += of(r)
			}
		}
		return float64(sum)
	}
}
