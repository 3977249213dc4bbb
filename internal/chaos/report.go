package chaos

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/millrace/millrace/internal/readable"
)

const (
	// maxFailures is how many failures a scene names.
	maxFailures = 10

	// lineWidth is how long lines of text are at most.
	lineWidth = 80
)

// Report has the results of a run. As JSON it is
//
//	{"ok":true,"server":"...","scenes":[{"name":"ick","ok":true,...}]}
type Report struct {
	OK     bool     `json:"ok"`     // every check of every scene that was played holds
	Server string   `json:"server"` // the server of the run, for people
	Scenes []Result `json:"scenes"`
}

// Result is the result of one scene. In JSON its figures are fields between the others:
//
//	{"name":"ick","shows":"...","ok":true,"documents":2000,...,"checks":[...],"failures":[]}
//	{"name":"lease","shows":"...","ok":true,"skipped":"...","checks":[],"failures":[]}
type Result struct {
	Name     string
	Shows    string
	Skipped  string // why it was not played; then there are no figures and no checks
	OK       bool   // every check holds, or it was skipped
	Checks   []Check
	Failures []string // the details of failed checks, the first few

	tables []table
	more   int // failures that are not named
}

// Check is one promise and whether it was kept.
type Check struct {
	Name     string `json:"name"`
	OK       bool   `json:"ok"`
	Sentence string `json:"sentence"` // with the figures that decided it
}

// Cell is one figure: a field in JSON, unless it has no key, and a text for people.
type Cell struct {
	Key   string // with its unit, if it has one: "greatest_age_ms"
	Value any
	Text  string
}

// table is rows of figures with common columns.
type table struct {
	head []string
	rows []row
}

type row struct {
	label, note string
	cells       []Cell
}

// N is a count.
func N[T int | int64](key string, n T) Cell { return Cell{key, n, readable.Number(n)} }

// Ms is a time in milliseconds.
func Ms(key string, d time.Duration) Cell { return Cell{key, d.Milliseconds(), Brief(d)} }

// Us is a time in microseconds, below a second.
func Us(key string, d time.Duration) Cell {
	return Cell{key, d.Microseconds(), fmt.Sprintf("%.2f ms", float64(d.Microseconds())/1000)}
}

// Share is a part of a whole, in per cent.
func Share(key string, part, whole int64) Cell {
	share := 100 * float64(part) / float64(max(1, whole))
	return Cell{key, math.Round(share*1000) / 1000, fmt.Sprintf("%.2f%%", share)}
}

// List is one field with a cell for each number.
func List(key string, values ...int64) []Cell {
	cells := make([]Cell, len(values))
	for i, v := range values {
		cells[i].Text = readable.Number(v)
	}
	cells[0].Key, cells[0].Value = key, values
	return cells
}

// Table begins a table with a head for each column, or with none.
func (r *Result) Table(head ...string) { r.tables = append(r.tables, table{head: head}) }

// Figure adds a row to the table: a label, the figures, and a note to compare them with.
func (r *Result) Figure(label, note string, cells ...Cell) {
	if len(r.tables) == 0 {
		r.Table()
	}
	t := &r.tables[len(r.tables)-1]
	t.rows = append(t.rows, row{label, note, cells})
}

// Check adds a promise and whether it was kept. Its sentence is a [Text].
func (r *Result) Check(name string, ok bool, format string, args ...any) {
	r.Checks = append(r.Checks, Check{Name: name, OK: ok, Sentence: Text(format, args...)})
}

// Fail adds the details of a check's failure.
func (r *Result) Fail(format string, args ...any) {
	if len(r.Failures) < maxFailures {
		r.Failures = append(r.Failures, Text(format, args...))
	} else {
		r.more++
	}
}

// settle completes the result when the scene is over.
func (r *Result) settle() {
	r.OK = !slices.ContainsFunc(r.Checks, func(c Check) bool { return !c.OK })
	if r.more > 0 {
		r.Failures = append(r.Failures, Text("and %v more", r.more))
	}
}

// MarshalJSON writes the figures as fields of their own.
func (r Result) MarshalJSON() ([]byte, error) {
	fields := []Cell{{Key: "name", Value: r.Name}, {Key: "shows", Value: r.Shows}, {Key: "ok", Value: r.OK}}
	if r.Skipped != "" {
		fields = append(fields, Cell{Key: "skipped", Value: r.Skipped})
	}
	for _, t := range r.tables {
		for _, row := range t.rows {
			fields = append(fields, slices.DeleteFunc(slices.Clone(row.cells), func(c Cell) bool { return c.Key == "" })...)
		}
	}
	fields = append(fields, Cell{Key: "checks", Value: append([]Check{}, r.Checks...)}, Cell{Key: "failures", Value: append([]string{}, r.Failures...)})
	out := []byte("{")
	for i, f := range fields {
		value, err := json.Marshal(f.Value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Key, err)
		}
		if i > 0 {
			out = append(out, ',')
		}
		out = fmt.Appendf(out, "%q:%s", f.Key, value)
	}
	return append(out, '}'), nil
}

// heading is the text before the scene, for people.
func (s Scene) heading(number, of int) string {
	return wrap(fmt.Sprintf("%d/%d %s: ", number, of, s.Name), s.Shows) + "\n" +
		wrap("  load      ", s.Load) + wrap("  accident  ", s.Accident)
}

// text is the text after the scene, for people.
func (r *Result) text() string {
	var text strings.Builder
	if r.Skipped != "" {
		return wrap("  skipped   ", r.Skipped)
	}
	for _, t := range r.tables {
		text.WriteString("\n" + t.text())
	}
	text.WriteString("\n")
	for _, c := range r.Checks {
		mark := "  ok        "
		if !c.OK {
			mark = "  FAILED    "
		}
		text.WriteString(wrap(mark, c.Sentence))
	}
	for _, failure := range r.Failures {
		text.WriteString(wrap("          - ", failure))
	}
	return text.String()
}

// text writes a table with its numbers right-aligned.
func (t table) text() string {
	rows := t.rows
	if len(t.head) > 0 {
		head := row{}
		for _, h := range t.head {
			head.cells = append(head.cells, Cell{Text: h})
		}
		rows = slices.Insert(slices.Clone(rows), 0, head)
	}
	label, widths := 0, [8]int{}
	for _, r := range rows {
		label = max(label, utf8.RuneCountInString(r.label))
		for i, c := range r.cells {
			widths[i] = max(widths[i], utf8.RuneCountInString(c.Text))
		}
	}
	var text strings.Builder
	for _, r := range rows {
		var line strings.Builder
		fmt.Fprintf(&line, "  %-*s", label, r.label)
		for i, c := range r.cells {
			fmt.Fprintf(&line, "  %*s", widths[i], c.Text)
		}
		text.WriteString(strings.TrimRight(line.String()+"  "+r.note, " ") + "\n")
	}
	return text.String()
}

// verdict is the text at the end, for people.
func (r Report) verdict() string {
	var failed []string
	for _, s := range r.Scenes {
		if !s.OK {
			failed = append(failed, s.Name)
		}
	}
	if len(failed) > 0 {
		return "CHECKS FAILED in " + strings.Join(failed, ", ") + ": see the lines marked FAILED."
	}
	return "All checks hold."
}

// missing names the scenes that do not play, and says how to play them.
func missing(scenes []Scene, haveServer bool) string {
	if haveServer {
		return ""
	}
	var names []string
	for _, s := range scenes {
		if s.NeedsServer != "" {
			names = append(names, s.Name)
		}
	}
	if len(names) == 0 {
		return "To play at full size, install a server: apt install redis-server, or brew install redis."
	}
	return "Not played without a redis-server: " + strings.Join(names, ", ") +
		". To play all scenes at full size, install one: apt install redis-server, or brew install redis."
}

// wrap breaks a text into lines, of which the first begins with a prefix and the others
// are indented as far.
func wrap(prefix, text string) string {
	var out strings.Builder
	line := prefix
	indent := strings.Repeat(" ", utf8.RuneCountInString(prefix))
	for i, word := range strings.Fields(text) {
		if i > 0 && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > lineWidth {
			out.WriteString(line + "\n")
			line = indent
		} else if line != prefix || i > 0 {
			line += " "
		}
		line += word
	}
	return out.String() + line + "\n"
}

// Brief writes a duration of which the last digits do not count.
func Brief(d time.Duration) string {
	if d >= time.Second {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return fmt.Sprintf("%d ms", d.Milliseconds())
}

// Text is fmt.Sprintf, in which %v writes numbers and durations for people.
func Text(format string, args ...any) string {
	args = slices.Clone(args)
	for i, arg := range args {
		switch arg := arg.(type) {
		case int:
			args[i] = readable.Number(arg)
		case int64:
			args[i] = readable.Number(arg)
		case time.Duration:
			args[i] = Brief(arg)
		}
	}
	return fmt.Sprintf(format, args...)
}

// PerSecond writes a rate.
func PerSecond(n int64, over time.Duration) string {
	return Text("%v/s", int64(float64(n)/max(over.Seconds(), 1e-3)))
}
