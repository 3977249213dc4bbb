package recipes

import (
	"context"
	"fmt"

	"github.com/millrace/millrace/fairqueue"
)

// job is a document to convert, as the database has it.
type job struct {
	customer, document string
	pages              int
	batch              string
}

// fanOut writes a message for each page of a document. A repeat after a crash writes no page twice.
func fanOut(ctx context.Context, q *fairqueue.Queue, j *job, store func(context.Context, *job) error) error {
	if j.batch == "" {
		var err error
		end := fairqueue.Draft{Tenant: j.customer, Body: []byte(j.document)} // comes when all pages have ended
		if j.batch, err = q.Batches().Create(ctx, j.pages, end); err != nil {
			return err
		}
		if err := store(ctx, j); err != nil {
			return err
		}
	}
	drafts := make([]fairqueue.Draft, j.pages)
	for i := range drafts {
		page := fmt.Sprintf("%s page %d", j.document, i+1)
		drafts[i] = fairqueue.Draft{Tenant: j.customer, Body: []byte(page), Batch: j.batch, DedupeID: page}
	}
	_, err := q.WriteBatch(ctx, drafts...)
	return err
}

// handle gets the pages, and the end.
func (c *converter) handle(ctx context.Context, m fairqueue.Message) error {
	if m.Headers[fairqueue.HeaderBatch] == "" {
		return c.convert(ctx, string(m.Body))
	}
	if dead := m.Headers[fairqueue.HeaderBatchDead]; dead != "0" {
		return c.complain(ctx, string(m.Body), dead)
	}
	return c.join(ctx, string(m.Body))
}

// converter is the program's own work.
type converter struct {
	convert  func(ctx context.Context, page string) error
	join     func(ctx context.Context, document string) error
	complain func(ctx context.Context, document, dead string) error
}
