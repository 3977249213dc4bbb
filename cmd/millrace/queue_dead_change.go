package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/jsontype"
	"github.com/millrace/millrace/internal/ops"
	"github.com/millrace/millrace/internal/readable"
)

// deadChoice names the dead messages that a command changes.
type deadChoice struct {
	queueName
	IDs []string `arg:"" optional:"" name:"id" doc:"Ids of dead messages."`
	ops.Content
	Reason jsontype.Text `placeholder:"TEXT" doc:"Their reason, whole. Defaults to any."`
	All    bool          `doc:"All that are dead."`
	DryRun bool          `doc:"Count what matches by its reason, and change nothing."`
}

// OfOperator reports whether messages may change.
func (c *deadChoice) OfOperator(context.Context) bool { return !c.DryRun }

// filter returns the search that selects the messages, unless they are named by ids.
func (c *deadChoice) filter() (fairqueue.SearchConfig, error) {
	cfg, err := c.Config()
	if err != nil {
		return cfg, err
	}
	cfg.Reason = string(c.Reason)
	ways := 0
	for _, given := range []bool{len(c.IDs) > 0, c.All, c.Tenant+c.Text+c.Reason != "" || len(c.Headers) > 0} {
		if given {
			ways++
		}
	}
	switch {
	case ways != 1:
		return cfg, errUsage.Errorf("name messages by their ids, or by what they have (--reason, --tenant, --header, --text), or say --all")
	case c.DryRun && len(c.IDs) > 0:
		return cfg, errUsage.Errorf("--dry-run counts what matches, so there are no ids")
	}
	return cfg, nil
}

// deadChange is a command's action on dead messages.
type deadChange struct {
	ids      func(fairqueue.DeadLetters, context.Context, ...string) (int, error)
	matching func(fairqueue.DeadLetters, context.Context, fairqueue.SearchConfig) (int, fairqueue.Found, error)
	doc      func(n int) any
	done     string
	allow    func(matching string) error // whether to do it to the matching messages; nil if it may
}

func (c *deadChoice) run(ctx context.Context, a *app, change deadChange) error {
	cfg, err := c.filter()
	if err != nil {
		return err
	}
	return c.with(ctx, a, fairqueue.Config{}, func(q *fairqueue.Queue) (any, table, error) {
		if c.DryRun {
			doc, err := matchingGroups(ctx, q, cfg)
			return doc, func(w io.Writer) {
				fmt.Fprintf(w, "matching: %s\n\n", readable.Count(countOf(doc), "dead message"))
				tableOfGroups(doc)(w)
			}, err
		}
		var n int
		if len(c.IDs) > 0 {
			n, err = change.ids(q.Dead(), ctx, c.IDs...)
		} else {
			n, err = c.changeMatching(ctx, a, q, cfg, change)
		}
		return change.doc(n), says("%s %s", readable.Count(n, "message"), change.done), err
	})
}

func (c *deadChoice) changeMatching(ctx context.Context, a *app, q *fairqueue.Queue, cfg fairqueue.SearchConfig, change deadChange) (n int, err error) {
	if change.allow != nil {
		doc, err := matchingGroups(ctx, q, cfg)
		if err != nil || countOf(doc) == 0 {
			return 0, err
		}
		if err := change.allow(readable.Count(countOf(doc), "dead message")); err != nil {
			return 0, err
		}
	}
	log, logged := a.logger(), time.Now()
	err = eachDeadPage(cfg, func(cfg fairqueue.SearchConfig) (fairqueue.Found, error) {
		some, found, err := change.matching(q.Dead(), ctx, cfg)
		if n += some; time.Since(logged) >= time.Second {
			logged = time.Now()
			log.InfoContext(ctx, change.done, "messages", n)
		}
		return found, err
	})
	if err != nil && n > 0 {
		err = fmt.Errorf("after %s: %w", readable.Count(n, "message"), err)
	}
	return n, err
}

// eachDeadPage calls do until as many messages are examined as were dead at first: those that
// die meanwhile come last.
func eachDeadPage(cfg fairqueue.SearchConfig, do func(fairqueue.SearchConfig) (fairqueue.Found, error)) error {
	for left, first := 0, true; ; first = false {
		found, err := do(cfg)
		if first {
			left = found.Total
		}
		left -= found.Looked
		if err != nil || left <= 0 || found.Next == "" {
			return err
		}
		cfg.After, cfg.Look = found.Next, min(left, deadPage)
	}
}

// deadPage is how many dead messages are examined between two changes.
const deadPage = 10_000

// matchingGroups counts all dead messages that match by their reason.
func matchingGroups(ctx context.Context, q *fairqueue.Queue, cfg fairqueue.SearchConfig) (doc ops.DeadGroups, err error) {
	doc.Groups = []ops.DeadGroup{}
	at := map[jsontype.Text]int{}
	err = eachDeadPage(cfg, func(cfg fairqueue.SearchConfig) (fairqueue.Found, error) {
		groups, found, err := q.Dead().Groups(ctx, cfg)
		for _, g := range ops.OfGroups(groups, found).Groups {
			i, known := at[g.Reason]
			if !known {
				at[g.Reason] = len(doc.Groups)
				doc.Groups = append(doc.Groups, g)
				continue
			}
			doc.Groups[i].Count += g.Count
			doc.Groups[i].Newest = g.Newest
		}
		doc.Looked, doc.Total = doc.Looked+found.Looked, found.Total
		return found, err
	})
	return doc, err
}

// countOf returns how many messages the groups have.
func countOf(doc ops.DeadGroups) (n int) {
	for _, g := range doc.Groups {
		n += g.Count
	}
	return n
}

type deadRedrive struct {
	deadChoice
}

func (c *deadRedrive) Run(ctx context.Context, a *app) error {
	return c.run(ctx, a, deadChange{
		ids: fairqueue.DeadLetters.Redrive, matching: fairqueue.DeadLetters.RedriveMatching,
		doc: func(n int) any { return ops.Redriven{Redriven: n} }, done: "will be tried again",
	})
}

type deadPurge struct {
	deadChoice
	Yes bool `help:"Do not ask."`
}

func (*deadPurge) Help() string { return `Unless ids are given, it asks first, with the number.` }

func (c *deadPurge) Run(ctx context.Context, a *app) error {
	change := deadChange{
		ids: fairqueue.DeadLetters.Purge, matching: fairqueue.DeadLetters.PurgeMatching,
		doc: func(n int) any { return ops.Purged{Purged: n} }, done: "purged",
	}
	if !c.Yes {
		change.allow = func(matching string) error {
			return a.ask(ctx, false, fmt.Sprintf("Purge %s of %s?", matching, c.Name))
		}
	}
	return c.run(ctx, a, change)
}
