package dashboard

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/jsontype"
	"github.com/millrace/millrace/internal/ops"
	"github.com/millrace/millrace/internal/survey"
)

// readersPage is the page of the readers of a queue and of the messages that they have.
type readersPage struct {
	heading
	readerList

	Queue    string
	How      presence
	Heads    []columnHead
	InFlight int
	Browser  *browser // nil in streams
}

var readerColumns = []listColumn[readerRow]{
	{"name", "Name", false, false, func(a, b readerRow) int { return strings.Compare(a.Name, b.Name) }},
	{"host", "Host", false, false, func(a, b readerRow) int { return strings.Compare(a.Host, b.Host) }},
	{"concurrency", "Concurrency", true, false, func(a, b readerRow) int { return cmp.Compare(a.Concurrency, b.Concurrency) }},
	{"in_flight", "In flight", true, true, func(a, b readerRow) int { return cmp.Compare(a.InFlight, b.InFlight) }},
	{"seen", "Last seen", true, false, func(a, b readerRow) int { return a.LastSeen.Compare(b.LastSeen) }},
}

func (d *Dashboard) readers(a *asked) (scene, error) {
	q, find, err := d.followQueue(a)
	if err != nil {
		return nil, err
	}
	name := q.Name()
	asked := a.URL.Query()
	path := d.link("queues", name, "readers")
	var held *browser
	if !a.live {
		held = d.held(a.Context(), q, path, asked.Get("tenant"), asked.Get("after"))
	}
	return func(v *survey.View) body {
		stats, how := find(v)
		p := readersPage{
			heading: heading{Title: "Readers of " + plain(name)}, readerList: newReaders(stats),
			Queue: name, How: how, InFlight: stats.InFlight, Browser: held,
		}
		p.Heads = sortRows(asked, path, p.Rows, readerColumns)
		return p
	}, nil
}

// held reads a page of the messages in flight. The one whose time ends first comes first.
func (d *Dashboard) held(ctx context.Context, q *fairqueue.Queue, path, tenant, after string) *browser {
	b := &browser{selection: selection{Place: string(fairqueue.InFlight), Tenant: tenant}, View: pairs("tenant", tenant)}
	if after != "" {
		b.First = query(path, "tenant", tenant) + "#held"
	}
	next, err := b.read(ctx, q, after)
	if err != nil {
		b.Wrong, b.Hint = sentence(err.Error()), millrace.Hint(err)
	}
	if next != "" {
		b.Next = query(path, "tenant", tenant, "after", next) + "#held"
	}
	b.Dialogs = d.dialogs("queues", q.Name(), "return")
	return b
}

// handBack gives messages back that readers have.
func handBack(ctx context.Context, q *fairqueue.Queue, f form) (string, error) {
	doc, err := ops.NackMessages.Do(ctx, q, ops.Nack{Receipts: ops.Receipts{List: f.picked}, Delay: new(jsontype.Duration), Reason: "handed back by an operator"})
	if errors.Is(err, millrace.ErrStale) {
		err = nil // the sentence says it
	}
	return f.some(doc.Nacked, "message", "handed back", "settled meanwhile"), err
}
