package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/jsontype"
	"github.com/millrace/millrace/internal/ops"
	"github.com/millrace/millrace/internal/readable"
)

type queueRead struct {
	queueName
	ops.Receive
}

func (c *queueRead) Run(ctx context.Context, a *app) error {
	switch {
	case c.Max < 1 || c.Max > 1000:
		return millrace.ErrBadArgument.Errorf("a read takes 1 to 1000 messages, not %d", c.Max)
	case c.Block.Duration < 0:
		return millrace.ErrBadArgument.Errorf("cannot wait for %s", c.Block)
	}
	if err := checkVisibility(c.Invisible()); err != nil {
		return err
	}
	return c.with(ctx, a, fairqueue.Config{}, func(q *fairqueue.Queue) (any, table, error) {
		doc, err := ops.ReceiveMessages.Do(ctx, q, c.Receive)
		if err != nil {
			return nil, nil, err
		}
		receipts := make([]string, len(doc.Messages))
		for i, m := range doc.Messages {
			receipts[i] = m.Receipt
		}
		if err = a.print(doc, func(w io.Writer) { tableOfMessages(w, doc) }); err != nil { // the receipts were not printed
			_, _ = q.Extend(ctx, 10*time.Millisecond, receipts...) // else they come when they are visible
		}
		return nil, nil, err
	})
}

func checkVisibility(d time.Duration) error {
	if d < 10*time.Millisecond || d > 12*time.Hour {
		return millrace.ErrBadArgument.Errorf("a visibility is from 10ms to 12h, not %s", d)
	}
	return nil
}

func tableOfMessages(w io.Writer, doc ops.Messages) {
	switch {
	case doc.Paused:
		fmt.Fprintln(w, "nothing to read: the queue is paused")
		return
	case len(doc.Messages) == 0:
		fmt.Fprintln(w, "nothing to read")
		return
	}
	fmt.Fprintln(w, "RECEIPT\tTENANT\tATTEMPT\tPICKED UP AFTER\tBODY")
	for _, m := range doc.Messages {
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\n",
			m.Receipt, m.Tenant, m.Attempt, readable.Duration(time.Duration(m.PickupDelay)*time.Millisecond), excerpt(m.Body))
	}
}

// excerpt returns the beginning of a body, as a table shows it: on one line.
func excerpt(body jsontype.Text) string {
	const most = 60
	shown := []rune(jsontype.Text(strings.Join(strings.Fields(string(body)), " ")).String())
	if len(shown) <= most {
		return string(shown)
	}
	return string(shown[:most]) + "... (" + readable.Count(len(body), "byte") + ")"
}

type queueAck struct {
	queueName
	ops.Ack
}

func (c *queueAck) Run(ctx context.Context, a *app) error {
	return c.with(ctx, a, fairqueue.Config{}, func(q *fairqueue.Queue) (any, table, error) {
		doc, err := ops.AckMessages.Do(ctx, q, c.Ack)
		return map[string]int{"acked": doc.Acked}, says("%s acknowledged", readable.Count(doc.Acked, "message")), err
	})
}

type queueNack struct {
	queueName
	ops.Nack
}

func (c *queueNack) Run(ctx context.Context, a *app) error {
	switch {
	case c.Delay != nil && c.Delay.Duration < 0:
		return millrace.ErrBadArgument.Errorf("the delay is negative: %s", c.Delay)
	case c.Dead && c.Delay != nil && c.Delay.Duration > 0:
		return errUsage.Errorf("a message that is dead does not come again after a delay: --dead or --delay")
	}
	return c.with(ctx, a, fairqueue.Config{}, func(q *fairqueue.Queue) (any, table, error) {
		said := says("given back")
		if c.Dead {
			said = says("dead")
		}
		_, err := ops.NackMessages.Do(ctx, q, c.Nack)
		return map[string]bool{"nacked": true}, said, err
	})
}

// queueExtend takes one receipt, since the time is behind it.
type queueExtend struct {
	queueName
	Receipt    string            `arg:"" doc:"The receipt of a message that takes longer."`
	Visibility jsontype.Duration `arg:"" name:"duration" doc:"How long from now on, from 10ms to 12h."`
}

func (c *queueExtend) Run(ctx context.Context, a *app) error {
	if err := checkVisibility(c.Visibility.Duration); err != nil {
		return err
	}
	return c.with(ctx, a, fairqueue.Config{}, func(q *fairqueue.Queue) (any, table, error) {
		_, err := ops.ExtendMessages.Do(ctx, q, ops.Extend{Receipts: ops.Receipts{List: []string{c.Receipt}}, Visibility: c.Visibility})
		if errors.Is(err, millrace.ErrStale) {
			err = millrace.ErrStale.Errorf("the receipt is stale")
		}
		return map[string]bool{"extended": true}, says("invisible for %s", readable.Duration(c.Visibility.Duration)), err
	})
}

type queueCancel struct {
	queueName
	ops.Cancel
}

func (c *queueCancel) Run(ctx context.Context, a *app) error {
	return onQueue(ctx, a, c.Queue, ops.CancelMessages, c.Cancel, func(doc ops.Cancelled) table {
		return func(w io.Writer) {
			fmt.Fprintln(w, "ID\tWAS")
			for _, m := range doc.Messages {
				fmt.Fprintf(w, "%s\t%s\n", m.ID, m.Was)
			}
		}
	})
}
