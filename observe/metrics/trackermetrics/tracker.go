// Package trackermetrics exports the Stats of a tracker to Prometheus: the metrics
// millrace_tracker_... of docs/METRICS.md. Package metrics says how collectors behave.
package trackermetrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/internal/figures"
	"github.com/millrace/millrace/tracker"
)

// Collector returns a collector of a tracker, which it reads at each scrape.
func Collector(of *tracker.Tracker) prometheus.Collector {
	return figures.Of(figures.New("tracker", identifiers), of.Stats, of.Name())
}

var identifiers = figures.WithCounters(func(s tracker.Stats) tracker.Counters { return s.Counters },
	figures.Gauge("identifiers", "Tracked identifiers.", func(s tracker.Stats) int { return s.Tracked }),
	figures.Gauge("oldest_check_seconds", "The longest time since a tracked identifier was last verified to have work; 0 if none is tracked.",
		func(s tracker.Stats) time.Duration { return s.OldestCheck }),
	figures.Counter("passes_total", "Full passes over the source; before the first, answers are unknown.", func(s tracker.Stats) int64 { return s.Passes }),
	figures.Gauge("pass_age_seconds", "Time since the last full pass began; 0 before the first.", func(s tracker.Stats) time.Duration { return s.PassAge }),
	figures.Gauge("pass_seconds", "Duration of the last full pass; 0 before the first.", func(s tracker.Stats) time.Duration { return s.PassTime }),
	figures.Gauge("cursor_age_seconds", "Time since a pass last advanced; 0 before the first.", func(s tracker.Stats) time.Duration { return s.CursorAge }),
)
