package check

import (
	"fmt"
	"io"

	"github.com/millrace/millrace/internal/finding"
	"github.com/millrace/millrace/internal/readable"
)

// Report is the outcome of all checks.
type Report struct {
	OK       bool      `json:"ok"` // nothing is critical
	Critical int       `json:"critical"`
	Warning  int       `json:"warning"`
	Note     int       `json:"note"`
	Findings []Finding `json:"findings"` // the worst first
}

// NewReport counts findings.
func NewReport(found []Finding) Report {
	n := Count(found)
	return Report{n[finding.Critical] == 0, n[finding.Critical], n[finding.Warning], n[finding.Note], found}
}

// Table writes it for people.
func (doc Report) Table(w io.Writer) {
	for _, g := range Groups(doc.Findings) {
		fmt.Fprintf(w, "%s\t%s\t%s\n", g.Severity, g.Check, g)
		if g.Advice != "" {
			fmt.Fprintf(w, "\t\t%s\n", g.Advice)
		}
	}
	fmt.Fprintf(w, "\n%d critical, %s, %s\n", doc.Critical, readable.Count(doc.Warning, "warning"), readable.Count(doc.Note, "note"))
}
