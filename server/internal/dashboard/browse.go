package dashboard

import (
	"context"
	"maps"
	"slices"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
)

// selection chooses the messages and the flows on the page of a queue. The query has it.
type selection struct {
	Place  string // the state of the messages
	Tenant string // empty for all
	By     string // the order of flows
}

func (d *Dashboard) selectionPath(name string, s selection, after string) string {
	return query(d.link("queues", name), "place", s.Place, "tenant", s.Tenant, "by", s.By, "after", after)
}

// browser shows the messages of a queue in one state, page by page.
type browser struct {
	selection

	Tabs    []tab
	Rows    []messageRow
	First   string // path of the first page; empty on it
	Next    string // path of the next page; empty on the last
	Wrong   string // why messages cannot be shown
	Hint    string
	Dialogs []dialog
	View    string // the selection as a query, so that an action returns to it
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
	fairqueue.Message

	IsDead bool
	Fields []header
	Shown  preview
}

func newMessageRow(m fairqueue.Message, dead bool) messageRow {
	row := messageRow{Message: m, IsDead: dead, Shown: newPreview(m.Body)}
	for _, name := range slices.Sorted(maps.Keys(m.Headers)) {
		row.Fields = append(row.Fields, header{name, m.Headers[name]})
	}
	return row
}

type header struct{ Name, Value string }

const (
	maxRows = 25
	// maxReads limits the reads for one page. Only waiting messages have an index by
	// tenant.
	maxReads = 20
)

// browse reads a page of messages.
func (d *Dashboard) browse(ctx context.Context, q *fairqueue.Queue, s fairqueue.Stats, at selection, after string) *browser {
	if at.Place == "" {
		at.Place = string(fairqueue.Waiting)
		if s.Waiting == 0 && s.InFlight == 0 && s.Dead > 0 {
			at.Place = string(fairqueue.Dead)
		}
	}
	b := &browser{selection: at, View: pairs("place", at.Place, "tenant", at.Tenant, "by", at.By)}
	path := func(place fairqueue.State, after string) string {
		return d.selectionPath(q.Name(), selection{string(place), at.Tenant, at.By}, after) + "#browser"
	}
	current := fairqueue.State(at.Place)
	for _, t := range []struct {
		name  string
		state fairqueue.State
		count int
	}{
		{"Waiting", fairqueue.Waiting, s.Waiting}, {"In flight", fairqueue.InFlight, s.InFlight},
		{"Delayed", fairqueue.Delayed, s.Delayed}, {"Dead", fairqueue.Dead, s.Dead},
	} {
		b.Tabs = append(b.Tabs, tab{t.name, t.count, path(t.state, ""), t.state == current})
	}
	if after != "" {
		b.First = path(current, "")
	}
	next, err := b.read(ctx, q, after)
	if err != nil {
		b.Wrong, b.Hint = sentence(err.Error()), millrace.Hint(err)
	}
	if next != "" {
		b.Next = path(current, next)
	}
	switch current {
	case fairqueue.Dead:
		b.Dialogs = d.dialogs("queues", q.Name(), "redrive", "purge")
	case fairqueue.Delayed:
		b.Dialogs = d.dialogs("queues", q.Name(), "retry", "cancel")
	case fairqueue.Waiting, fairqueue.InFlight, fairqueue.Gone:
		b.Dialogs = d.dialogs("queues", q.Name(), "cancel")
	}
	return b
}

// read reads until there is a page of messages. It returns where the next page starts.
func (b *browser) read(ctx context.Context, q *fairqueue.Queue, after string) (next string, err error) {
	cfg := fairqueue.BrowseConfig{State: fairqueue.State(b.Place), Tenant: b.Tenant, Max: maxRows, After: after}
	for range maxReads {
		messages, next, err := q.Browse(ctx, cfg)
		for _, m := range messages {
			b.Rows = append(b.Rows, newMessageRow(m, cfg.State == fairqueue.Dead))
		}
		if cfg.After = next; err != nil || next == "" || len(b.Rows) >= maxRows {
			return next, err
		}
	}
	return cfg.After, nil
}
