package survey

import (
	"maps"
	"slices"
	"time"

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

// Series returns the last hour of a structure, of a job with the kind [Steal], or of all
// masters together with [Server] and no name. It is empty for an unknown structure and for
// one with a single sample, because a rate needs two.
//
//	Queue         waiting, in_flight, delayed, dead, oldest_age_seconds; written, delivered, acked, failed, died
//	Ick, Channel  waiting, reserved, oldest_age_seconds; new, folded, committed
//	Steal         ; worked, idle, aborted
//	Server        memory_bytes, ops
//
// The columns behind the semicolon are rates per second since the time before. A counter that
// went back has the rate 0.
func (s *Survey) Series(kind Kind, name string) Series {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.histories.of[subject{kind, name}]
	if h == nil {
		return Series{}
	}
	return h.series()
}

// heading is the name of a column.
type heading struct {
	name string
	rate bool // it shows how much the number grew, a second
}

// columns are the numbers of a kind of structure that have a history: first the gauges,
// then the counters, which become rates.
type columns[S any] struct {
	gauges, rates []string
	values        func(S) []float64
}

var queueColumns = columns[fairqueue.Stats]{
	[]string{"waiting", "in_flight", "delayed", "dead", "oldest_age_seconds"}, []string{"written", "delivered", "acked", "failed", "died"},
	func(s fairqueue.Stats) []float64 {
		c := s.Counters
		all := append(floats(s.Waiting, s.InFlight, s.Delayed, s.Dead), s.OldestAge.Seconds())
		return append(all, floats(c.Written, c.Delivered, c.Acked, c.Nacked+c.Reclaimed, c.Buried)...)
	},
}

var (
	ickGauges = []string{"waiting", "reserved", "oldest_age_seconds"}
	ickRates  = []string{"new", "folded", "committed"}
)

var ickColumns = columns[ick.Stats]{ickGauges, ickRates, func(s ick.Stats) []float64 {
	return append(floats(s.Waiting.Size, s.Reserved.Size), ickValues(s.OldestAge, s.Counters)...)
}}

var channelColumns = columns[ick.ChannelStats]{ickGauges, ickRates, func(s ick.ChannelStats) []float64 {
	return append(floats(s.Waiting, s.Reserved), ickValues(s.OldestAge, s.Counters)...)
}}

func ickValues(oldest time.Duration, c ick.Counters) []float64 {
	return append([]float64{oldest.Seconds()}, floats(c.New, c.Folded, c.Committed)...)
}

var jobColumns = columns[steal.JobStats]{nil, []string{"worked", "idle", "aborted"}, func(j steal.JobStats) []float64 {
	return floats(j.Worked, j.Idle, j.Aborted)
}}

var serverColumns = columns[ServerView]{[]string{"memory_bytes", "ops"}, nil, func(s ServerView) []float64 {
	return floats(s.Memory(), s.Ops())
}}

func floats[N int | int64](numbers ...N) []float64 {
	all := make([]float64, len(numbers))
	for i, n := range numbers {
		all[i] = float64(n)
	}
	return all
}

// subject is a structure, a job or the server that has a history.
type subject struct {
	kind Kind
	name string
}

// earlyBy is how much earlier than due a sample may be, since surveys may be a little early.
const earlyBy = idleInterval / 10

// histories are all histories. Their samples are from the same surveys, so they can be added
// up.
type histories struct {
	of   map[subject]*history
	last int64 // time of the newest samples, in Unix milliseconds
}

// add takes a sample of everything in a View, unless the last samples are too young, and
// removes histories of structures that are gone. If the clock was set back, all histories
// begin again.
func (h *histories) add(v *View, known names) {
	if v.Away() != nil {
		return
	}
	h.forget(v, known)
	at := v.At.UnixMilli()
	switch {
	case at < h.last:
		clear(h.of)
	case at-h.last < (idleInterval - earlyBy).Milliseconds():
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

// forget removes the histories of structures and jobs that are gone. It keeps those of
// structures that could not be read.
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
func sample[S any](h *histories, at int64, kind Kind, name string, c columns[S], stats S) {
	of := subject{kind, name}
	if h.of[of] == nil {
		var headings []heading
		for _, name := range c.gauges {
			headings = append(headings, heading{name, false})
		}
		for _, name := range c.rates {
			headings = append(headings, heading{name, true})
		}
		h.of[of] = newHistory(headings)
	}
	copy(h.of[of].row(at), c.values(stats))
}
