// Package expirymetrics exports the Stats of a namespace of hashes to Prometheus: the metrics
// millrace_hashes_... of docs/METRICS.md. Package metrics says how collectors behave.
package expirymetrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/expiry"
	"github.com/millrace/millrace/internal/figures"
)

// Collector returns a collector of a namespace, which it reads at each scrape; or of many that
// a function has read, with the names of those that it could not read.
func Collector[N *expiry.Hashes | func() ([]expiry.Stats, []string)](of N) prometheus.Collector {
	switch of := any(of).(type) {
	case *expiry.Hashes:
		return figures.Of(figures.New("hashes", hashes), of.Stats, of.Name())
	case func() ([]expiry.Stats, []string):
		return figures.Many(figures.New("hashes", hashes, "hashes"), of, func(s expiry.Stats) string { return s.Name })
	}
	panic("unreachable")
}

const shardsHelp = "Shards of the namespace; 0 if it does not exist."

var hashes = []figures.Figure[expiry.Stats]{
	figures.Gauge("with_deadlines", "Hashes that have fields with a deadline.", func(s expiry.Stats) int { return s.Hashes }),
	figures.Gauge("overdue", "Hashes that a reaper is to look at: most have expired fields.", func(s expiry.Stats) int { return s.Overdue }),
	figures.Gauge("oldest_overdue_seconds", "Time since the first of the overdue hashes was to be looked at; 0 for none.",
		func(s expiry.Stats) time.Duration { return s.OldestOverdue }),
	figures.Gauge("shards", shardsHelp, func(s expiry.Stats) int { return s.Shards }),
	figures.Counter("deleted_total", "Fields that were removed before they expired.", func(s expiry.Stats) int64 { return s.Deleted }),
	figures.Counter("reaped_total", "Expired fields that were removed.", func(s expiry.Stats) int64 { return s.Reaped }),
	figures.Counter("repaired_total", "Changes by other programs that the repair job undid.", func(s expiry.Stats) int64 { return s.Repaired }),
}
