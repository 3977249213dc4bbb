package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/ops"
	"github.com/millrace/millrace/internal/readable"
)

// queueDead is the noun below queue for messages that were delivered too often.
type queueDead struct {
	Ls      deadLs      `cmd:"" default:"withargs"`
	Groups  deadGroups  `cmd:""`
	Redrive deadRedrive `cmd:""`
	Purge   deadPurge   `cmd:""`
	Keep    deadKeep    `cmd:""`
	After   deadAfter   `cmd:""`
}

func (*queueDead) Help() string {
	return `A message that was delivered too often, or that its reader gave up, is kept with the reason.

Examples:

    millrace queue dead orders
    millrace queue dead groups orders
    millrace queue dead redrive orders --reason 'card expired'
    millrace queue dead purge orders --all`
}

// deadLs searches, and the API pages.
type deadLs struct {
	watchable
	ops.DeadSearch
	Most int `placeholder:"N" doc:"How many matches end the search, up to 1,000; up to 49 more are shown. Defaults to 100."`
}

func (*deadLs) Help() string {
	return `The word ls may be left out. It examines a limited number of messages, and says how to go on.`
}

func (c *deadLs) Run(ctx context.Context, a *app) error {
	return queueName{c.Queue}.with(ctx, a, fairqueue.Config{}, func(q *fairqueue.Queue) (any, table, error) {
		cfg, err := c.Config()
		if err != nil {
			return nil, nil, err
		}
		cfg.State, cfg.Max = fairqueue.Dead, c.Most
		found, err := q.Search(ctx, cfg)
		doc := struct {
			Dead []ops.DeadMessage `json:"dead"`
			ops.Searched
		}{ops.OfDead(found.Messages), ops.SearchedOf(found)}
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

func tableOfDead(w io.Writer, list []ops.DeadMessage) {
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
	ops.DeadSearch
}

func (c *deadGroups) Run(ctx context.Context, a *app) error {
	return onQueue(ctx, a, c.Queue, ops.GroupDead, c.DeadSearch, tableOfGroups)
}

func tableOfGroups(doc ops.DeadGroups) table {
	return func(w io.Writer) {
		fmt.Fprintln(w, "COUNT\tOLDEST\tNEWEST\tTENANT\tREASON")
		for _, g := range doc.Groups {
			fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\n", g.Count, g.Oldest.Local().Format(time.DateTime), g.Newest.Local().Format(time.DateTime), tenantOf(g), g.Reason)
		}
		printSearched(w, doc.Searched)
	}
}

type deadKeep struct {
	queueName
	ops.DeadLimits
}

func (*deadKeep) Help() string {
	return `Without flags 10,000 are kept for 90 days, as in a new queue.`
}

func (c *deadKeep) Run(ctx context.Context, a *app) error {
	if c.Max != nil && *c.Max < 0 || c.Age != nil && c.Age.Duration < 0 {
		return millrace.ErrBadArgument.Errorf("neither the number nor the age of kept messages is negative")
	}
	return c.with(ctx, a, fairqueue.Config{}, func(q *fairqueue.Queue) (any, table, error) {
		doc, err := ops.KeepDead.Do(ctx, q, c.DeadLimits)
		number, age := "any number", "for ever"
		if doc.Max > 0 {
			number = fmt.Sprint(doc.Max)
		}
		if doc.Age > 0 {
			age = "for " + readable.Duration(time.Duration(doc.Age)*time.Millisecond)
		}
		return struct {
			Most int   `json:"most"`
			Age  int64 `json:"age_ms"`
		}{doc.Max, doc.Age}, says("%s of dead messages kept, %s", number, age), err
	})
}

type deadAfter struct {
	queueName
	ops.Attempts
}

func (*deadAfter) Help() string {
	return `Without --attempts it is the default, 5.`
}

func (c *deadAfter) Run(ctx context.Context, a *app) error {
	if c.Attempts.Attempts < 0 {
		return millrace.ErrBadArgument.Errorf("the number of attempts is not negative")
	}
	return c.with(ctx, a, fairqueue.Config{}, func(q *fairqueue.Queue) (any, table, error) {
		doc, err := ops.DeadAfter.Do(ctx, q, c.Attempts)
		number := fmt.Sprint(doc.Attempts)
		if doc.Attempts == 0 {
			number = "5"
		}
		return doc, says("a message is dead after %s attempts", number), err
	})
}
