package metrics

import (
	"iter"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/expiry"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/observe/upkeep"
	"github.com/millrace/millrace/pinned"
)

// Census is the Stats of many structures, read at about the same time.
type Census struct {
	Queues   []fairqueue.Stats
	Icks     []ick.Stats
	Channels []ick.ChannelStats
	Hashes   []expiry.Stats
	Keys     []pinned.Stats
	Upkeep   *upkeep.Totals // nil if unknown
	Fleet    *Fleet         // nil for none

	// Unread has the names of structures that could not be read, by the kind as in the
	// names of metrics: queue, ick, channel, hashes, keys. Its key upkeep stands for the
	// totals.
	Unread map[string][]string
}

// CensusCollector returns a collector of the results of take: the same metrics, with the same
// labels, as the collectors of single structures. It does not ask Redis. It describes no
// metrics in advance, so a registry accepts it beside those, but not for the same structures.
func CensusCollector(take func() Census) prometheus.Collector {
	queues, icks := newQueueFamily("queue"), newFamily("ick", ickFigures, "ick")
	hashes, keys := newFamily("hashes", hashesFigures, "hashes"), newFamily("keys", keysFigures, "keys")
	channels, totals, fleets := newChannelFamily("channel"), newUpkeepFamily(), newFleetFamily()
	return collector{nil, func(ch chan<- prometheus.Metric) {
		c := take()
		queues.sendAll(ch, c.Queues, func(s fairqueue.Stats) string { return s.Name }, c.Unread)
		icks.sendAll(ch, c.Icks, func(s ick.Stats) string { return s.Name }, c.Unread)
		channels.sendAll(ch, c.Channels, func(s ick.ChannelStats) string { return s.Name }, c.Unread)
		hashes.sendAll(ch, c.Hashes, func(s expiry.Stats) string { return s.Name }, c.Unread)
		keys.sendAll(ch, c.Keys, func(s pinned.Stats) string { return s.Name }, c.Unread)
		switch {
		case c.Upkeep != nil:
			ch <- prometheus.MustNewConstMetric(totals.up, prometheus.GaugeValue, 1)
			totals.send(ch, *c.Upkeep)
		case c.Unread["upkeep"] != nil:
			ch <- prometheus.MustNewConstMetric(totals.up, prometheus.GaugeValue, 0)
		}
		if c.Fleet != nil {
			fleets.send(ch, *c.Fleet)
		}
	}}
}

// sendAll sends the metrics of all structures of the kind.
func (f family[S]) sendAll(ch chan<- prometheus.Metric, all []S, name func(S) string, unread map[string][]string) {
	sent := map[string]bool{}
	for name, stats := range labelled(all, name) {
		sent[name] = true
		ch <- prometheus.MustNewConstMetric(f.up, prometheus.GaugeValue, 1, name)
		f.send(ch, stats, name)
	}
	for _, name := range unread[f.kind] {
		if name := label(name); !sent[name] {
			sent[name] = true
			ch <- prometheus.MustNewConstMetric(f.up, prometheus.GaugeValue, 0, name)
		}
	}
}

// labelled yields values with the labels of their names. Of names that are not UTF-8 and
// have the same label, the first one has it.
func labelled[T any](values []T, name func(T) string) iter.Seq2[string, T] {
	return func(yield func(string, T) bool) {
		seen := make(map[string]bool, len(values))
		for _, value := range values {
			l := label(name(value))
			if !seen[l] && !yield(l, value) {
				return
			}
			seen[l] = true
		}
	}
}
