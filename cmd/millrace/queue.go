package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/cmd/millrace/watch"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/jsontype"
	"github.com/millrace/millrace/internal/ops"
	"github.com/millrace/millrace/internal/readable"
)

// queueCommands is the noun queue.
type queueCommands struct {
	Write    queueWrite    `cmd:""`
	Read     queueRead     `cmd:""`
	Ack      queueAck      `cmd:""`
	Nack     queueNack     `cmd:""`
	Extend   queueExtend   `cmd:""`
	Cancel   queueCancel   `cmd:""`
	Work     queueWork     `cmd:"" help:"Run a shell command for each message."`
	Stats    queueStats    `cmd:""`
	Browse   queueBrowse   `cmd:""`
	Show     queueShow     `cmd:""`
	Ls       queueLs       `cmd:""`
	Resize   queueResize   `cmd:""`
	Position queuePosition `cmd:""`
	Tenants  queueTenants  `cmd:""`
	Tenant   queueTenant   `cmd:"" help:"Limit, pause, resume or purge one tenant."`
	Pause    queuePause    `cmd:""`
	Resume   queueResume   `cmd:""`
	Failures queueFailures `cmd:""`
	Retry    queueRetry    `cmd:""`
	Dead     queueDead     `cmd:"" help:"List, redrive or purge messages that were delivered too often."`
	Rm       queueRm       `cmd:""`
}

func (*queueCommands) Help() string {
	return `Each message belongs to a tenant, and the tenants take turns. A message is delivered again and again until it is acknowledged, cancelled, expired or dead. Its id stays the same; each delivery has a receipt of its own, with which it is settled.

    write ──▶ waiting ──▶ read ──▶ in flight ──┬─ ack ──▶ gone
      │ --delay  ▲  ▲                │         ├─ cancel ──▶ gone
      ▼          │  └────────────────┘         ├─ nack ──▶ delayed, or waiting
    delayed ─────┘    its visibility ends      └─ too often, or --dead ──▶ dead

    waiting or delayed ──▶ cancel, or the deadline ──▶ gone
    dead ──▶ redrive ──▶ waiting
         └─▶ purge ──▶ gone

Examples:

    millrace queue write orders --tenant acme --body hello
    millrace queue read orders --max 10 --block 30s
    millrace queue ack orders RECEIPT
    millrace queue stats orders`
}

// queueName is the argument that names a queue.
type queueName struct{ ops.Queue }

// with opens the queue for do.
func (n queueName) with(ctx context.Context, a *app, cfg fairqueue.Config, do func(*fairqueue.Queue) (any, table, error)) error {
	return inCommands(on(ctx, a, func(c rueidis.Client) (*fairqueue.Queue, error) { return fairqueue.New(c, string(n.Name), cfg) }, do))
}

// inCommands has hints that name Go methods name commands instead.
func inCommands(err error) error {
	if !errors.Is(err, millrace.ErrBroken) {
		return err
	}
	return millrace.ErrBroken.Errorf("%s", err).WithHint("Look at its keys; they are removed, whatever they hold, with: millrace queue rm NAME --yes")
}

type queueLs struct{ watchable }

func (*queueLs) Help() string {
	return `millrace doctor --scan finds queues that were not used since Millrace has a registry. If servers do not answer, what the others have is printed, and the command fails with the code "partial".`
}

func (*queueLs) Run(ctx context.Context, a *app) error {
	return a.list(ctx, "queues", fairqueue.List, func(names []jsontype.Text, part ops.Incomplete) any {
		return ops.Queues{Queues: names, Incomplete: part}
	})
}

type queueResize struct {
	queueName
	ops.Resize
}

// inWords returns a queue's shape as people read it.
func inWords(s ops.Shape) string {
	if s.Streams == 0 {
		return "a flow for each tenant"
	}
	return fmt.Sprintf("%s, %d a tenant", readable.Count(s.Streams, "stream"), s.PerTenant)
}

func (c *queueResize) Run(ctx context.Context, a *app) error {
	switch {
	case c.Streams < 0 || c.Streams > 1024:
		return millrace.ErrBadArgument.Errorf("a queue has up to 1024 streams, not %d", c.Streams)
	case c.PerTenant < 0 || c.PerTenant > c.Streams:
		return millrace.ErrBadArgument.Errorf("a tenant has 1 to %d streams, not %d", c.Streams, c.PerTenant)
	}
	return onQueue(ctx, a, c.Queue, ops.ResizeQueue, c.Resize, func(doc ops.Resized) table {
		return says("%s; before: %s", inWords(doc.Shape), inWords(doc.Before))
	})
}

type queuePause struct {
	queueName
}

func (c *queuePause) Run(ctx context.Context, a *app) error {
	return onQueue(ctx, a, c.Queue, ops.PauseQueue, nil, func(ops.Paused) table { return says("paused") })
}

type queueResume struct {
	queueName
}

func (c *queueResume) Run(ctx context.Context, a *app) error {
	return onQueue(ctx, a, c.Queue, ops.ResumeQueue, nil, func(ops.Paused) table { return says("resumed") })
}

type queueRm struct {
	queueName
	Yes bool `help:"Do not ask."`
}

func (*queueRm) Help() string { return `It asks first, and without a terminal it needs --yes.` }

func (c *queueRm) Run(ctx context.Context, a *app) error {
	return c.with(ctx, a, fairqueue.Config{}, func(q *fairqueue.Queue) (any, table, error) {
		if !c.Yes && !watch.IsTerminal(a.stdin) {
			return nil, nil, errDeclined.Errorf("this needs a confirmation").WithHint("Add --yes: without a terminal nothing is asked.")
		}
		if err := a.ask(ctx, c.Yes, fmt.Sprintf("Delete the queue %s with all its messages?", c.Name)); err != nil {
			return nil, nil, err
		}
		doc, err := ops.DeleteQueue.Do(ctx, q, c.Queue)
		return doc, tableOfDeleted(doc), err
	})
}
