package doctor

import (
	"fmt"
	"iter"

	"github.com/millrace/millrace/internal/finding"
	"github.com/millrace/millrace/internal/readable"
)

// Report has the findings. Its JSON is that of `millrace doctor --json`, which
// docs/CLI.md describes.
type Report struct {
	OK    bool      `json:"ok"`              // no finding is Critical
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

// Finding is the outcome of one check: a Severity, a Code for programs, and for people a Text and
// an Advice, the next step, which is empty if all is well.
type Finding struct {
	Check string `json:"check"`
	finding.Finding
}

// Severity says how bad a finding is. Larger values are worse.
type Severity = finding.Severity

// The severities, the best first.
const (
	OK       = finding.OK
	Note     = finding.Note     // good to know, or the server does not say
	Warning  = finding.Warning  // will cause trouble one day
	Critical = finding.Critical // Millrace cannot keep its promises here
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
	n := r.count()
	switch warnings := readable.Count(n[Warning], "warning"); {
	case n[Critical] > 0:
		return fmt.Sprintf("not fit for work: %d critical, %s", n[Critical], warnings)
	case n[Warning] > 0:
		return "fit for work, with " + warnings
	default:
		return "fit for work"
	}
}

func (r Report) count() (n finding.Counts) {
	for _, findings := range r.Parts() {
		for _, f := range findings {
			n[f.Severity]++
		}
	}
	return n
}
