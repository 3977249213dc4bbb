package dashboard

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
)

// browser shows the messages of a queue in one state, page by page.
type browser struct {
	Place    string
	Tabs     []tab
	Tenant   string
	By       string // the order of the flows above
	Rows     []messageRow
	First    string // path of the first page; empty on it
	Next     string // path of the next page; empty on the last
	Wrong    string // why messages cannot be shown
	Hint     string
	Requests []request
	View     string // the current view, so that an action returns to it
}

// tab leads to the messages in one state.
type tab struct {
	Name    string
	Count   int
	Path    string
	Current bool
}

// messageRow is a message as the browser shows it.
type messageRow struct {
	ID          string
	Tenant      string
	Stream      int // -1 if it is in none
	Attempt     int
	Written     time.Time
	Until       time.Time
	Deadline    time.Time
	Priority    int
	Since       time.Time // when it was delivered, if it is in flight
	Consumed    bool      // with a handler of a program that consumes
	Reason      string    // why it is dead
	DecodeError string
	Headers     []header
	Body        preview
}

type header struct{ Name, Value string }

const (
	maxRows = 25

	// maxDead is how many dead messages are read to find those of a page: there is no
	// index by tenant.
	maxDead = 5000

	dead = "dead"
)

// browse reads a page of messages, as the request says which.
func (d *Dashboard) browse(a *asked, q *fairqueue.Queue, s fairqueue.Stats) *browser {
	query := a.URL.Query()
	b := &browser{Place: query.Get("place"), Tenant: query.Get("tenant"), By: query.Get("by")}
	if b.Place == "" {
		b.Place = string(fairqueue.Waiting)
		if s.Waiting == 0 && s.InFlight == 0 && s.Dead > 0 {
			b.Place = dead
		}
	}
	for _, t := range []tab{
		{Name: "Waiting", Path: string(fairqueue.Waiting), Count: s.Waiting},
		{Name: "In flight", Path: string(fairqueue.InFlight), Count: s.InFlight},
		{Name: "Delayed", Path: string(fairqueue.Delayed), Count: s.Delayed},
		{Name: "Dead", Path: dead, Count: s.Dead},
	} {
		t.Current = t.Path == b.Place
		t.Path = d.browserPath(q.Name(), b, t.Path, "")
		b.Tabs = append(b.Tabs, t)
	}
	after := query.Get("after")
	var next string
	var err error
	if b.Place == dead {
		next, err = b.readDead(a, q, after)
	} else {
		next, err = b.readAlive(a, q, after)
	}
	if err != nil {
		b.Wrong, b.Hint = sentence(err.Error()), millrace.Hint(err)
	}
	if after != "" {
		b.First = d.browserPath(q.Name(), b, b.Place, "")
	}
	if next != "" {
		b.Next = d.browserPath(q.Name(), b, b.Place, next)
	}
	b.View = pairs("place", b.Place, "tenant", b.Tenant, "by", b.By)
	b.Requests = d.messageRequests(q.Name(), b.Place)
	return b
}

func (d *Dashboard) browserPath(name string, b *browser, place, after string) string {
	return query(d.link("queues", name), "place", place, "tenant", b.Tenant, "by", b.By, "after", after) + "#browser"
}

// readAlive reads messages that are not dead.
func (b *browser) readAlive(a *asked, q *fairqueue.Queue, after string) (next string, err error) {
	messages, next, err := q.Browse(a.Context(), fairqueue.BrowseConfig{
		State: fairqueue.State(b.Place), Tenant: b.Tenant, Max: maxRows, After: after,
	})
	for _, m := range messages {
		row := newMessageRow(m)
		row.Since, row.Consumed, row.Until, row.DecodeError = m.Since, m.Consumed, m.Until, m.DecodeError
		b.Rows = append(b.Rows, row)
	}
	return next, err
}

// readDead reads dead messages, from one on whose number is given.
func (b *browser) readDead(a *asked, q *fairqueue.Queue, after string) (next string, err error) {
	first, _ := strconv.Atoi(after) // anything else is the beginning
	at := 0
	for m, err := range q.Dead(a.Context()) {
		if err != nil {
			return "", err
		}
		at++
		if at <= first || b.Tenant != "" && m.Tenant != b.Tenant {
			continue
		}
		if len(b.Rows) == maxRows || at > max(first, 0)+maxDead {
			return strconv.Itoa(at - 1), nil
		}
		row := newMessageRow(m)
		row.Reason, row.Stream = m.Reason, -1
		b.Rows = append(b.Rows, row)
	}
	return "", nil
}

func newMessageRow(m fairqueue.Message) messageRow {
	row := messageRow{
		ID: m.ID, Tenant: m.Tenant, Stream: m.Stream, Priority: m.Priority, Attempt: m.Attempt, Written: m.Written, Deadline: m.Deadline,
		Body: newPreview(m.Body),
	}
	for _, name := range slices.SortedFunc(maps.Keys(m.Headers), cmp.Compare) {
		row.Headers = append(row.Headers, header{name, m.Headers[name]})
	}
	return row
}
