// Package pinnedmetrics exports the Stats of a namespace of pinned keys to Prometheus: the metrics
// millrace_keys_... of docs/METRICS.md. Package metrics says how collectors behave.
package pinnedmetrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/internal/figures"
	"github.com/millrace/millrace/pinned"
)

// Collector returns a collector of a namespace, which it reads at each scrape; or of many that
// a function has read, with the names of those that it could not read.
func Collector[N *pinned.Keys | func() ([]pinned.Stats, []string)](of N) prometheus.Collector {
	switch of := any(of).(type) {
	case *pinned.Keys:
		return figures.Of(figures.New("keys", keys), of.Stats, of.Name())
	case func() ([]pinned.Stats, []string):
		return figures.Many(figures.New("keys", keys, "keys"), of, func(s pinned.Stats) string { return s.Name })
	}
	panic("unreachable")
}

const (
	valuesHelp = "Values by state; overdue values have expired, are hidden, and use memory until they are reaped."
	shardsHelp = "Shards of the namespace; 0 if it does not exist."
)

var keys = []figures.Figure[pinned.Stats]{
	figures.Gauge("values", valuesHelp, func(s pinned.Stats) int { return s.Keys }).Of("there"),
	figures.Gauge("values", valuesHelp, func(s pinned.Stats) int { return s.Overdue }).Of("overdue"),
	figures.Gauge("oldest_overdue_seconds", "Time since the first deadline of the overdue values; 0 for none.",
		func(s pinned.Stats) time.Duration { return s.OldestOverdue }),
	figures.Gauge("shards", shardsHelp, func(s pinned.Stats) int { return s.Shards }),
	figures.Counter("set_total", "Values that were stored.", func(s pinned.Stats) int64 { return s.Set }),
	figures.Counter("deleted_total", "Values that were removed before they expired.", func(s pinned.Stats) int64 { return s.Deleted }),
	figures.Counter("reaped_total", "Expired values that were removed.", func(s pinned.Stats) int64 { return s.Reaped }),
}
