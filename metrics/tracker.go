package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/tracker"
)

// TrackerCollector returns a collector of the metrics millrace_tracker_ for a
// tracker. The label tracker holds its name; identifiers are no label. Register
// it once a registry and name; see the package's documentation for several
// processes.
func TrackerCollector(t *tracker.Tracker) prometheus.Collector {
	this := prometheus.Labels{"tracker": t.Name()}
	all := seriesOf("tracker", trackerFigures, this)
	return collector[tracker.Stats]{
		stats:    t.Stats,
		up:       upOf("tracker", this),
		describe: all.describe,
		send:     func(ch chan<- prometheus.Metric, s tracker.Stats) { all.send(ch, s) },
	}
}

var trackerFigures = []figure[tracker.Stats]{
	{
		name: "identifiers", kind: prometheus.GaugeValue,
		help:  "Identifiers that are tracked.",
		value: func(s tracker.Stats) float64 { return float64(s.Tracked) },
	},
	{
		name: "oldest_check_seconds", kind: prometheus.GaugeValue,
		help:  "The longest time since a tracked identifier was last seen to have work; 0 when none is tracked.",
		value: func(s tracker.Stats) float64 { return s.OldestCheck.Seconds() },
	},
	{
		name: "passes_total", kind: prometheus.CounterValue,
		help:  "Full passes over the source; before the first, answers are unknown.",
		value: func(s tracker.Stats) float64 { return float64(s.Passes) },
	},
	{
		name: "pass_age_seconds", kind: prometheus.GaugeValue,
		help:  "How long ago the last full pass began; 0 before the first.",
		value: func(s tracker.Stats) float64 { return s.PassAge.Seconds() },
	},
	{
		name: "pass_seconds", kind: prometheus.GaugeValue,
		help:  "How long the last full pass took; 0 before the first.",
		value: func(s tracker.Stats) float64 { return s.PassTime.Seconds() },
	},
	{
		name: "cursor_age_seconds", kind: prometheus.GaugeValue,
		help:  "How long ago a pass last went on; 0 before the first.",
		value: func(s tracker.Stats) float64 { return s.CursorAge.Seconds() },
	},
	{
		name: "added_total", kind: prometheus.CounterValue,
		help:  "Identifiers that were added, by producers and by passes.",
		value: func(s tracker.Stats) float64 { return float64(s.Counters.Added) },
	},
	{
		name: "confirmed_total", kind: prometheus.CounterValue,
		help:  "Identifiers that were verified and have work.",
		value: func(s tracker.Stats) float64 { return float64(s.Counters.Confirmed) },
	},
	{
		name: "removed_total", kind: prometheus.CounterValue,
		help:  "Identifiers that were verified and have none.",
		value: func(s tracker.Stats) float64 { return float64(s.Counters.Removed) },
	},
}
