package metrics

import (
	"reflect"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/expiry"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/readable"
	"github.com/millrace/millrace/pinned"
	"github.com/millrace/millrace/tracker"
)

// figure is one number of a structure's Stats as a metric.
type figure[S any] struct {
	name  string // without the prefix and the kind of structure
	help  string
	state string // the value of the label state; empty for none
	kind  prometheus.ValueType
	value func(S) float64
}

type number interface {
	int | int64 | float64 | bool | time.Duration
}

func gauge[S any, N number](name, help string, value func(S) N) figure[S] {
	return figure[S]{name: name, help: help, kind: prometheus.GaugeValue, value: func(s S) float64 { return float(value(s)) }}
}

func counter[S any](name, help string, value func(S) int64) figure[S] {
	return figure[S]{name: name, help: help, kind: prometheus.CounterValue, value: func(s S) float64 { return float(value(s)) }}
}

// of returns the figure for one value of the label state.
func (f figure[S]) of(state string) figure[S] {
	f.state = state
	return f
}

// float returns a number as Prometheus has it: durations in seconds, true as 1.
func float[N number](n N) float64 {
	switch n := any(n).(type) {
	case int:
		return float64(n)
	case int64:
		return float64(n)
	case float64:
		return n
	case time.Duration:
		return n.Seconds()
	case bool:
		if n {
			return 1
		}
	}
	return 0
}

// withCounters appends a counter for each field of the Counters in Stats.
func withCounters[S, C any](counters func(S) C, figures ...figure[S]) []figure[S] {
	var none C
	for i, c := range readable.Counters(none) {
		figures = append(figures, counter(c.Name+"_total", c.Doc, func(s S) int64 { return reflect.ValueOf(counters(s)).Field(i).Int() }))
	}
	return figures
}

const (
	messagesHelp = "Messages by state."
	marksHelp    = "Marks by state; a reserved member that was marked again counts as waiting and as reserved."
	valuesHelp   = "Values by state; overdue values have expired, are hidden, and use memory until they are reaped."
	shardsHelp   = "Shards of the namespace; 0 if it does not exist."
)

var queueFigures = withCounters(func(s fairqueue.Stats) fairqueue.Counters { return s.Counters },
	gauge("messages", messagesHelp, func(s fairqueue.Stats) int { return s.Waiting }).of("waiting"),
	gauge("messages", messagesHelp, func(s fairqueue.Stats) int { return s.InFlight }).of("in_flight"),
	gauge("messages", messagesHelp, func(s fairqueue.Stats) int { return s.Delayed }).of("delayed"),
	gauge("messages", messagesHelp, func(s fairqueue.Stats) int { return s.Dead }).of("dead"),
	gauge("oldest_age_seconds", "How long the oldest waiting message has been readable; 0 if none waits.",
		func(s fairqueue.Stats) time.Duration { return s.OldestAge }),
	gauge("flows", "Flows with waiting messages: tenants, or streams.", func(s fairqueue.Stats) int { return s.FlowCount }),
	gauge("held_flows", "Flows that have their full share of handlers, so their next message waits; at most 1,024.", heldFlows),
	gauge("readers", "Consumers that reported in the last 15 seconds.", overReaders(func(fairqueue.ReaderStats) int { return 1 })),
	gauge("capacity", "Handlers that these consumers run at once.", overReaders(func(r fairqueue.ReaderStats) int { return r.Concurrency })),
	gauge("busy_handlers", "Busy handlers of these consumers, by their last report.", overReaders(func(r fairqueue.ReaderStats) int { return r.InFlight })),
	gauge("schedules", "Schedules that the queue keeps.", func(s fairqueue.Stats) int { return s.Schedules }),
	gauge("overdue_schedules", "Schedules whose tick is late by more than a minute; at most 100.", func(s fairqueue.Stats) int { return s.OverdueSchedules }),
	gauge("paused", "1 if reading is paused.", func(s fairqueue.Stats) bool { return s.Paused }),
)

func heldFlows(s fairqueue.Stats) (n int) {
	for _, f := range s.Flows {
		if f.Held {
			n++
		}
	}
	return n
}

// readerTTL is how long after its last report a reader counts. The queue removes it then,
// too, but only when another one reports.
const readerTTL = 15 * time.Second

// overReaders returns a sum over the live readers.
func overReaders(of func(fairqueue.ReaderStats) int) func(fairqueue.Stats) int {
	return func(s fairqueue.Stats) (sum int) {
		for _, r := range s.Readers {
			if s.At.Sub(r.LastSeen) <= readerTTL {
				sum += of(r)
			}
		}
		return sum
	}
}

var ickFigures = withCounters(func(s ick.Stats) ick.Counters { return s.Counters },
	gauge("marks", marksHelp, func(s ick.Stats) int { return s.Waiting.Size }).of("waiting"),
	gauge("marks", marksHelp, func(s ick.Stats) int { return s.Reserved.Size }).of("reserved"),
	gauge("marks", marksHelp, func(s ick.Stats) int { return s.Parked }).of("parked"),
	gauge("members", "Members that wait or are reserved, each counted once.", func(s ick.Stats) int { return s.Distinct }),
	gauge("oldest_age_seconds", "How long the oldest mark has waited; 0 if there is none, or if its score is not a time.",
		func(s ick.Stats) time.Duration { return s.OldestAge }),
)

var channelFigures = []figure[ick.ChannelStats]{
	gauge("consumers", "Live consumers.", func(s ick.ChannelStats) int { return s.Consumers }),
	gauge("used_icks", "Icks that producers use.", func(s ick.ChannelStats) int { return s.Size }),
	gauge("served_icks", "Icks that consumers serve, including those that are being emptied.", func(s ick.ChannelStats) int { return len(s.Icks) }),
	gauge("unowned_icks", "Icks that should be served and have no consumer.", func(s ick.ChannelStats) (n int) {
		for _, k := range s.Icks {
			if k.Owner == "" {
				n++
			}
		}
		return n
	}),
}

var hashesFigures = []figure[expiry.Stats]{
	gauge("with_deadlines", "Hashes that have fields with a deadline.", func(s expiry.Stats) int { return s.Hashes }),
	gauge("overdue", "Hashes that a reaper is to look at: most have expired fields.", func(s expiry.Stats) int { return s.Overdue }),
	gauge("oldest_overdue_seconds", "Time since the first of the overdue hashes was to be looked at; 0 for none.",
		func(s expiry.Stats) time.Duration { return s.OldestOverdue }),
	gauge("shards", shardsHelp, func(s expiry.Stats) int { return s.Shards }),
	counter("deleted_total", "Fields that were removed before they expired.", func(s expiry.Stats) int64 { return s.Deleted }),
	counter("reaped_total", "Expired fields that were removed.", func(s expiry.Stats) int64 { return s.Reaped }),
	counter("repaired_total", "Changes by other programs that the repair job undid.", func(s expiry.Stats) int64 { return s.Repaired }),
}

var keysFigures = []figure[pinned.Stats]{
	gauge("values", valuesHelp, func(s pinned.Stats) int { return s.Keys }).of("there"),
	gauge("values", valuesHelp, func(s pinned.Stats) int { return s.Overdue }).of("overdue"),
	gauge("oldest_overdue_seconds", "Time since the first deadline of the overdue values; 0 for none.",
		func(s pinned.Stats) time.Duration { return s.OldestOverdue }),
	gauge("shards", shardsHelp, func(s pinned.Stats) int { return s.Shards }),
	counter("set_total", "Values that were stored.", func(s pinned.Stats) int64 { return s.Set }),
	counter("deleted_total", "Values that were removed before they expired.", func(s pinned.Stats) int64 { return s.Deleted }),
	counter("reaped_total", "Expired values that were removed.", func(s pinned.Stats) int64 { return s.Reaped }),
}

var trackerFigures = withCounters(func(s tracker.Stats) tracker.Counters { return s.Counters },
	gauge("identifiers", "Tracked identifiers.", func(s tracker.Stats) int { return s.Tracked }),
	gauge("oldest_check_seconds", "The longest time since a tracked identifier was last verified to have work; 0 if none is tracked.",
		func(s tracker.Stats) time.Duration { return s.OldestCheck }),
	counter("passes_total", "Full passes over the source; before the first, answers are unknown.", func(s tracker.Stats) int64 { return s.Passes }),
	gauge("pass_age_seconds", "Time since the last full pass began; 0 before the first.", func(s tracker.Stats) time.Duration { return s.PassAge }),
	gauge("pass_seconds", "Duration of the last full pass; 0 before the first.", func(s tracker.Stats) time.Duration { return s.PassTime }),
	gauge("cursor_age_seconds", "Time since a pass last advanced; 0 before the first.", func(s tracker.Stats) time.Duration { return s.CursorAge }),
)
