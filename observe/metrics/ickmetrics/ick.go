// Package ickmetrics exports the Stats of Icks and channels to Prometheus: the metrics
// millrace_ick_... and millrace_channel_... of docs/METRICS.md. Package metrics says how
// collectors behave.
package ickmetrics

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/figures"
)

// Collector returns a collector of an Ick or a channel, which it reads at each scrape; or of
// many that a function has read, with the names of those that it could not read. A channel has
// the metrics of each of its Icks, with the index of the Ick in the label ick, and a few of its
// own.
func Collector[
	I *ick.Ick | *ick.Channel | func() ([]ick.Stats, []string) | func() ([]ick.ChannelStats, []string),
](of I) prometheus.Collector {
	switch of := any(of).(type) {
	case *ick.Ick:
		return figures.Of(figures.New("ick", marks), of.Stats, of.Name())
	case *ick.Channel:
		return figures.Of(channelFamily(), of.Stats, of.Name())
	case func() ([]ick.Stats, []string):
		return figures.Many(figures.New("ick", marks, "ick"), of, func(s ick.Stats) string { return s.Name })
	case func() ([]ick.ChannelStats, []string):
		return figures.Many(channelFamily("channel"), of, func(s ick.ChannelStats) string { return s.Name })
	}
	panic("unreachable")
}

// channelFamily returns the figures of a channel and those of its Icks.
func channelFamily(labels ...string) figures.Family[ick.ChannelStats] {
	f := figures.New("channel", channel, labels...)
	sendWhole, icks := f.Send, figures.New("channel", marks, append(labels, "ick")...)
	f.Descs = append(f.Descs, icks.Descs...)
	f.Send = func(ch chan<- prometheus.Metric, s ick.ChannelStats, values ...string) {
		sendWhole(ch, s, values...)
		for index, stats := range s.Icks {
			icks.Send(ch, stats, append(values, strconv.Itoa(index))...)
		}
	}
	return f
}

const marksHelp = "Marks by state; a reserved member that was marked again counts as waiting and as reserved."

var marks = figures.WithCounters(func(s ick.Stats) ick.Counters { return s.Counters },
	figures.Gauge("marks", marksHelp, func(s ick.Stats) int { return s.Waiting.Size }).Of("waiting"),
	figures.Gauge("marks", marksHelp, func(s ick.Stats) int { return s.Reserved.Size }).Of("reserved"),
	figures.Gauge("marks", marksHelp, func(s ick.Stats) int { return s.Parked }).Of("parked"),
	figures.Gauge("members", "Members that wait or are reserved, each counted once.", func(s ick.Stats) int { return s.Distinct }),
	figures.Gauge("oldest_age_seconds", "How long the oldest mark has waited; 0 if there is none, or if its score is not a time.",
		func(s ick.Stats) time.Duration { return s.OldestAge }),
)

var channel = []figures.Figure[ick.ChannelStats]{
	figures.Gauge("consumers", "Live consumers.", func(s ick.ChannelStats) int { return s.Consumers }),
	figures.Gauge("used_icks", "Icks that producers use.", func(s ick.ChannelStats) int { return s.Size }),
	figures.Gauge("served_icks", "Icks that consumers serve, including those that are being emptied.", func(s ick.ChannelStats) int { return len(s.Icks) }),
	figures.Gauge("unowned_icks", "Icks that should be served and have no consumer.", func(s ick.ChannelStats) (n int) {
		for _, k := range s.Icks {
			if k.Owner == "" {
				n++
			}
		}
		return n
	}),
}
