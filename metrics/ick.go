package metrics

import (
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/ick"
)

// IckCollector returns a collector of the metrics millrace_ick_ for an Ick. The
// label ick holds its name, so it is for Icks of which a program has a few.
// Register it once a registry and name; see the package's documentation for
// several processes.
func IckCollector(k *ick.Ick) prometheus.Collector {
	this := prometheus.Labels{"ick": k.Name()}
	all := seriesOf("ick", ickFigures, this)
	return collector[ick.Stats]{
		stats:    k.Stats,
		missing:  millrace.ErrNotFound,
		up:       upOf("ick", this),
		describe: all.describe,
		send:     func(ch chan<- prometheus.Metric, s ick.Stats) { all.send(ch, s) },
	}
}

// ChannelCollector returns a collector of the metrics millrace_channel_ for a
// channel. Its label channel holds the channel's name. What an Ick has, each Ick
// of the channel has for itself, under its index in the label ick: so uneven Icks
// show, and a sum over counters does not fall when one is retired. That makes
// some dozen series for each of the channel's Icks.
func ChannelCollector(c *ick.Channel) prometheus.Collector {
	this := prometheus.Labels{"channel": c.Name()}
	all := channelSeriesOf(this)
	return collector[ick.ChannelStats]{
		stats:    c.Stats,
		missing:  millrace.ErrNotFound,
		up:       upOf("channel", this),
		describe: all.describe,
		send:     func(ch chan<- prometheus.Metric, s ick.ChannelStats) { all.send(ch, s) },
	}
}

// channelSeries are the figures of channels as a whole, and of each of their Icks.
type channelSeries struct {
	whole series[ick.ChannelStats]
	each  series[ick.Stats]
}

func channelSeriesOf(fixed prometheus.Labels, others ...string) channelSeries {
	return channelSeries{
		whole: seriesOf("channel", channelFigures, fixed, others...),
		each:  seriesOf("channel", ickFigures, fixed, append(slices.Clip(others), "ick")...),
	}
}

func (c channelSeries) describe(ch chan<- *prometheus.Desc) {
	c.whole.describe(ch)
	c.each.describe(ch)
}

func (c channelSeries) send(ch chan<- prometheus.Metric, s ick.ChannelStats, others ...string) {
	c.whole.send(ch, s, others...)
	for index, one := range s.Icks {
		c.each.send(ch, one, append(slices.Clip(others), strconv.Itoa(index))...)
	}
}

const marksHelp = "Marks by state; a member that was marked again while reserved waits and is reserved."

var ickFigures = []figure[ick.Stats]{
	{
		name: "marks", state: "waiting", kind: prometheus.GaugeValue,
		help:  marksHelp,
		value: func(s ick.Stats) float64 { return float64(s.Waiting.Size) },
	},
	{
		name: "marks", state: "reserved", kind: prometheus.GaugeValue,
		help:  marksHelp,
		value: func(s ick.Stats) float64 { return float64(s.Reserved.Size) },
	},
	{
		name: "marks", state: "parked", kind: prometheus.GaugeValue,
		help:  marksHelp,
		value: func(s ick.Stats) float64 { return float64(s.Parked) },
	},
	{
		name: "members", kind: prometheus.GaugeValue,
		help:  "Members that wait or are reserved, each once.",
		value: func(s ick.Stats) float64 { return float64(s.Distinct) },
	},
	{
		name: "oldest_age_seconds", kind: prometheus.GaugeValue,
		help:  "How long the oldest mark has waited; 0 when there is none or its score does not tell.",
		value: func(s ick.Stats) float64 { return s.OldestAge.Seconds() },
	},
	{
		name: "new_total", kind: prometheus.CounterValue,
		help:  "Marks for members that did not wait.",
		value: func(s ick.Stats) float64 { return float64(s.Counters.New) },
	},
	{
		name: "folded_total", kind: prometheus.CounterValue,
		help:  "Marks that fell on one that waited.",
		value: func(s ick.Stats) float64 { return float64(s.Counters.Folded) },
	},
	{
		name: "reserved_total", kind: prometheus.CounterValue,
		help:  "Marks that were reserved.",
		value: func(s ick.Stats) float64 { return float64(s.Counters.Reserved) },
	},
	{
		name: "committed_total", kind: prometheus.CounterValue,
		help:  "Members that were committed.",
		value: func(s ick.Stats) float64 { return float64(s.Counters.Committed) },
	},
	{
		name: "kept_total", kind: prometheus.CounterValue,
		help:  "Members whose commit came too late.",
		value: func(s ick.Stats) float64 { return float64(s.Counters.Kept) },
	},
	{
		name: "parked_total", kind: prometheus.CounterValue,
		help:  "Failures of members that were parked.",
		value: func(s ick.Stats) float64 { return float64(s.Counters.Parked) },
	},
	{
		name: "retried_total", kind: prometheus.CounterValue,
		help:  "Parked members that were tried again, in time or by hand.",
		value: func(s ick.Stats) float64 { return float64(s.Counters.Retried) },
	},
	{
		name: "dropped_total", kind: prometheus.CounterValue,
		help:  "Parked members that were dropped by hand.",
		value: func(s ick.Stats) float64 { return float64(s.Counters.Dropped) },
	},
}

var channelFigures = []figure[ick.ChannelStats]{
	{
		name: "consumers", kind: prometheus.GaugeValue,
		help:  "Consumers that are alive.",
		value: func(s ick.ChannelStats) float64 { return float64(s.Consumers) },
	},
	{
		name: "used_icks", kind: prometheus.GaugeValue,
		help:  "Icks that producers use.",
		value: func(s ick.ChannelStats) float64 { return float64(s.Size) },
	},
	{
		name: "served_icks", kind: prometheus.GaugeValue,
		help:  "Icks that are served, those that are being emptied included.",
		value: func(s ick.ChannelStats) float64 { return float64(len(s.Icks)) },
	},
	{
		name: "unowned_icks", kind: prometheus.GaugeValue,
		help: "Icks that are to be served and have no consumer now.",
		value: func(s ick.ChannelStats) (n float64) {
			for _, one := range s.Icks {
				if one.Owner == "" {
					n++
				}
			}
			return n
		},
	},
}
