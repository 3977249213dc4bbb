package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/document"
	"github.com/millrace/millrace/internal/ops"
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
    millrace queue dead groups orders
    millrace queue dead redrive orders --reason 'card expired'
    millrace queue dead purge orders --all`
}

type deadLs struct {
	watchable
	queueName
	ops.Search
	Reason document.Text `placeholder:"TEXT" help:"With this reason."`
	Most   int           `placeholder:"N" help:"How many matches end the search, up to 1,000; up to 49 more are shown. Defaults to 100."`
}

func (*deadLs) Help() string {
	return `The word ls may be left out. It examines a bounded number of messages, and says how to go on.

Examples:

    millrace queue dead ls orders
    millrace queue dead orders --tenant acme --reason 'card expired' --json`
}

func (c *deadLs) Run(ctx context.Context, a *app) error {
	return c.with(ctx, a, fairqueue.Config{}, func(q *fairqueue.Queue) (any, table, error) {
		cfg, err := c.Config()
		if err != nil {
			return nil, nil, err
		}
		cfg.State, cfg.Reason, cfg.Max = fairqueue.Dead, string(c.Reason), c.Most
		found, err := q.Search(ctx, cfg)
		doc := struct {
			Dead []document.DeadMessage `json:"dead"`
			ops.Searched
		}{[]document.DeadMessage{}, ops.SearchedOf(found)}
		for _, m := range found.Messages {
			doc.Dead = append(doc.Dead, document.OfDead(m))
		}
		return doc, func(w io.Writer) {
			if len(doc.Dead) == 0 && doc.Total > 0 {
				fmt.Fprintln(w, "no dead message matches")
			} else {
				tableOfDead(w, doc.Dead)
			}
			printSearched(w, doc.Searched)
		}, err
	})
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

type deadGroups struct {
	watchable
	queueName
	ops.Search
}

func (*deadGroups) Help() string {
	return `The largest group first. It examines a bounded number of messages, and says how to go on.

Examples:

    millrace queue dead groups orders
    millrace queue dead groups orders --tenant acme`
}

func (c *deadGroups) Run(ctx context.Context, a *app) error {
	return c.with(ctx, a, fairqueue.Config{}, func(q *fairqueue.Queue) (any, table, error) {
		cfg, err := c.Config()
		if err != nil {
			return nil, nil, err
		}
		groups, found, err := q.Dead().Groups(ctx, cfg)
		doc := groupsDoc{ofGroups(groups), ops.SearchedOf(found)}
		return doc, doc.table, err
	})
}

// deadGroup is dead messages that have a reason in common.
type deadGroup struct {
	Reason document.Text `json:"reason"`
	Count  int           `json:"count"`
	Oldest time.Time     `json:"oldest"`
	Newest time.Time     `json:"newest"`
}

// groupsDoc is the document of queue dead groups.
type groupsDoc struct {
	Groups []deadGroup `json:"groups"`
	ops.Searched
}

func ofGroups(groups []fairqueue.DeadGroup) []deadGroup {
	list := []deadGroup{}
	for _, g := range groups {
		list = append(list, deadGroup{document.Text(g.Reason), g.Count, g.Oldest.UTC(), g.Newest.UTC()})
	}
	return list
}

func (doc groupsDoc) table(w io.Writer) {
	fmt.Fprintln(w, "COUNT\tOLDEST\tNEWEST\tREASON")
	for _, g := range doc.Groups {
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\n", g.Count, g.Oldest.Local().Format(time.DateTime), g.Newest.Local().Format(time.DateTime), g.Reason)
	}
	printSearched(w, doc.Searched)
}

type deadKeep struct {
	queueName
	Most int           `default:"10000" placeholder:"N" help:"How many; 0 for any number. Defaults to 10000."`
	Age  time.Duration `default:"2160h" placeholder:"DURATION" help:"For how long; 0 for ever. Defaults to 2160h, 90 days."`
}

func (*deadKeep) Help() string {
	return `The oldest ones are dropped when another message dies, and counted as dropped. Without flags 10,000 are kept for 90 days, as in a new queue.

Examples:

    millrace queue dead keep orders --most 1000 --age 720h
    millrace queue dead keep orders --most 0 --age 0`
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
		return doc, says("%s of dead messages kept, %s", number, age), q.Dead().Keep(ctx, c.Most, c.Age)
	})
}
