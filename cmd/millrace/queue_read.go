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
	"github.com/millrace/millrace/internal/document"
	"github.com/millrace/millrace/internal/ops"
	"github.com/millrace/millrace/internal/readable"
)

type queueRead struct {
	queueName
	Max        int           `placeholder:"N" default:"1" help:"How many messages at most, up to 1,000. Defaults to ${default}."`
	Block      time.Duration `placeholder:"DURATION" help:"For how long to wait for the first one. Defaults to not at all."`
	Visibility time.Duration `placeholder:"DURATION" default:"30s" help:"After how long they come again unless they are settled or extended, from 10ms to 12h. Defaults to ${default}."`
}

func (*queueRead) Help() string {
	return `Takes one message from each tenant in turn. Each comes again, with another receipt, unless it is acknowledged, given back or extended within its visibility. Nothing to read is no error, and neither is a queue that is paused or does not exist.

Examples:

    millrace queue read orders
    millrace queue read orders --max 100 --block 30s --visibility 5m --json`
}

func (c *queueRead) Run(ctx context.Context, a *app) error {
	switch {
	case c.Max < 1 || c.Max > 1000:
		return millrace.ErrBadArgument.Errorf("a read takes 1 to 1000 messages, not %d", c.Max)
	case c.Block < 0:
		return millrace.ErrBadArgument.Errorf("cannot wait for %s", c.Block)
	}
	if err := checkVisibility(c.Visibility); err != nil {
		return err
	}
	return c.with(ctx, a, fairqueue.Config{}, func(q *fairqueue.Queue) (any, table, error) {
		messages, err := q.Read(ctx, fairqueue.ReadConfig{Max: c.Max, Block: c.Block, Visibility: c.Visibility})
		doc := document.OfMessages(messages, errors.Is(err, fairqueue.ErrPaused))
		if err != nil && !doc.Paused && !errors.Is(err, fairqueue.ErrEmpty) {
			return nil, nil, err
		}
		receipts := make([]string, len(messages))
		for i, m := range messages {
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

func tableOfMessages(w io.Writer, doc document.Messages) {
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
func excerpt(body document.Text) string {
	const most = 60
	shown := []rune(document.Text(strings.Join(strings.Fields(string(body)), " ")).String())
	if len(shown) <= most {
		return string(shown)
	}
	return string(shown[:most]) + "... (" + readable.Count(len(body), "byte") + ")"
}

type queueAck struct {
	queueName
	Receipts []string `arg:"" name:"receipt" help:"Receipts of messages that were handled."`
}

func (*queueAck) Help() string {
	return `When a receipt is stale, because its message was given to another reader by now, was cancelled or is acknowledged already, the command fails with the code "stale"; the others count all the same.

Examples:

    millrace queue ack orders RECEIPT`
}

func (c *queueAck) Run(ctx context.Context, a *app) error {
	return c.with(ctx, a, fairqueue.Config{}, func(q *fairqueue.Queue) (any, table, error) {
		acked, err := q.Ack(ctx, c.Receipts...)
		return map[string]int{"acked": acked}, says("%s acknowledged", readable.Count(acked, "message")), err
	})
}

type queueNack struct {
	queueName
	Receipt string        `arg:"" help:"The receipt of a message that could not be handled."`
	Delay   time.Duration `placeholder:"DURATION" help:"After how long it comes again. Defaults to at once."`
	Reason  document.Text `placeholder:"TEXT" help:"Why, for people who find it dead; 512 bytes of it are kept."`
	Dead    bool          `help:"It is not worth another try: let it be dead."`
}

func (*queueNack) Help() string {
	return `The message comes again in its old place, unless it was delivered too often and is dead.

Examples:

    millrace queue nack orders RECEIPT --delay 1m --reason "the shop does not answer"
    millrace queue nack orders RECEIPT --dead --reason "no such article"`
}

func (c *queueNack) Run(ctx context.Context, a *app) error {
	switch {
	case c.Delay < 0:
		return millrace.ErrBadArgument.Errorf("the delay is negative: %s", c.Delay)
	case c.Dead && c.Delay > 0:
		return errUsage.Errorf("a message that is dead does not come again after a delay: --dead or --delay")
	}
	return c.with(ctx, a, fairqueue.Config{}, func(q *fairqueue.Queue) (any, table, error) {
		said := says("given back")
		if c.Dead {
			said = says("dead")
		}
		_, err := q.Nack(ctx, fairqueue.NackConfig{Delay: c.Delay, Reason: string(c.Reason), Dead: c.Dead}, c.Receipt)
		return map[string]bool{"nacked": true}, said, err
	})
}

type queueExtend struct {
	queueName
	Receipt    string        `arg:"" help:"The receipt of a message that takes longer."`
	Visibility time.Duration `arg:"" name:"duration" help:"For how long it stays invisible from now on, from 10ms to 12h."`
}

func (*queueExtend) Help() string {
	return `Counted from now on, so that it may also come sooner. When the receipt is stale, the command fails with the code "stale".

Examples:

    millrace queue extend orders RECEIPT 5m`
}

func (c *queueExtend) Run(ctx context.Context, a *app) error {
	if err := checkVisibility(c.Visibility); err != nil {
		return err
	}
	return c.with(ctx, a, fairqueue.Config{}, func(q *fairqueue.Queue) (any, table, error) {
		good, err := q.Extend(ctx, c.Visibility, c.Receipt)
		if err == nil && !good[0] {
			err = millrace.ErrStale.Errorf("the receipt is stale")
		}
		return map[string]bool{"extended": true}, says("invisible for %s", readable.Duration(c.Visibility)), err
	})
}

type queueCancel struct {
	queueName
	ops.Cancel
}

func (c *queueCancel) Run(ctx context.Context, a *app) error {
	return onQueue(ctx, a, c.Queue, ops.CancelMessages, c.Cancel, func(doc document.Cancelled) table {
		return func(w io.Writer) {
			fmt.Fprintln(w, "ID\tWAS")
			for _, m := range doc.Messages {
				fmt.Fprintf(w, "%s\t%s\n", m.ID, m.Was)
			}
		}
	})
}
