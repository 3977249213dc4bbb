package main

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"time"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/jsontype"
	"github.com/millrace/millrace/internal/ops"
	"github.com/millrace/millrace/internal/readable"
)

// failedChoice names messages that failed, which a command changes.
type failedChoice struct {
	queueName
	IDs []string `arg:"" optional:"" name:"id" doc:"Ids of messages."`
	ops.Content
	Reason jsontype.Text `placeholder:"TEXT" doc:"Their reason: the whole text, or one with # in place of numbers. Defaults to any."`
	All    bool          `doc:"All of them."`
	DryRun bool          `doc:"Count what matches by its reason, and change nothing."`
}

// OfOperator reports whether messages may change.
func (c *failedChoice) OfOperator(context.Context) bool { return !c.DryRun }

// filter returns the search that selects the messages, unless they are named by ids.
func (c *failedChoice) filter() (fairqueue.SearchConfig, error) {
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

// failedChange is a command's action on messages that failed.
type failedChange struct {
	state fairqueue.State
	thing string // that the messages are
	do    func(ctx context.Context, q *fairqueue.Queue, cfg fairqueue.SearchConfig, ids ...string) (int, fairqueue.Found, error)
	doc   func(n int) any
	done  string
	allow func(matching string) error // whether to do it to the matching messages; nil if it may
}

func (c *failedChoice) run(ctx context.Context, a *app, change failedChange) error {
	cfg, err := c.filter()
	if err != nil {
		return err
	}
	cfg.State = change.state
	return c.with(ctx, a, fairqueue.Config{}, func(q *fairqueue.Queue) (any, table, error) {
		if c.DryRun {
			doc, err := matchingGroups(ctx, q, cfg)
			return doc, func(w io.Writer) {
				fmt.Fprintf(w, "matching: %s\n\n", readable.Count(countOf(doc), change.thing))
				tableOfGroups(doc)(w)
			}, err
		}
		var n int
		if len(c.IDs) > 0 {
			n, _, err = change.do(ctx, q, cfg, c.IDs...)
		} else {
			n, err = c.changeMatching(ctx, a, q, cfg, change)
		}
		return change.doc(n), says("%s %s", readable.Count(n, "message"), change.done), err
	})
}

func (c *failedChoice) changeMatching(ctx context.Context, a *app, q *fairqueue.Queue, cfg fairqueue.SearchConfig, change failedChange) (n int, err error) {
	if change.allow != nil {
		doc, err := matchingGroups(ctx, q, cfg)
		if err != nil || countOf(doc) == 0 {
			return 0, err
		}
		if err := change.allow(readable.Count(countOf(doc), change.thing)); err != nil {
			return 0, err
		}
	}
	log, logged := a.logger(), time.Now()
	err = eachFailedPage(cfg, func(cfg fairqueue.SearchConfig) (fairqueue.Found, error) {
		some, found, err := change.do(ctx, q, cfg)
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

// eachFailedPage calls do until as many messages are examined as were in the state at first: those that
// come into it meanwhile come last.
func eachFailedPage(cfg fairqueue.SearchConfig, do func(fairqueue.SearchConfig) (fairqueue.Found, error)) error {
	for left, first := 0, true; ; first = false {
		found, err := do(cfg)
		if first {
			left = found.Total
		}
		left -= found.Looked
		if err != nil || left <= 0 || found.Next == "" {
			return err
		}
		cfg.After, cfg.Look = found.Next, min(left, failedPage)
	}
}

// failedPage is how many messages are examined between two changes.
const failedPage = 10_000

var digits = regexp.MustCompile(`[0-9]+`)

// matchingGroups counts all messages that failed and match by their reason.
func matchingGroups(ctx context.Context, q *fairqueue.Queue, cfg fairqueue.SearchConfig) (doc ops.DeadGroups, err error) {
	doc.Groups = []ops.Group{}
	at := map[string]int{}
	err = eachFailedPage(cfg, func(cfg fairqueue.SearchConfig) (fairqueue.Found, error) {
		all, found, err := q.Failures(ctx, cfg)
		for _, g := range ops.OfGroups(all, found).Groups {
			alike := digits.ReplaceAllString(string(g.Reason), "#")
			i, known := at[alike]
			if !known {
				at[alike] = len(doc.Groups)
				doc.Groups = append(doc.Groups, g)
				continue
			}
			doc.Groups[i] = doc.Groups[i].And(g, jsontype.Text(alike))
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

// retryFailed retries messages: it is the same for those that wait and those that are dead.
func retryFailed(ctx context.Context, q *fairqueue.Queue, cfg fairqueue.SearchConfig, ids ...string) (int, fairqueue.Found, error) {
	return q.Retry(ctx, cfg, ids...)
}

type deadRedrive struct {
	failedChoice
}

func (c *deadRedrive) Run(ctx context.Context, a *app) error {
	return c.run(ctx, a, failedChange{
		state: fairqueue.Dead, thing: "dead message", do: retryFailed,
		doc: func(n int) any { return ops.Redriven{Redriven: n} }, done: "will be tried again",
	})
}

type queueRetry struct {
	failedChoice
}

func (c *queueRetry) Run(ctx context.Context, a *app) error {
	return c.run(ctx, a, failedChange{
		state: fairqueue.Delayed, thing: "retry", do: retryFailed,
		doc: func(n int) any { return ops.RetriedMessages{Retried: n} }, done: "will be tried now",
	})
}

type deadPurge struct {
	failedChoice
	Yes bool `help:"Do not ask."`
}

func (*deadPurge) Help() string { return `Unless ids are given, it asks first, with the number.` }

func (c *deadPurge) Run(ctx context.Context, a *app) error {
	change := failedChange{
		state: fairqueue.Dead, thing: "dead message",
		do: func(ctx context.Context, q *fairqueue.Queue, cfg fairqueue.SearchConfig, ids ...string) (int, fairqueue.Found, error) {
			if len(ids) == 0 {
				return q.Dead().PurgeMatching(ctx, cfg)
			}
			n, err := q.Dead().Purge(ctx, ids...)
			return n, fairqueue.Found{}, err
		},
		doc: func(n int) any { return ops.Purged{Purged: n} }, done: "purged",
	}
	if !c.Yes {
		change.allow = func(matching string) error {
			return a.ask(ctx, false, fmt.Sprintf("Purge %s of %s?", matching, c.Name))
		}
	}
	return c.run(ctx, a, change)
}
