package dashboard

import (
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/millrace/millrace/internal/readable"
	"github.com/millrace/millrace/internal/survey"
	"github.com/millrace/millrace/steal"
)

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
			lately := d.recent(v, survey.Steal, j.Name)
			row := jobRow{JobStats: j, Aborts: aborts(j.Aborted), Failing: j.Aborted.Error+j.Aborted.Panic > 0, Spark: lately.Spark}
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
	}{{"worked", j.Worked}, {"idle", j.Idle}, {"aborted", j.Aborted.Sum()}} {
		share := float64(part.n) / float64(j.Recruited())
		bar = append(bar, stripe{part.kind, coordinate(100 * from), coordinate(100 * share)})
		words = append(words, percent(share)+" "+part.kind)
		from += share
	}
	return bar, english.WordSeries(words, "and")
}

// aborts lists why slices were aborted.
func aborts(a steal.Aborts) string {
	var words []string
	for _, reason := range []struct {
		n    int64
		word string
	}{{a.Error, "failed"}, {a.Timeout, "timed out"}, {a.Panic, "panicked"}, {a.Busy, "without a slot"}, {a.Breaker, "stopped by the breaker"}} {
		if reason.n > 0 {
			words = append(words, readable.Number(reason.n)+" "+reason.word)
		}
	}
	return strings.Join(words, ", ")
}
