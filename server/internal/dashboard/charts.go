package dashboard

import (
	"encoding/json"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/survey"
)

// chart is a chart of a page. Its words are for readers without sight or without scripts.
type chart struct {
	ID     string // on the page
	Title  string
	About  string
	Unit   string // rate, count, bytes or seconds
	Source string // the path of its numbers
	Lines  []chartLine

	drawn drawing
}

// chartLine is one line of a chart, in words.
type chartLine struct {
	Name   string
	Now    string
	Most   string // in the last hour
	Colour int    // from 1 on
}

// drawing is the numbers of a chart, for its script.
type drawing struct {
	At    []int64       `json:"at"` // Unix seconds
	Lines []drawingLine `json:"lines"`
}

type drawingLine struct {
	Name   string    `json:"name"`
	Values []float64 `json:"values"` // one for each time
}

// point is the newest values of a drawing.
type point struct {
	At     int64     `json:"at"`
	Values []float64 `json:"values"`
}

// newest returns the newest values of a chart, if it has any.
func (c chart) newest() (point, bool) {
	n := len(c.drawn.At)
	if n == 0 {
		return point{}, false
	}
	p := point{At: c.drawn.At[n-1]}
	for _, l := range c.drawn.Lines {
		p.Values = append(p.Values, l.Values[n-1])
	}
	return p, true
}

// drawn are all kinds of charts, and how to make them from a survey.
var drawn = map[string]struct {
	title, about, unit string
	draw               func(s Survey, name string) drawing
}{
	"throughput": {"Throughput", "of all queues and dirty lists", "rate", drawThroughput},
	"ops":        {"Commands", "of all masters", "rate", columns(survey.Server, "ops", "commands")},
	"memory":     {"Memory", "of all masters", "bytes", columns(survey.Server, "memory_bytes", "used")},
	"queue":      {"Throughput", "messages a second", "rate", columns(survey.Queue, "written", "", "delivered", "", "acked", "")},
	"backlog":    {"Backlog", "messages", "count", columns(survey.Queue, "waiting", "", "in_flight", "in flight", "delayed", "")},
	"outcomes":   {"Outcomes", "deliveries a second, and messages that died", "rate", drawOutcomes},
	"ick":        {"Rates", "marks and members a second", "rate", columns(survey.Ick, "new", "", "folded", "", "committed", "")},
	"dirty":      {"Dirty", "members", "count", columns(survey.Ick, "waiting", "", "reserved", "")},
	"channel":    {"Rates", "marks and members a second", "rate", columns(survey.Channel, "new", "", "folded", "", "committed", "")},
	"spread":     {"Dirty", "members", "count", columns(survey.Channel, "waiting", "", "reserved", "")},
	"stealing":   {"Recruits", "of all jobs and processes, a second", "rate", drawStealing},
}

// columns draws columns of a series, given as names and labels by turns. An empty label is
// the name.
func columns(kind survey.Kind, names ...string) func(Survey, string) drawing {
	return func(s Survey, name string) drawing {
		series := s.Series(kind, name)
		d := drawing{At: append([]int64{}, series.Times...)} // never null
		for i := 0; i < len(names); i += 2 {
			label := names[i+1]
			if label == "" {
				label = names[i]
			}
			d.Lines = append(d.Lines, drawingLine{label, column(series, names[i])})
		}
		return d
	}
}

// column returns a column of a series, or zeros if there is none.
func column(s survey.Series, name string) []float64 {
	i := slices.IndexFunc(s.Columns, func(c survey.Column) bool { return c.Name == name })
	if i < 0 {
		return make([]float64, len(s.Times))
	}
	return append([]float64{}, s.Columns[i].Values...)
}

// sum adds up columns of several series. A line is its name and its columns. A series without
// a time counts as zero there.
func sum(all []survey.Series, lines ...[]string) drawing {
	at := map[int64]int{}
	for _, s := range all {
		for _, t := range s.Times {
			at[t] = 0
		}
	}
	d := drawing{At: slices.AppendSeq([]int64{}, maps.Keys(at))}
	slices.Sort(d.At)
	for i, t := range d.At {
		at[t] = i
	}
	for _, line := range lines {
		values := make([]float64, len(d.At))
		for _, s := range all {
			for _, name := range line[1:] {
				for i, v := range column(s, name) {
					values[at[s.Times[i]]] += v
				}
			}
		}
		d.Lines = append(d.Lines, drawingLine{line[0], values})
	}
	return d
}

// rounded rounds to hundredths, which is finer than a screen.
func (d drawing) rounded() drawing {
	for _, l := range d.Lines {
		for i, v := range l.Values {
			l.Values[i] = math.Round(100*v) / 100
		}
	}
	return d
}

func drawThroughput(s Survey, _ string) drawing {
	v := s.View()
	var all []survey.Series
	for _, q := range v.Queues {
		all = append(all, s.Series(survey.Queue, q.Name))
	}
	for _, k := range v.Icks {
		all = append(all, s.Series(survey.Ick, k.Name))
	}
	for _, c := range v.Channels {
		all = append(all, s.Series(survey.Channel, c.Name))
	}
	return sum(all, []string{"messages written", "written"}, []string{"messages acked", "acked"},
		[]string{"marks made", "new", "folded"}, []string{"marks committed", "committed"})
}

// drawOutcomes draws how deliveries ended. Those that failed were retried, or their messages died.
func drawOutcomes(s Survey, name string) drawing {
	d := columns(survey.Queue, "acked", "handled", "failed", "", "failed", "retried", "died", "dead")(s, name)
	for i, died := range d.Lines[3].Values {
		d.Lines[2].Values[i] = max(0, d.Lines[2].Values[i]-died)
	}
	return d
}

func drawStealing(s Survey, _ string) drawing {
	var all []survey.Series
	for _, job := range s.View().Steal.Jobs {
		all = append(all, s.Series(survey.Steal, job.Name))
	}
	return sum(all, []string{"worked", "worked"}, []string{"idle", "idle"}, []string{"aborted", "aborted"})
}

type chartKey struct{ kind, name string }

// chart returns a chart of a structure for a View.
func (d *Dashboard) chart(v *survey.View, kind, name string) chart {
	k := drawn[kind]
	c := chart{
		ID: "chart-" + kind, Title: k.title, About: k.about, Unit: k.unit,
		Source: d.link("charts", kind) + "/" + segment(name) + ".json",
	}
	c.drawn = remember(&d.memo, v, chartKey{kind, name}, func() drawing { return k.draw(d.cfg.Survey, name).rounded() })
	for i, l := range c.drawn.Lines {
		line := chartLine{Name: l.Name, Now: "–", Colour: i%6 + 1}
		if n := len(l.Values); n > 0 {
			line.Now, line.Most = inUnit(k.unit, l.Values[n-1]), inUnit(k.unit, slices.Max(l.Values))
		}
		c.Lines = append(c.Lines, line)
	}
	return c
}

// chartJSON serves the numbers of a chart.
func (d *Dashboard) chartJSON(w http.ResponseWriter, r *http.Request) {
	kind, known := drawn[r.PathValue("kind")]
	part, isJSON := strings.CutSuffix(r.PathValue("file"), ".json")
	name, ok := untoken(part)
	if !known || !isJSON || !ok {
		d.refuse(w, r, errNoPage)
		return
	}
	text, err := json.Marshal(kind.draw(d.cfg.Survey, name).rounded())
	if err != nil {
		d.refuse(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(text) //nolint:errcheck // the client has gone
}
