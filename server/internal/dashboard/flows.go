package dashboard

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/fairqueue/queuestats"
	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/finding"
	"github.com/millrace/millrace/internal/ops"
	"github.com/millrace/millrace/internal/readable"
	"github.com/millrace/millrace/shuffleshard"
)

// flowList ranks the flows of a queue.
type flowList struct {
	Ranks  []rank
	Rows   []flowRow
	Sort   sorting // the column that ranks them
	Count  int     // flows with waiting messages
	Looked int     // how many of them are ranked
	More   int     // how many of those have no row
	Held   int

	Streams, PerTenant int    // 0 if flows are tenants
	All, None          string // how likely two tenants share all streams, and none
}

// flowRow is one flow.
type flowRow struct {
	queuestats.Flow

	Key  string // on the page
	Path string // of its page; empty for a stream

	State   string // why it waits, if not for its turn or its handlers
	Stopped bool   // paused, or throttled: it can be resumed
	Limited string // its limits in words; empty for none

	Waits, Oldest, Flying, Takes measure
}

// measure is a number with a bar.
type measure struct {
	Words string
	Share string // of the whole; may be empty
	Width int    // of the bar, in hundredths
	Tone  string
	None  bool // unknown
}

// rank is one order of flows, with its first flow.
type rank struct {
	Name    string
	Path    string
	Current bool
	First   flowRow
	None    bool // no flow is first
	About   string
}

// sorting is an order of flows.
type sorting string

const (
	byWaiting  sorting = "waiting"
	byOldest   sorting = "oldest"
	byHandling sorting = "handling"
)

// maxFlows is how many flows have a row.
const maxFlows = 15

// state says why a tenant may not start a message now.
func state(f queuestats.Flow, why diagnosis.Why, now time.Time) string {
	switch {
	case why == diagnosis.ForRate:
		return "rate"
	case why == diagnosis.ForInFlight:
		return "most in flight"
	case f.Paused:
		return "paused"
	case why == diagnosis.ForPause:
		return "paused for " + ago(f.NotBefore.Sub(now))
	}
	return ""
}

// most has the largest numbers of flows, which have the longest bars.
func most(flows []queuestats.Flow) (m queuestats.Flow) {
	for _, f := range flows {
		m.Waiting, m.OldestAge, m.Handling = max(m.Waiting, f.Waiting), max(m.OldestAge, f.OldestAge), max(m.Handling, f.Handling)
	}
	return m
}

func newFlowRow(f queuestats.Flow, s fairqueue.Stats, most queuestats.Flow, path string) flowRow {
	why := diagnosis.WhyWaits(s)(f)
	r := flowRow{
		Flow: f, Key: "t" + token(f.Tenant), Path: path, State: state(f, why, s.At), Stopped: why == diagnosis.ForPause,
		Waits:  measure{readable.Number(f.Waiting), percent(part(f.Waiting, s.Waiting)), hundredths(part(f.Waiting, most.Waiting)), "used", false},
		Oldest: measure{ago(f.OldestAge), "", hundredths(part(f.OldestAge, most.OldestAge)), "used", false},
		Flying: measure{readable.Number(f.InFlight), "", hundredths(part(f.InFlight, s.Capacity)), "high", f.Stream >= 0},
		Takes:  measure{takes(f.Handling), "", hundredths(part(f.Handling, most.Handling)), "used", f.Handling < 0},
	}
	if f.Held {
		r.Takes.Tone = "full"
	}
	if f.Stream >= 0 {
		r.Key = "s" + readable.Number(f.Stream)
	} else if l := ops.OfLimits(f.Limits).String(); l != "none" {
		r.Limited = l
	}
	return r
}

// newFlows ranks the flows of a queue. path returns the path of a ranking, and tenant that
// of the page of a tenant.
func newFlows(s fairqueue.Stats, by sorting, path func(sorting) string, tenant func(string) string) flowList {
	l := flowList{Sort: by, Count: s.FlowCount, Looked: len(s.Flows), Streams: s.Streams, PerTenant: s.PerTenant}
	if by != byOldest && by != byHandling {
		l.Sort = byWaiting
	}
	if s.Streams > 0 {
		chances := shuffleshard.Collision(s.Streams, s.PerTenant)
		l.All, l.None = odds(chances[len(chances)-1]), percent(chances[0])
	}
	most := most(s.Flows)
	for _, f := range s.Flows {
		if f.Held {
			l.Held++
		}
	}
	row := func(f queuestats.Flow) flowRow {
		path := ""
		if f.Stream < 0 {
			path = tenant(f.Tenant)
		}
		return newFlowRow(f, s, most, path)
	}
	for _, kind := range []struct {
		by    sorting
		name  string
		there bool
		about func(flowRow) string
	}{
		{byWaiting, "Most waiting", most.Waiting > 0, func(f flowRow) string {
			return readable.Count(f.Waiting, "message") + ", " + f.Waits.Share + " of all that wait"
		}},
		{byOldest, "Waits longest", most.OldestAge > 0, func(f flowRow) string { return "for " + ago(f.OldestAge) }},
		{byHandling, "Slowest handlers", most.Handling > 0 || l.Held > 0, func(f flowRow) string {
			switch {
			case f.Takes.None:
				return "held, none has finished recently"
			case f.Held:
				return "held, " + f.Takes.Words + " for a message"
			}
			return f.Takes.Words + " for a message"
		}},
	} {
		flows := ranked(s.Flows, kind.by)
		if kind.by == l.Sort {
			l.More = max(0, len(flows)-maxFlows)
			for _, f := range flows[:len(flows)-l.More] {
				l.Rows = append(l.Rows, row(f))
			}
		}
		r := rank{Name: kind.name, Path: path(kind.by), Current: kind.by == l.Sort, None: !kind.there, About: "none"}
		if kind.there {
			r.First = row(flows[0])
			r.About = kind.about(r.First)
		}
		l.Ranks = append(l.Ranks, r)
	}
	return l
}

// ranked sorts flows. By handlers, flows that are held come first, also if the handling time
// is unknown.
func ranked(flows []queuestats.Flow, by sorting) []queuestats.Flow {
	flows = slices.Clone(flows)
	slices.SortStableFunc(flows, func(a, b queuestats.Flow) int {
		switch by { //nolint:exhaustive // the default is byWaiting
		case byOldest:
			return cmp.Compare(b.OldestAge, a.OldestAge)
		case byHandling:
			if a.Held != b.Held {
				return cmp.Compare(held(b), held(a))
			}
			return cmp.Compare(b.Handling, a.Handling)
		}
		return cmp.Compare(b.Waiting, a.Waiting)
	})
	return flows
}

func held(f queuestats.Flow) int {
	if f.Held {
		return 1
	}
	return 0
}

// part is the share of n in the whole.
func part[N ~int | ~int64](n, whole N) float64 {
	if whole <= 0 {
		return 0
	}
	return min(1, max(0, float64(n)/float64(whole)))
}

// hundredths is the width of a bar; at least 1 for a share above 0.
func hundredths(part float64) int { return int(math.Ceil(100 * part)) }

// readerList is the consumers of a queue.
type readerList struct {
	Rows []readerRow
	Busy int // busy handlers
	All  int // handlers
}

// readerRow is one consumer.
type readerRow struct {
	queuestats.Reader

	Hands  measure
	Silent bool // it has gone
}

func newReaders(s fairqueue.Stats) readerList {
	var l readerList
	for _, r := range s.Readers {
		hands := measure{readable.Number(r.InFlight), "", hundredths(part(r.InFlight, r.Concurrency)), "used", false}
		if r.InFlight >= r.Concurrency {
			hands.Tone = "high"
		}
		one := readerRow{r, hands, s.At.Sub(r.LastSeen) >= finding.ReaderSilentAge}
		if !one.Silent {
			l.Busy, l.All = l.Busy+r.InFlight, l.All+r.Concurrency
		}
		l.Rows = append(l.Rows, one)
	}
	return l
}
