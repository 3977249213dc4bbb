package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/document"
	"github.com/millrace/millrace/internal/readable"
)

// queueDead is the noun below queue for messages that were delivered too often.
type queueDead struct {
	Ls      deadLs      `cmd:"" default:"withargs" help:"List dead messages, the oldest death first."`
	Groups  deadGroups  `cmd:"" help:"Count dead messages by their reason."`
	Redrive deadRedrive `cmd:"" help:"Retry dead messages."`
	Purge   deadPurge   `cmd:"" help:"Delete dead messages."`
	Keep    deadKeep    `cmd:"" help:"Bound how many dead messages are kept, and for how long."`
}

func (*queueDead) Help() string {
	return `A message that was delivered too often, or that its reader gave up, is kept with the reason.

Examples:

    millrace queue dead orders
    millrace queue dead redrive orders 1795226400123456
    millrace queue dead purge orders --all`
}

type deadLs struct {
	queueName
}

func (*deadLs) Help() string {
	return `The word ls may be left out.

Examples:

    millrace queue dead ls orders
    millrace queue dead orders --json`
}

func (c *deadLs) Run(ctx context.Context, a *app) error {
	return c.with(ctx, a, fairqueue.Config{}, func(q *fairqueue.Queue) (any, table, error) {
		list := []document.DeadMessage{}
		err := eachDead(ctx, q, func(m fairqueue.Message) { list = append(list, document.OfDead(m)) })
		return map[string][]document.DeadMessage{"dead": list}, func(w io.Writer) { tableOfDead(w, list) }, err
	})
}

// eachDead calls do with the dead messages of a queue, which must exist.
func eachDead(ctx context.Context, q *fairqueue.Queue, do func(fairqueue.Message)) error {
	if _, err := q.Stats(ctx); err != nil {
		return err
	}
	for m, err := range q.Dead(ctx) {
		if err != nil {
			return err
		}
		do(m)
	}
	return nil
}

func tableOfDead(w io.Writer, list []document.DeadMessage) {
	if len(list) == 0 {
		fmt.Fprintln(w, "nothing is dead")
		return
	}
	fmt.Fprintln(w, "ID\tTENANT\tATTEMPTS\tWRITTEN\tREASON\tBODY")
	for _, m := range list {
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%s\n",
			m.ID, m.Tenant, m.Attempts, m.WrittenAt.Local().Format(time.DateTime), m.Reason, excerpt(m.Body))
	}
}

// deadChoice names the dead messages that a command is about.
type deadChoice struct {
	queueName
	IDs []string `arg:"" optional:"" name:"id" help:"Ids of dead messages."`
	All bool     `help:"All that are dead."`
}

// each calls do with the chosen messages, and reports how many it counted.
func (c *deadChoice) each(ctx context.Context, a *app, do func(*fairqueue.Queue, context.Context, ...string) (int, error), doc func(n int) any, done string) error {
	if c.All == (len(c.IDs) > 0) {
		return errUsage.Errorf("name messages by their ids, or say --all")
	}
	return c.with(ctx, a, fairqueue.Config{}, func(q *fairqueue.Queue) (any, table, error) {
		ids := c.IDs
		if c.All {
			if err := eachDead(ctx, q, func(m fairqueue.Message) { ids = append(ids, m.ID) }); err != nil {
				return nil, nil, err
			}
		}
		n, err := do(q, ctx, ids...)
		return doc(n), says("%s %s", readable.Count(n, "message"), done), err
	})
}

type deadRedrive struct {
	deadChoice
}

func (*deadRedrive) Help() string {
	return `They are tried again as if they had never been delivered, and without their deadline. Messages that are not dead are skipped.

Examples:

    millrace queue dead redrive orders 1795226400123456
    millrace queue dead redrive orders --all`
}

func (c *deadRedrive) Run(ctx context.Context, a *app) error {
	return c.each(ctx, a, (*fairqueue.Queue).Redrive, func(n int) any { return document.Redriven{Redriven: n} }, "will be tried again")
}

type deadPurge struct {
	deadChoice
}

func (*deadPurge) Help() string {
	return `Messages that are not dead are skipped.

Examples:

    millrace queue dead purge orders 1795226400123456
    millrace queue dead purge orders --all`
}

func (c *deadPurge) Run(ctx context.Context, a *app) error {
	return c.each(ctx, a, (*fairqueue.Queue).Purge, func(n int) any { return document.Purged{Purged: n} }, "purged")
}

type deadKeep struct {
	queueName
	Most int           `placeholder:"N" help:"How many. Defaults to any number."`
	Age  time.Duration `placeholder:"DURATION" help:"For how long. Defaults to for ever."`
}

func (*deadKeep) Help() string {
	return `The oldest ones are dropped when another message dies, and counted as dropped. Without flags all are kept, as in a new queue.

Examples:

    millrace queue dead keep orders --most 1000 --age 720h
    millrace queue dead keep orders`
}

func (c *deadKeep) Run(ctx context.Context, a *app) error {
	if c.Most < 0 || c.Age < 0 {
		return millrace.ErrBadArgument.Errorf("cannot keep %d messages for %s", c.Most, c.Age)
	}
	return c.with(ctx, a, fairqueue.Config{}, func(q *fairqueue.Queue) (any, table, error) {
		doc := struct {
			Most int   `json:"most"`
			Age  int64 `json:"age_ms"`
		}{c.Most, c.Age.Milliseconds()}
		number, age := "any number", "for ever"
		if c.Most > 0 {
			number = fmt.Sprint(c.Most)
		}
		if c.Age > 0 {
			age = "for " + readable.Duration(c.Age)
		}
		return doc, says("%s of dead messages kept, %s", number, age), q.KeepDead(ctx, c.Most, c.Age)
	})
}
