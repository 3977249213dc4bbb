package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/ops"
)

// batchCommands is the noun batch.
type batchCommands struct {
	Create batchCreate `cmd:""`
	Ls     batchLs     `cmd:""`
	Show   batchShow   `cmd:""`
	Close  batchClose  `cmd:""`
	Cancel batchCancel `cmd:""`
}

func (*batchCommands) Help() string {
	return `A batch counts messages of a queue that belong together. When all of them have ended, the queue writes one message with the counts.

Examples:

    id=$(millrace batch create imports --total 2 --tenant acme --body '{"import":17}')
    millrace queue write imports --tenant acme --of-batch $id --body first
    millrace queue write imports --tenant acme --of-batch $id --body second
    millrace batch show imports $id`
}

type batchCreate struct {
	Queue ops.Queue `embed:""`
	ops.BatchDraft
}

func (c *batchCreate) Run(ctx context.Context, a *app) error {
	return onQueue(ctx, a, c.Queue, ops.CreateBatch, c.BatchDraft, func(doc ops.CreatedBatch) table { return says("%s", doc.ID) })
}

type batchLs struct {
	watchable
	ops.Queue
}

func (c *batchLs) Run(ctx context.Context, a *app) error {
	return onQueue(ctx, a, c.Queue, ops.ListBatches, c.Queue, func(doc ops.Batches) table {
		return func(w io.Writer) {
			if len(doc.Batches) == 0 {
				fmt.Fprintln(w, "there are no batches")
				return
			}
			fmt.Fprintln(w, "ID\tSTATE\tCREATED\tMESSAGES\tLEFT\tHANDLED\tDEAD\tCANCELLED\tEXPIRED")
			for _, b := range doc.Batches {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\n", b.ID, b.State, b.CreatedAt.Local().Format(time.DateTime), messagesOf(b), b.Left, b.Handled, b.Dead, b.Cancelled, b.Expired)
			}
		}
	})
}

// messagesOf says how many messages a batch has, and of how many.
func messagesOf(b ops.Batch) string {
	switch {
	case b.Total == nil:
		return fmt.Sprintf("%d so far", b.Written)
	case *b.Total != b.Written:
		return fmt.Sprintf("%d of %d", b.Written, *b.Total)
	}
	return fmt.Sprint(b.Written)
}

type batchShow struct {
	watchable
	ops.BatchID
}

func (c *batchShow) Run(ctx context.Context, a *app) error {
	return onBatch(ctx, a, c.BatchID, ops.GetBatch)
}

type batchClose struct{ ops.BatchID }

func (c *batchClose) Run(ctx context.Context, a *app) error {
	return onBatch(ctx, a, c.BatchID, ops.CloseBatch)
}

type batchCancel struct{ ops.BatchID }

func (c *batchCancel) Run(ctx context.Context, a *app) error {
	return onBatch(ctx, a, c.BatchID, ops.CancelBatch)
}

// onBatch does an operation on a batch, and prints the batch.
func onBatch(ctx context.Context, a *app, id ops.BatchID, o ops.Operation[*fairqueue.Queue, ops.BatchID, ops.Batch]) error {
	return onQueue(ctx, a, ops.Queue{Name: id.Queue}, o, id, func(b ops.Batch) table {
		return func(w io.Writer) {
			fmt.Fprintf(w, "state\t%s\nmessages\t%s\nleft\t%d\nhandled\t%d\ndead\t%d\ncancelled\t%d\nexpired\t%d\n", b.State, messagesOf(b), b.Left, b.Handled, b.Dead, b.Cancelled, b.Expired)
			until := "done at the latest"
			if b.State == fairqueue.BatchDone {
				until = "forgotten"
			}
			fmt.Fprintf(w, "created\t%s\n%s\t%s\n", b.CreatedAt.Local().Format(time.DateTime), until, b.Until.Local().Format(time.DateTime))
		}
	})
}
