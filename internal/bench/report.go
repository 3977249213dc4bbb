package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"
)

// Report has the results of a run. Its JSON is in docs/CLI.md.
type Report struct {
	Server      string   `json:"server"`        // for people
	RoundTripUS float64  `json:"round_trip_us"` // of a command that does nothing
	CPUs        int      `json:"cpus"`          // of this machine
	Goroutines  int      `json:"goroutines"`    // that called at once
	DurationMS  int64    `json:"duration_ms"`   // of a side in a round
	Figures     []Result `json:"figures"`
	NotMeasured []Absent `json:"not_measured"`
}

// Absent is a figure that was not measured.
type Absent struct {
	Name string `json:"name"` // empty for those that are no figure of this package
	What string `json:"what"`
	Why  string `json:"why"`
}

// Elsewhere returns the figures that cannot be measured on a server in use, and where to measure them.
func Elsewhere() []Absent {
	return []Absent{
		{What: "fairqueue against asynq and others, by CPU time and memory", Why: "this program does not include them: cd bench/compare && go run ., in a checkout"},
		{What: "fairqueue beside slow tenants, the service, scatter, fleet, planned switches", Why: "they start servers of their own: make bench, in a checkout"},
		{What: "fleet route lookup, and steal's dismissed enlistments", Why: "they need no server: go test -run - -bench . ./fleet ./steal, in a checkout"},
	}
}

// Table writes the report for people.
func (r Report) Table(w io.Writer) error {
	var text strings.Builder
	fmt.Fprintf(&text, "Server: %s, %s us away\n", r.Server, Short(r.RoundTripUS))
	fmt.Fprintf(&text, "Client: %d CPUs, %d goroutines, %d ms a side and round\n\n", r.CPUs, r.Goroutines, r.DurationMS)
	const against = "  against "
	var what, value, goal int
	for _, f := range r.Figures {
		what = max(what, utf8.RuneCountInString(f.What))
		value = max(value, len(Short(f.Value))+1+len(f.Unit))
		for _, a := range f.Against {
			what = max(what, len(against)+utf8.RuneCountInString(a.Name))
			goal = max(goal, len(a.ShownGoal(f.Unit)))
		}
	}
	line := func(columns ...string) {
		row := fmt.Sprintf("%-*s  %*s  %6s  %-*s  %s", what, columns[0], value, columns[1], columns[2], goal, columns[3], columns[4])
		text.WriteString(strings.TrimRight(row, " ") + "\n")
	}
	line("", "figure", "ratio", "goal", "")
	for _, f := range r.Figures {
		line(f.What, Short(f.Value)+" "+f.Unit, "", "", "")
		for _, a := range f.Against {
			line(against+a.Name, Short(a.Value)+strings.Repeat(" ", 1+len(f.Unit)), a.ShownRatio(), a.ShownGoal(f.Unit), a.verdict())
		}
	}
	text.WriteString("\nA ratio is what was measured divided by the baseline, the median of the rounds. Rates are better\n" +
		"when they are larger, times and counts when they are smaller.\n")
	if len(r.NotMeasured) > 0 {
		text.WriteString("\nNot measured:\n")
	}
	for _, a := range r.NotMeasured {
		fmt.Fprintf(&text, "  %s: %s\n", a.What, a.Why)
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// ShownRatio is the ratio for people, and "-" where there is none.
func (a Against) ShownRatio() string {
	if a.Ratio == nil {
		return "-"
	}
	return Short(*a.Ratio)
}

// ShownGoal is the goal for people, with the unit of the figure.
func (a Against) ShownGoal(unit string) string { return a.Goal.text(unit) }

func (a Against) verdict() string {
	switch {
	case a.Reached == nil:
		return ""
	case *a.Reached:
		return "reached"
	}
	return "not reached"
}

// line is the result in one line.
func (r Result) line() string {
	words := []string{Short(r.Value) + " " + r.Unit}
	for _, a := range r.Against {
		words = append(words, fmt.Sprintf("%s: %s", a.Name, Short(a.Value)))
	}
	return strings.Join(words, "; ")
}

// MarshalJSON writes the result with as many digits as say something.
func (r Result) MarshalJSON() ([]byte, error) {
	type plain Result
	r.Value = digits(r.Value)
	against := make([]Against, len(r.Against))
	for i, a := range r.Against {
		a.Value = digits(a.Value)
		if a.Ratio != nil {
			rounded := digits(*a.Ratio)
			a.Ratio = &rounded
		}
		against[i] = a
	}
	r.Against = against
	return json.Marshal(plain(r))
}

// digits rounds to four digits.
func digits(v float64) float64 {
	if v == 0 {
		return 0
	}
	scale := math.Pow(10, 3-math.Floor(math.Log10(math.Abs(v))))
	return math.Round(v*scale) / scale
}

// Short writes a figure for people, with three digits or so.
func Short(v float64) string {
	switch {
	case v >= 1e6:
		return fmt.Sprintf("%.2fM", v/1e6)
	case v >= 1e3:
		return fmt.Sprintf("%.1fk", v/1e3)
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	case v >= 0.1 || v == 0:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.2g", v)
}
