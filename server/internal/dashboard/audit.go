package dashboard

import (
	"slices"
	"strconv"

	"github.com/millrace/millrace/internal/audit"
	"github.com/millrace/millrace/internal/survey"
)

// auditPage is the page of the actions of people.
type auditPage struct {
	heading

	Rows    []audit.Entry
	Actions []string // all kinds
	Action  string   // the kind that is shown; empty for all
	First   string   // path of the latest entries; empty there
	Next    string   // path of earlier entries; empty at the end
}

// auditRows is how many entries a page shows.
const auditRows = 50

func (d *Dashboard) auditLog(a *asked) (scene, error) {
	from, _ := strconv.Atoi(a.URL.Query().Get("from")) // else the latest
	from = min(max(0, from), audit.Max*len(audit.Actions()))
	action := a.URL.Query().Get("action")
	if !slices.Contains(audit.Actions(), action) {
		action = ""
	}
	rows, err := d.audit.List(a.Context(), audit.ListConfig{Action: action, First: from, Most: auditRows + 1})
	if err != nil {
		return nil, err
	}
	p := auditPage{heading: heading{Title: "Audit log"}, Rows: rows, Actions: audit.Actions(), Action: action}
	if from > 0 {
		p.First = query(d.link("audit"), "action", action)
	}
	if len(rows) > auditRows {
		p.Rows, p.Next = rows[:auditRows], query(d.link("audit"), "action", action, "from", strconv.Itoa(from+auditRows))
	}
	return func(*survey.View) body { return p }, nil
}
