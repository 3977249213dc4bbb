package check

import (
	"fmt"
	"io"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/readable"
)

// Report is the outcome of all checks.
type Report struct {
	OK       bool      `json:"ok"` // nothing failed
	Fail     int       `json:"fail"`
	Warn     int       `json:"warn"`
	Unknown  int       `json:"unknown"`
	Findings []Finding `json:"findings"` // the worst first
}

// NewReport counts findings.
func NewReport(found []Finding) Report {
	doc := Report{
		Fail: Count(found, directory.Fail), Warn: Count(found, directory.Warn), Unknown: Count(found, directory.Unknown), Findings: found,
	}
	doc.OK = doc.Fail == 0
	return doc
}

// Table writes it for people.
func (doc Report) Table(w io.Writer) {
	for _, g := range Groups(doc.Findings) {
		fmt.Fprintf(w, "%s\t%s\t%s\n", g.Level, g.Check, g)
		if g.Hint != "" {
			fmt.Fprintf(w, "\t\t%s\n", g.Hint)
		}
	}
	fmt.Fprintf(w, "\n%s, %s, %d unknown\n", readable.Count(doc.Fail, "failure"), readable.Count(doc.Warn, "warning"), doc.Unknown)
}
