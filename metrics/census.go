package metrics

import (
	"iter"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/expiry"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/pinned"
	"github.com/millrace/millrace/upkeep"
)

// Census is what somebody saw who went round many structures.
type Census struct {
	Queues   []fairqueue.Stats
	Icks     []ick.Stats
	Channels []ick.ChannelStats
	Hashes   []expiry.Stats
	Keys     []pinned.Stats
	Upkeep   *upkeep.Totals // nil if they are not known
	Fleet    *Fleet         // nil unless there is one

	// Unread names the structures that could not be read, by their kind as in names of
	// metrics: queue, ick, channel, hashes, keys. The entry upkeep means the totals.
	Unread map[string][]string
}

// CensusCollector returns a collector that shows what take returns as the
// collectors of single structures do: the same metrics, with the same labels. It
// asks Redis nothing by itself. It does not say beforehand which metrics it has, so
// a registry takes it beside those, but not for the same structures.
func CensusCollector(take func() Census) prometheus.Collector {
	channels := channelSeriesOf(nil, "channel")
	return censusCollector{
		take:     take,
		queues:   sectionOf("queue", seriesOf("queue", queueFigures, nil, "queue").send, func(s fairqueue.Stats) string { return s.Name }),
		icks:     sectionOf("ick", seriesOf("ick", ickFigures, nil, "ick").send, func(s ick.Stats) string { return s.Name }),
		channels: sectionOf("channel", channels.send, func(s ick.ChannelStats) string { return s.Name }),
		hashes:   sectionOf("hashes", seriesOf("hashes", hashesFigures, nil, "hashes").send, func(s expiry.Stats) string { return s.Name }),
		keys:     sectionOf("keys", seriesOf("keys", keysFigures, nil, "keys").send, func(s pinned.Stats) string { return s.Name }),
		upkeepUp: upDesc("upkeep", nil),
		upkeep:   newUpkeepSeries(),
		fleet:    newFleetSeries(),
	}
}

type censusCollector struct {
	take     func() Census
	queues   section[fairqueue.Stats]
	icks     section[ick.Stats]
	channels section[ick.ChannelStats]
	hashes   section[expiry.Stats]
	keys     section[pinned.Stats]
	upkeepUp *prometheus.Desc
	upkeep   upkeepSeries
	fleet    fleetSeries
}

// Describe says nothing: which structures there are is known when they were seen.
func (censusCollector) Describe(chan<- *prometheus.Desc) {}

// Collect shows the census.
func (c censusCollector) Collect(ch chan<- prometheus.Metric) {
	census := c.take()
	c.queues.send(ch, census.Queues, census.Unread)
	c.icks.send(ch, census.Icks, census.Unread)
	c.channels.send(ch, census.Channels, census.Unread)
	c.hashes.send(ch, census.Hashes, census.Unread)
	c.keys.send(ch, census.Keys, census.Unread)
	switch {
	case census.Upkeep != nil:
		ch <- prometheus.MustNewConstMetric(c.upkeepUp, prometheus.GaugeValue, 1)
		c.upkeep.send(ch, *census.Upkeep)
	case census.Unread["upkeep"] != nil:
		ch <- prometheus.MustNewConstMetric(c.upkeepUp, prometheus.GaugeValue, 0)
	}
	if census.Fleet != nil {
		c.fleet.send(ch, *census.Fleet)
	}
}

// section is all structures of a kind.
type section[S any] struct {
	kind string
	up   *prometheus.Desc
	one  func(ch chan<- prometheus.Metric, stats S, name ...string)
	name func(S) string
}

func sectionOf[S any](kind string, one func(chan<- prometheus.Metric, S, ...string), name func(S) string) section[S] {
	return section[S]{kind: kind, up: upDesc(kind, nil, kind), one: one, name: name}
}

func (s section[S]) send(ch chan<- prometheus.Metric, all []S, unread map[string][]string) {
	there := map[string]bool{}
	for name, stats := range labelled(all, s.name) {
		there[name] = true
		ch <- prometheus.MustNewConstMetric(s.up, prometheus.GaugeValue, 1, name)
		s.one(ch, stats, name)
	}
	for _, name := range unread[s.kind] {
		if name := label(name); !there[name] {
			there[name] = true
			ch <- prometheus.MustNewConstMetric(s.up, prometheus.GaugeValue, 0, name)
		}
	}
}

// labelled goes through things with names, by their labels. Two whose names are not
// text may have the same label; the first has it then.
func labelled[T any](things []T, name func(T) string) iter.Seq2[string, T] {
	return func(yield func(string, T) bool) {
		seen := make(map[string]bool, len(things))
		for _, thing := range things {
			l := label(name(thing))
			if !seen[l] && !yield(l, thing) {
				return
			}
			seen[l] = true
		}
	}
}
