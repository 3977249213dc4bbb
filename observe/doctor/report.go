package doctor

import (
	"fmt"
	"iter"

	"github.com/millrace/millrace/internal/readable"
)

// Report has the findings. Its JSON is that of `millrace doctor --json`, which
// docs/CLI.md describes.
type Report struct {
	OK    bool      `json:"ok"`              // no finding is a Fail
	Fleet []Finding `json:"fleet,omitempty"` // of a fleet as a whole
	Host  []Finding `json:"host,omitempty"`  // of all servers on this host together
	Work  []Finding `json:"work,omitempty"`  // of the structures: schedules
	Nodes []Node    `json:"nodes"`           // by address
}

// Node is one server with its findings.
type Node struct {
	Addr     string    `json:"addr"`
	Findings []Finding `json:"findings"`
}

// Finding is the outcome of one check. Value and Hint are for people. Hint says what
// to do; it is empty at level OK.
type Finding struct {
	Check string `json:"check"`
	Level Level  `json:"level"`
	Value string `json:"value"` // "unknown" if the server does not report it
	Hint  string `json:"hint"`
}

// Level says how bad a finding is.
type Level string

// The levels, the best first.
const (
	OK   Level = "ok"
	Note Level = "note" // good to know, or unknown
	Warn Level = "warn" // will cause trouble one day
	Fail Level = "fail" // Millrace cannot keep its promises here
)

// Parts yields the findings by subject, in reading order: "the fleet", "this host", "work",
// and the address of each server.
func (r Report) Parts() iter.Seq2[string, []Finding] {
	parts := make([]Node, 0, 3+len(r.Nodes))
	if len(r.Fleet) > 0 {
		parts = append(parts, Node{"the fleet", r.Fleet})
	}
	if len(r.Host) > 0 {
		parts = append(parts, Node{"this host", r.Host})
	}
	if len(r.Work) > 0 {
		parts = append(parts, Node{"work", r.Work})
	}
	parts = append(parts, r.Nodes...)
	return func(yield func(string, []Finding) bool) {
		for _, part := range parts {
			if !yield(part.Addr, part.Findings) {
				return
			}
		}
	}
}

// Verdict sums the report up: "fit for work".
func (r Report) Verdict() string {
	switch fails, warns := r.count(Fail), r.count(Warn); {
	case fails > 0:
		return fmt.Sprintf("not fit for work: %s, %s", readable.Count(fails, "failure"), readable.Count(warns, "warning"))
	case warns > 0:
		return "fit for work, with " + readable.Count(warns, "warning")
	default:
		return "fit for work"
	}
}

// count returns how many findings have a level.
func (r Report) count(level Level) int {
	n := 0
	for _, findings := range r.Parts() {
		for _, f := range findings {
			if f.Level == level {
				n++
			}
		}
	}
	return n
}
