package dashboard

import (
	"strconv"

	"github.com/millrace/millrace/internal/survey"
	"github.com/millrace/millrace/server/internal/audit"
)

// auditPage is the page of the actions of people.
type auditPage struct {
	heading

	Rows  []audit.Entry
	First string // path of the latest entries; empty there
	Next  string // path of earlier entries; empty at the end
}

// auditRows is how many entries a page shows.
const auditRows = 50

func (d *Dashboard) auditLog(a *asked) (scene, error) {
	from, _ := strconv.Atoi(a.URL.Query().Get("from")) // else the latest
	from = min(max(0, from), audit.Max*len(audit.Actions()))
	rows, err := d.audit.List(a.Context(), from, auditRows+1)
	if err != nil {
		return nil, err
	}
	p := auditPage{heading: heading{Title: "Audit log"}, Rows: rows}
	if from > 0 {
		p.First = d.link("audit")
	}
	if len(rows) > auditRows {
		p.Rows, p.Next = rows[:auditRows], query(d.link("audit"), "from", strconv.Itoa(from+auditRows))
	}
	return func(*survey.View) body { return p }, nil
}
