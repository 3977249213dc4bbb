package demo

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Report is what a demo saw. As JSON it is
//
//	{"ok":true,"server":"...","scenes":[{"name":"ick","ok":true,...}]}
type Report struct {
	OK     bool    `json:"ok"`     // every check of every scene that was played holds
	Server string  `json:"server"` // what it ran on, for people
	Scenes []Scene `json:"scenes"`
}

// Scene is what one scene saw. As JSON its figures are fields between the
// others:
//
//	{"name":"ick","shows":"...","ok":true,"documents":2000,...,"checks":[...],"failures":[]}
//	{"name":"lease","shows":"...","ok":true,"skipped":"...","checks":[],"failures":[]}
type Scene struct {
	Name     string   // the structure's: "ick"
	Shows    string   // what there was to see, one sentence without a final stop
	Skipped  string   // why it was not played, one sentence without a final stop; then there is nothing else
	OK       bool     // every check holds, or it was skipped
	Figures  []Figure // in the order to show
	Checks   []Check
	Failures []string // what exactly broke a check, the first few
}

// Figure is one number that a scene saw.
type Figure struct {
	Key   string // in JSON, with its unit if it has one: "greatest_age_ms"
	Value any    // in JSON: a number, or a list of them
	Label string // for people
	Text  string // for people: the value with its unit
	Note  string // for people: what puts it into proportion; may be empty
}

// Check is one promise and whether it was kept.
type Check struct {
	Name     string `json:"name"` // "nothing_forgotten"
	OK       bool   `json:"ok"`
	Sentence string `json:"sentence"` // with the figures that decided it
}

// maxFailures is how many failures a scene names one by one.
const maxFailures = 10

// check adds a promise and whether it was kept.
func (s *Scene) check(name string, ok bool, format string, args ...any) {
	s.Checks = append(s.Checks, Check{Name: name, OK: ok, Sentence: fmt.Sprintf(format, args...)})
}

// fail adds what broke a check, unless there is enough already.
func (s *Scene) fail(format string, args ...any) {
	if len(s.Failures) < maxFailures {
		s.Failures = append(s.Failures, fmt.Sprintf(format, args...))
	}
}

func (s *Scene) count(key string, n int64, label, note string) {
	s.Figures = append(s.Figures, Figure{Key: key, Value: n, Label: label, Text: grouped(n), Note: note})
}

func (s *Scene) time(key string, d time.Duration, label, note string) {
	s.Figures = append(s.Figures, Figure{Key: key, Value: d.Milliseconds(), Label: label, Text: briefly(d), Note: note})
}

// share is a part of a whole, in per cent.
func (s *Scene) share(key string, part float64, label, note string) {
	percent := math.Round(part*1e5) / 1e3
	s.Figures = append(s.Figures, Figure{Key: key, Value: percent, Label: label, Text: fmt.Sprintf("%.2f%%", 100*part), Note: note})
}

// micros is time for what takes less than a second.
func (s *Scene) micros(key string, d time.Duration, label, note string) {
	s.Figures = append(s.Figures, Figure{Key: key, Value: d.Microseconds(), Label: label, Text: milliseconds(d), Note: note})
}

// MarshalJSON writes the figures as fields of their own.
func (s Scene) MarshalJSON() ([]byte, error) {
	checks, failures := s.Checks, s.Failures
	if checks == nil {
		checks = []Check{}
	}
	if failures == nil {
		failures = []string{}
	}
	var out bytes.Buffer
	field := func(key string, value any) error {
		name, err := json.Marshal(key)
		if err != nil {
			return err
		}
		text, err := json.Marshal(value)
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		if out.Len() > 1 {
			out.WriteByte(',')
		}
		out.Write(name)
		out.WriteByte(':')
		out.Write(text)
		return nil
	}
	fields := []Figure{{Key: "name", Value: s.Name}, {Key: "shows", Value: s.Shows}, {Key: "ok", Value: s.OK}}
	if s.Skipped != "" {
		fields = append(fields, Figure{Key: "skipped", Value: s.Skipped})
	}
	fields = append(fields, s.Figures...)
	fields = append(fields, Figure{Key: "checks", Value: checks}, Figure{Key: "failures", Value: failures})
	out.WriteByte('{')
	for _, f := range fields {
		if err := field(f.Key, f.Value); err != nil {
			return nil, err
		}
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

// Table writes the report for people.
func (r Report) Table(w io.Writer) error {
	var text strings.Builder
	fmt.Fprintf(&text, "Server: %s\n", r.Server)
	for _, s := range r.Scenes {
		s.table(&text)
	}
	skipped := slices.ContainsFunc(r.Scenes, func(s Scene) bool { return s.Skipped != "" })
	switch {
	case r.OK && skipped:
		text.WriteString("\nEverything that was played held.\n")
	case r.OK:
		text.WriteString("\nEverything held.\n")
	default:
		text.WriteString("\nNOT EVERYTHING HELD: see what is marked FAILED above.\n")
	}
	_, err := io.WriteString(w, text.String())
	return err
}

func (s Scene) table(text *strings.Builder) {
	fmt.Fprintf(text, "\n%s: %s\n\n", s.Name, s.Shows)
	if s.Skipped != "" {
		fmt.Fprintf(text, "  skipped: %s\n", s.Skipped)
		return
	}
	var label, value int
	for _, f := range s.Figures {
		label = max(label, utf8.RuneCountInString(f.Label))
		value = max(value, utf8.RuneCountInString(f.Text))
	}
	for _, f := range s.Figures {
		row := fmt.Sprintf("  %-*s  %*s  %s", label, f.Label, value, f.Text, f.Note)
		text.WriteString(strings.TrimRight(row, " ") + "\n")
	}
	text.WriteString("\n")
	for _, c := range s.Checks {
		mark := "ok"
		if !c.OK {
			mark = "FAILED"
		}
		fmt.Fprintf(text, "  %-6s  %s\n", mark, c.Sentence)
	}
	for _, failure := range s.Failures {
		fmt.Fprintf(text, "          - %s\n", failure)
	}
}
