package dashboard

import (
	"cmp"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/millrace/millrace/expiry"
	"github.com/millrace/millrace/internal/finding"
	"github.com/millrace/millrace/internal/readable"
	"github.com/millrace/millrace/internal/survey"
	"github.com/millrace/millrace/lease"
	"github.com/millrace/millrace/steal"
)

// leaseRow is one lease. Its Remaining is that of now.
type leaseRow struct {
	lease.Info

	Soon bool // it ends within seconds
}

var leaseColumns = []listColumn[leaseRow]{
	{"name", "Lease", false, false, func(a, b leaseRow) int { return strings.Compare(a.Name, b.Name) }},
	{"state", "State", true, false, func(a, b leaseRow) int { return compareBool(a.Held, b.Held) }},
	{"remaining", "Remaining", true, false, func(a, b leaseRow) int { return cmp.Compare(a.Remaining, b.Remaining) }},
	{"holder", "Holder", false, false, func(a, b leaseRow) int { return strings.Compare(a.Metadata, b.Metadata) }},
	{"fence", "Fence", true, false, func(a, b leaseRow) int { return cmp.Compare(a.Fence, b.Fence) }},
}

func (d *Dashboard) leases(a *asked) (scene, error) {
	asked := a.URL.Query()
	return func(v *survey.View) body {
		l := newList[leaseRow](v, "Leases", survey.Lease)
		age := max(0, time.Since(v.At)) // of the numbers
		for _, info := range v.Leases {
			info.Remaining = max(0, info.Remaining-age)
			l.Rows = append(l.Rows, leaseRow{info, info.Held && info.Remaining < finding.LeaseEndsAge})
		}
		l.Heads = sortRows(asked, d.link("leases"), l.Rows, leaseColumns)
		return l
	}, nil
}

// namespaceTable is all namespaces of hashes, or all of pinned values, whose numbers mean
// the same.
type namespaceTable struct {
	Caption, Entries string
	Repairs          bool // only of hashes
	Rows             []namespaceRow
}

// namespaceRow is a namespace.
type namespaceRow struct {
	expiry.Stats

	Set int64 // only of pinned values
}

func (d *Dashboard) namespaces(*asked) (scene, error) {
	return func(v *survey.View) body {
		l := newList[namespaceTable](v, "Namespaces", survey.Hashes, survey.Keys)
		if len(v.Hashes) > 0 {
			hashes := namespaceTable{"Hashes", "Hashes with deadlines", true, nil}
			for _, h := range v.Hashes {
				hashes.Rows = append(hashes.Rows, namespaceRow{Stats: h})
			}
			l.Rows = append(l.Rows, hashes)
		}
		if len(v.Keys) > 0 {
			values := namespaceTable{"Pinned values", "Values", false, nil}
			for _, k := range v.Keys {
				values.Rows = append(values.Rows, namespaceRow{expiry.Stats{
					Name: k.Name, Shards: k.Shards, Hashes: k.Keys, Overdue: k.Overdue, OldestOverdue: k.OldestOverdue,
					Deleted: k.Deleted, Reaped: k.Reaped,
				}, k.Set})
			}
			l.Rows = append(l.Rows, values)
		}
		return l
	}, nil
}

// stealPage is the page of upkeep.
type stealPage struct {
	heading

	Processes int
	Recruited int64
	Jobs      []jobRow
}

// jobRow is one job.
type jobRow struct {
	steal.JobStats

	Bar     []stripe
	Words   string // the bar in words
	Aborts  string // by their reasons
	Failing bool   // some slices failed or panicked
	Spark   spark
}

// stripe is a part of a bar that is 100 wide.
type stripe struct{ Kind, From, Width string }

func (d *Dashboard) stealing(*asked) (scene, error) {
	return func(v *survey.View) body {
		p := stealPage{heading: heading{Title: "Upkeep", Charts: []chart{d.chart(v, "stealing", "")}}, Processes: v.Steal.Processes}
		for _, j := range v.Steal.Jobs {
			p.Recruited += j.Recruited()
			row := jobRow{
				JobStats: j, Aborts: aborts(j), Failing: j.Failed+j.Panicked > 0,
				Spark: d.recent(v, survey.Steal, j.Name).Spark,
			}
			row.Bar, row.Words = outcomes(j)
			p.Jobs = append(p.Jobs, row)
		}
		return p
	}, nil
}

// outcomes shows how the slices of a job ended, as a bar and in words.
func outcomes(j steal.JobStats) ([]stripe, string) {
	if j.Recruited() == 0 {
		return nil, "no slice has run yet"
	}
	var bar []stripe
	var words []string
	from := 0.0
	for _, part := range []struct {
		kind string
		n    int64
	}{{"worked", j.Worked}, {"idle", j.Idle}, {"aborted", j.Aborted}} {
		share := float64(part.n) / float64(j.Recruited())
		bar = append(bar, stripe{part.kind, coordinate(100 * from), coordinate(100 * share)})
		words = append(words, percent(share)+" "+part.kind)
		from += share
	}
	return bar, english.WordSeries(words, "and")
}

// aborts lists why slices were aborted.
func aborts(j steal.JobStats) string {
	var words []string
	for _, reason := range []struct {
		n    int64
		word string
	}{{j.Failed, "failed"}, {j.TimedOut, "timed out"}, {j.Panicked, "panicked"}, {j.Busy, "without a slot"}, {j.Broken, "stopped by the breaker"}} {
		if reason.n > 0 {
			words = append(words, readable.Number(reason.n)+" "+reason.word)
		}
	}
	return strings.Join(words, ", ")
}
