package dashboard

import (
	"cmp"
	"strings"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/readable"
	"github.com/millrace/millrace/internal/survey"
)

// queueRow is one queue of the list.
type queueRow struct {
	fairqueue.Stats

	Written, Delivered, Acked float64 // a second
	Spark                     spark
	Handlers                  readerList
}

func (d *Dashboard) newQueueRow(v *survey.View, s fairqueue.Stats) queueRow {
	lately := d.recent(v, survey.Queue, s.Name)
	return queueRow{s, lately.now["written"], lately.now["delivered"], lately.now["acked"], lately.Spark, newReaders(s)}
}

var queueColumns = []listColumn[queueRow]{
	{"name", "Queue", false, false, func(a, b queueRow) int { return strings.Compare(a.Name, b.Name) }},
	{"waiting", "Waiting", true, false, func(a, b queueRow) int { return cmp.Compare(a.Waiting, b.Waiting) }},
	{"in_flight", "In flight", true, false, func(a, b queueRow) int { return cmp.Compare(a.InFlight, b.InFlight) }},
	{"delayed", "Delayed", true, false, func(a, b queueRow) int { return cmp.Compare(a.Delayed, b.Delayed) }},
	{"dead", "Dead", true, false, func(a, b queueRow) int { return cmp.Compare(a.Dead, b.Dead) }},
	{"oldest", "Oldest", true, false, func(a, b queueRow) int { return cmp.Compare(a.OldestAge, b.OldestAge) }},
	{"written", "Written/s", true, false, func(a, b queueRow) int { return cmp.Compare(a.Written, b.Written) }},
	{"acked", "Acked/s", true, false, func(a, b queueRow) int { return cmp.Compare(a.Acked, b.Acked) }},
	{"", "Acked, 5 min", true, false, nil},
	{"flows", "Flows", true, false, func(a, b queueRow) int { return cmp.Compare(a.FlowCount, b.FlowCount) }},
	{"handlers", "Handlers", true, false, func(a, b queueRow) int { return cmp.Compare(a.Handlers.All, b.Handlers.All) }},
}

func (d *Dashboard) queues(a *asked) (scene, error) {
	asked := a.URL.Query()
	return func(v *survey.View) body {
		l := newList[queueRow](v, "Queues", survey.Queue)
		for _, q := range v.Queues {
			l.Rows = append(l.Rows, d.newQueueRow(v, q))
		}
		l.Heads = sortRows(asked, d.link("queues"), l.Rows, queueColumns)
		return l
	}, nil
}

// queuePage is the page of one queue.
type queuePage struct {
	heading

	queueRow
	How      presence
	Notices  []notice
	Failing  failingList
	Flows    flowList
	Counters []readable.Counter
	Browser  *browser // nil in streams
	Controls []dialog

	Others     string // path of the default limits
	FindTenant string // path of the form that opens the page of a tenant
}

func (d *Dashboard) queue(a *asked) (scene, error) {
	q, find, err := d.followQueue(a)
	if err != nil {
		return nil, err
	}
	name := q.Name()
	query := a.URL.Query()
	at := selection{query.Get("place"), query.Get("tenant"), query.Get("by")}
	var seen *browser
	if !a.live {
		stats, _ := find(d.cfg.Survey.View())
		seen = d.browse(a.Context(), q, stats, at, query.Get("after"))
	}
	return func(v *survey.View) body {
		stats, how := find(v)
		toggle := "pause"
		if stats.Paused {
			toggle = "resume"
		}
		p := queuePage{
			heading:  heading{Title: plain(name), Charts: []chart{d.chart(v, "queue", name), d.chart(v, "backlog", name), d.chart(v, "outcomes", name)}},
			queueRow: d.newQueueRow(v, stats), How: how, Counters: readable.Counters(stats.Counters), Browser: seen,
			Flows: newFlows(stats, sorting(at.By), func(by sorting) string {
				return d.selectionPath(name, selection{at.Place, at.Tenant, string(by)}, "") + "#flows"
			}, func(tenant string) string { return d.tenantPath(name, tenant) }),
			Failing: d.newFailing(stats, maxFailingShown),
			Notices: d.findings(stats), Others: d.tenantPath(name, ""), FindTenant: d.link("queues", name, "tenants"),
			Controls: d.dialogs("queues", name, toggle, "resize", "delete"),
		}
		p.Controls[1].Fields = []field{{"streams", "Streams", stats.Streams, 0, 1024}, {"per_tenant", "Streams per tenant", stats.PerTenant, 0, 1024}}
		return p
	}, nil
}
