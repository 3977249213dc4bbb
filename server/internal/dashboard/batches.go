package dashboard

import (
	"context"
	"net/http"
	"net/url"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/ops"
	"github.com/millrace/millrace/internal/readable"
	"github.com/millrace/millrace/internal/survey"
)

// batchRow is a batch as pages show it.
type batchRow struct {
	ops.Batch

	Path  string
	Of    string // how many messages it has, and of how many
	Ended measure
}

func (d *Dashboard) newBatchRow(queue string, b ops.Batch) batchRow {
	row := batchRow{Batch: b, Path: d.link("queues", queue, "batches", b.ID), Of: readable.Number(b.Written)}
	all := b.Written
	switch {
	case b.Total == nil:
		row.Of += " so far"
	case *b.Total != b.Written:
		all = *b.Total
		row.Of += " of " + readable.Number(*b.Total)
	}
	row.Ended = measure{Words: readable.Number(b.Ended()), Tone: "used"}
	if all > 0 {
		row.Ended.Width = 100 * b.Ended() / all
		row.Ended.Share = readable.Number(row.Ended.Width) + "%"
	}
	return row
}

// batchList is the page of the batches of a queue, or of one of them.
type batchList struct {
	heading

	Queue    string
	One      *batchRow // nil on the page of all
	Rows     []batchRow
	More     int // that are not listed
	Wrong    string
	Controls []dialog
}

// maxBatches is how many batches a page lists.
const maxBatches = 200

func (d *Dashboard) batches(a *asked) (scene, error) {
	return d.batchScene(a, func(ctx context.Context, q *fairqueue.Queue, p *batchList) error {
		doc, err := ops.ListBatches.Do(ctx, q, ops.Queue{})
		p.Title = "Batches"
		p.More = max(0, len(doc.Batches)-maxBatches)
		for _, b := range doc.Batches[:len(doc.Batches)-p.More] {
			p.Rows = append(p.Rows, d.newBatchRow(q.Name(), b))
		}
		return err
	})
}

func (d *Dashboard) batch(a *asked) (scene, error) {
	id, ok := untoken(a.PathValue("batch"))
	if !ok {
		return nil, errNoPage
	}
	return d.batchScene(a, func(ctx context.Context, q *fairqueue.Queue, p *batchList) error {
		b, err := ops.GetBatch.Do(ctx, q, ops.BatchID{ID: id})
		p.Title = "Batch " + id
		row := d.newBatchRow(q.Name(), b)
		if p.One = &row; b.State != fairqueue.BatchOpen {
			return err
		}
		for _, word := range []string{"close", "cancel"} {
			ask := batchActions[word].dialog
			ask.ID, ask.Path = "ask-"+word, row.Path+"/"+word
			p.Controls = append(p.Controls, ask)
		}
		return err
	})
}

// batchScene is a page that is read again for each view: no survey has batches.
func (d *Dashboard) batchScene(a *asked, read func(context.Context, *fairqueue.Queue, *batchList) error) (scene, error) {
	queue, err := a.name()
	if err != nil {
		return nil, err
	}
	q, err := fairqueue.New(d.cfg.Client, queue, fairqueue.Config{})
	if err != nil {
		return nil, err
	}
	first := batchList{Queue: queue}
	if err := read(a.Context(), q, &first); err != nil {
		return nil, err
	}
	used := false
	return func(*survey.View) body {
		if !used {
			used = true
			return first
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(a.Context()), pageTimeout) // which ends with the first view
		defer cancel()
		p := batchList{Queue: queue}
		if err := read(ctx, q, &p); err != nil {
			p = first
			p.Wrong = sentence(err.Error())
		}
		return p
	}, nil
}

// batchActions change one batch. Their words are the ends of their paths.
var batchActions = map[string]action{
	"close": {dialog{
		Open: "Close", Title: "Has this batch all its messages?", Verb: "Close", Text: ops.CloseBatch.Detail,
	}, onQueue(func(ctx context.Context, q *fairqueue.Queue, f form) (string, error) {
		b, err := ops.CloseBatch.Do(ctx, q, ops.BatchID{ID: f.batch})
		return "The batch takes no more messages; " + readable.Number(b.Left) + " of its messages have not ended.", err
	})},
	"cancel": {dialog{
		Open: "Cancel", Title: "Cancel the messages of this batch that wait?", Verb: "Cancel messages", Danger: true, Text: ops.CancelBatch.Detail,
	}, onQueue(func(ctx context.Context, q *fairqueue.Queue, f form) (string, error) {
		b, err := ops.CancelBatch.Do(ctx, q, ops.BatchID{ID: f.batch})
		return "The batch is cancelled; " + readable.Number(b.Left) + " of its messages are in flight, or wait to be removed.", err
	})},
}

// actOnBatch serves an action on a batch.
func (d *Dashboard) actOnBatch(word string, a action) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		queue, ok := untoken(r.PathValue("name"))
		id, also := untoken(r.PathValue("batch"))
		if !ok || !also {
			d.refuse(w, r, errNoPage)
			return
		}
		d.commit(w, r, "batch."+word, queue+": "+id, func(ctx context.Context, values url.Values) (string, error) {
			f, err := a.read(queue, values)
			if err != nil {
				return "", err
			}
			f.batch = id
			return a.do(ctx, d, queue, f)
		}, func(url.Values, bool) string { return d.link("queues", queue, "batches", id) })
	}
}
