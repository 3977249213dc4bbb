package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/expiry"
	"github.com/millrace/millrace/pinned"
)

// HashesCollector returns a collector of the metrics millrace_hashes_ for a
// namespace of hashes. The label hashes holds the namespace's name; hashes and
// fields are no labels. Register it once a registry and namespace; see the
// package's documentation for several processes.
func HashesCollector(h *expiry.Hashes) prometheus.Collector {
	this := prometheus.Labels{"hashes": h.Name()}
	all := seriesOf("hashes", hashesFigures, this)
	return collector[expiry.Stats]{
		stats:    h.Stats,
		up:       upOf("hashes", this),
		describe: all.describe,
		send:     func(ch chan<- prometheus.Metric, s expiry.Stats) { all.send(ch, s) },
	}
}

// KeysCollector returns a collector of the metrics millrace_keys_ for a namespace
// of pinned values. The label keys holds the namespace's name; keys are no
// labels. Register it once a registry and namespace; see the package's
// documentation for several processes.
func KeysCollector(k *pinned.Keys) prometheus.Collector {
	this := prometheus.Labels{"keys": k.Name()}
	all := seriesOf("keys", keysFigures, this)
	return collector[pinned.Stats]{
		stats:    k.Stats,
		up:       upOf("keys", this),
		describe: all.describe,
		send:     func(ch chan<- prometheus.Metric, s pinned.Stats) { all.send(ch, s) },
	}
}

var hashesFigures = []figure[expiry.Stats]{
	{
		name: "with_deadlines", kind: prometheus.GaugeValue,
		help:  "Hashes of which some fields have a deadline.",
		value: func(s expiry.Stats) float64 { return float64(s.Hashes) },
	},
	{
		name: "overdue", kind: prometheus.GaugeValue,
		help:  "Hashes of which some fields may have expired and were not reaped yet.",
		value: func(s expiry.Stats) float64 { return float64(s.Overdue) },
	},
	{
		name: "oldest_overdue_seconds", kind: prometheus.GaugeValue,
		help:  "How long ago the first of the hashes that are overdue was due; 0 for none.",
		value: func(s expiry.Stats) float64 { return s.OldestOverdue.Seconds() },
	},
	{
		name: "shards", kind: prometheus.GaugeValue,
		help:  "Shards of the namespace; 0 when there is none.",
		value: func(s expiry.Stats) float64 { return float64(s.Shards) },
	},
	{
		name: "set_total", kind: prometheus.CounterValue,
		help:  "Fields that were written.",
		value: func(s expiry.Stats) float64 { return float64(s.Set) },
	},
	{
		name: "deleted_total", kind: prometheus.CounterValue,
		help:  "Fields that were removed while they were there.",
		value: func(s expiry.Stats) float64 { return float64(s.Deleted) },
	},
	{
		name: "reaped_total", kind: prometheus.CounterValue,
		help:  "Expired fields that were removed.",
		value: func(s expiry.Stats) float64 { return float64(s.Reaped) },
	},
	{
		name: "repaired_total", kind: prometheus.CounterValue,
		help:  "What other programs had done and the repair job undid.",
		value: func(s expiry.Stats) float64 { return float64(s.Repaired) },
	},
}

const valuesHelp = "Values by state; those that are overdue are hidden and were not reaped yet."

var keysFigures = []figure[pinned.Stats]{
	{
		name: "values", state: "there", kind: prometheus.GaugeValue,
		help:  valuesHelp,
		value: func(s pinned.Stats) float64 { return float64(s.Keys) },
	},
	{
		name: "values", state: "overdue", kind: prometheus.GaugeValue,
		help:  valuesHelp,
		value: func(s pinned.Stats) float64 { return float64(s.Overdue) },
	},
	{
		name: "oldest_overdue_seconds", kind: prometheus.GaugeValue,
		help:  "How long ago the first value that is overdue was due; 0 for none.",
		value: func(s pinned.Stats) float64 { return s.OldestOverdue.Seconds() },
	},
	{
		name: "shards", kind: prometheus.GaugeValue,
		help:  "Shards of the namespace; 0 when there is none.",
		value: func(s pinned.Stats) float64 { return float64(s.Shards) },
	},
	{
		name: "set_total", kind: prometheus.CounterValue,
		help:  "Values that were stored.",
		value: func(s pinned.Stats) float64 { return float64(s.Set) },
	},
	{
		name: "deleted_total", kind: prometheus.CounterValue,
		help:  "Values that were removed before their deadline.",
		value: func(s pinned.Stats) float64 { return float64(s.Deleted) },
	},
	{
		name: "reaped_total", kind: prometheus.CounterValue,
		help:  "Values that were removed after their deadline.",
		value: func(s pinned.Stats) float64 { return float64(s.Reaped) },
	},
}
