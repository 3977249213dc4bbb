package survey

import (
	"maps"
	"slices"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/steal"
)

// Series is up to an hour of one structure, for a chart.
type Series struct {
	Times   []int64 // Unix seconds, ascending: 5 s apart, or farther where nothing could be read
	Columns []Column
}

// Column is one number of a structure, with a value for each time.
type Column struct {
	Name   string
	Values []float64
}

// Series returns the last hour of a structure, of a job with the kind [Steal], or of
// all masters together with [Server] and no name. It is empty for what is not known
// and for what was seen once, because a rate needs two samples.
//
//	Queue         waiting, in_flight, delayed, dead, oldest_age_seconds; written, delivered, acked
//	Ick, Channel  waiting, reserved, oldest_age_seconds; new, folded, committed
//	Steal         worked, idle, aborted
//	Server        memory_bytes, ops
//
// What stands behind a semicolon, and what there is of Steal, are rates: how many a
// second since the time before. A counter that went back has a rate of 0.
func (s *Survey) Series(kind Kind, name string) Series {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.histories.of[subject{kind, name}]
	if h == nil {
		return Series{}
	}
	return h.series()
}

// column is one number of which the history is kept.
type column[S any] struct {
	heading

	value func(S) float64
}

// heading is what a column is called, and what it shows.
type heading struct {
	name string
	rate bool // how much the number grew, a second
}

var queueColumns = []column[fairqueue.Stats]{
	{heading{name: "waiting"}, func(s fairqueue.Stats) float64 { return float64(s.Waiting) }},
	{heading{name: "in_flight"}, func(s fairqueue.Stats) float64 { return float64(s.InFlight) }},
	{heading{name: "delayed"}, func(s fairqueue.Stats) float64 { return float64(s.Delayed) }},
	{heading{name: "dead"}, func(s fairqueue.Stats) float64 { return float64(s.Dead) }},
	{heading{name: "oldest_age_seconds"}, func(s fairqueue.Stats) float64 { return s.OldestAge.Seconds() }},
	{heading{"written", true}, func(s fairqueue.Stats) float64 { return float64(s.Counters.Written) }},
	{heading{"delivered", true}, func(s fairqueue.Stats) float64 { return float64(s.Counters.Delivered) }},
	{heading{"acked", true}, func(s fairqueue.Stats) float64 { return float64(s.Counters.Acked) }},
}

var ickColumns = []column[ick.Stats]{
	{heading{name: "waiting"}, func(s ick.Stats) float64 { return float64(s.Waiting.Size) }},
	{heading{name: "reserved"}, func(s ick.Stats) float64 { return float64(s.Reserved.Size) }},
	{heading{name: "oldest_age_seconds"}, func(s ick.Stats) float64 { return s.OldestAge.Seconds() }},
	{heading{"new", true}, func(s ick.Stats) float64 { return float64(s.Counters.New) }},
	{heading{"folded", true}, func(s ick.Stats) float64 { return float64(s.Counters.Folded) }},
	{heading{"committed", true}, func(s ick.Stats) float64 { return float64(s.Counters.Committed) }},
}

var channelColumns = []column[ick.ChannelStats]{
	{heading{name: "waiting"}, func(s ick.ChannelStats) float64 { return float64(s.Waiting) }},
	{heading{name: "reserved"}, func(s ick.ChannelStats) float64 { return float64(s.Reserved) }},
	{heading{name: "oldest_age_seconds"}, func(s ick.ChannelStats) float64 { return s.OldestAge.Seconds() }},
	{heading{"new", true}, func(s ick.ChannelStats) float64 { return float64(s.Counters.New) }},
	{heading{"folded", true}, func(s ick.ChannelStats) float64 { return float64(s.Counters.Folded) }},
	{heading{"committed", true}, func(s ick.ChannelStats) float64 { return float64(s.Counters.Committed) }},
}

var jobColumns = []column[steal.JobStats]{
	{heading{"worked", true}, func(j steal.JobStats) float64 { return float64(j.Worked) }},
	{heading{"idle", true}, func(j steal.JobStats) float64 { return float64(j.Idle) }},
	{heading{"aborted", true}, func(j steal.JobStats) float64 { return float64(j.Aborted.Sum()) }},
}

var serverColumns = []column[ServerView]{
	{heading{name: "memory_bytes"}, func(s ServerView) float64 { return float64(s.Memory()) }},
	{heading{name: "ops"}, func(s ServerView) float64 { return float64(s.Ops()) }},
}

// subject is what has a history.
type subject struct {
	kind Kind
	name string
}

// early is how much earlier than due samples may be, so that looks which come a
// little early are not left out.
const early = every / 10

// histories is what is remembered, by what it is of. All have samples of the same
// looks, so that they can be added up.
type histories struct {
	of   map[subject]*history
	last int64 // when the newest samples are from, in Unix milliseconds
}

// add takes a sample of all that a View saw, unless the last ones are too young for
// others, and forgets what is not known any more. When the clock was set back all
// begins anew.
func (h *histories) add(v *View, known names) {
	if v.Away() != nil {
		return
	}
	h.forget(v, known)
	at := v.At.UnixMilli()
	switch {
	case at < h.last:
		clear(h.of)
	case at-h.last < (every - early).Milliseconds():
		return
	}
	h.last = at
	for _, s := range v.Queues {
		sample(h, at, Queue, s.Name, queueColumns, s)
	}
	for _, s := range v.Icks {
		sample(h, at, Ick, s.Name, ickColumns, s)
	}
	for _, s := range v.Channels {
		sample(h, at, Channel, s.Name, channelColumns, s)
	}
	for _, j := range v.Steal.Jobs {
		sample(h, at, Steal, j.Name, jobColumns, j)
	}
	sample(h, at, Server, "", serverColumns, v.Server)
}

// forget forgets structures that were not found any more, and jobs that nobody has.
// What could not be read is remembered.
func (h *histories) forget(v *View, known names) {
	jobsRead := !slices.ContainsFunc(v.Troubles, func(t Trouble) bool { return t.Kind == Steal })
	maps.DeleteFunc(h.of, func(of subject, _ *history) bool {
		if of.kind == Server {
			return false
		}
		if of.kind == Steal {
			return jobsRead && !slices.ContainsFunc(v.Steal.Jobs, func(j steal.JobStats) bool { return j.Name == of.name })
		}
		return !known.has(of.kind, of.name)
	})
}

// sample adds a sample of one subject.
func sample[S any](h *histories, at int64, kind Kind, name string, columns []column[S], stats S) {
	of := subject{kind, name}
	kept := h.of[of]
	if kept == nil {
		headings := make([]heading, len(columns))
		for i, c := range columns {
			headings[i] = c.heading
		}
		kept = newHistory(headings)
		h.of[of] = kept
	}
	row := kept.row(at)
	for i, c := range columns {
		row[i] = c.value(stats)
	}
}
