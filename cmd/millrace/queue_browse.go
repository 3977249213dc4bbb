package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/document"
)

// contentFilter selects messages by their content.
type contentFilter struct {
	Tenant document.Text            `placeholder:"NAME" complete:"tenant" help:"Of this tenant."`
	Header map[string]document.Text `mapsep:"none" placeholder:"K=V" help:"With this header. May be repeated."`
	Text   document.Text            `placeholder:"TEXT" help:"With this text in the body."`
}

func (f contentFilter) config() fairqueue.SearchConfig {
	cfg := fairqueue.SearchConfig{Tenant: string(f.Tenant), Text: string(f.Text), Headers: map[string]string{}}
	for name, value := range f.Header {
		cfg.Headers[name] = string(value)
	}
	return cfg
}

// messageFilter selects messages of a bounded search.
type messageFilter struct {
	contentFilter
	ID   string `name:"id" help:"The message with this id."`
	Look int    `placeholder:"N" help:"How many to examine, up to 100,000. Defaults to 10,000."`
	From string `placeholder:"NEXT" help:"Where to go on: next of the search before."`
}

func (f messageFilter) config() fairqueue.SearchConfig {
	cfg := f.contentFilter.config()
	cfg.ID, cfg.Look, cfg.After = f.ID, f.Look, f.From
	return cfg
}

// searched is how far a search came.
type searched struct {
	Looked int    `json:"looked"`
	Total  int    `json:"total"`
	Next   string `json:"next"`
}

func searchedOf(f fairqueue.Found) searched { return searched{f.Looked, f.Total, f.Next} }

func (s searched) print(w io.Writer) {
	if s.Next != "" {
		fmt.Fprintf(w, "\nlooked at %d of %d, go on with --from %s\n", s.Looked, s.Total, s.Next)
	}
}

type queueBrowse struct {
	watchable
	queueName
	messageFilter
	State string `enum:"waiting,delayed,in_flight,dead" default:"waiting" help:"waiting, delayed, in_flight or dead. Defaults to waiting."`
	Most  int    `placeholder:"N" help:"How many matches end the search, up to 1,000; up to 49 more are shown. Defaults to 100."`
}

func (*queueBrowse) Help() string {
	return `Takes nothing and changes nothing. A message must have all that is given. It examines a bounded number of messages, and says how to go on.

Examples:

    millrace queue browse orders
    millrace queue browse orders --tenant acme --text '"order":17'
    millrace queue browse orders --state dead --header kind=invoice`
}

// browsedMessage is a message in the document of queue browse.
type browsedMessage struct {
	ID        string                   `json:"id"`
	Tenant    document.Text            `json:"tenant"`
	Body      document.Text            `json:"body"`
	Cost      int                      `json:"cost,omitempty"`
	Attempts  int                      `json:"attempts"`
	WrittenAt time.Time                `json:"written_at"`
	Headers   map[string]document.Text `json:"headers"`
	Reason    document.Text            `json:"reason,omitempty"`
}

func (c *queueBrowse) Run(ctx context.Context, a *app) error {
	return c.with(ctx, a, fairqueue.Config{}, func(q *fairqueue.Queue) (any, table, error) {
		cfg := c.config()
		cfg.State, cfg.Max = fairqueue.State(c.State), c.Most
		found, err := q.Search(ctx, cfg)
		doc := struct {
			Messages []browsedMessage `json:"messages"`
			searched
		}{[]browsedMessage{}, searchedOf(found)}
		for _, m := range found.Messages {
			doc.Messages = append(doc.Messages, browsedMessage{
				m.ID, document.Text(m.Tenant), document.Text(m.Body), document.OfCost(m.Cost), m.Attempt, m.Written.UTC(),
				document.OfHeaders(m.Headers), document.Text(m.Reason),
			})
		}
		return doc, func(w io.Writer) {
			fmt.Fprintln(w, "ID\tTENANT\tATTEMPTS\tWRITTEN\tREASON\tBODY")
			for _, m := range doc.Messages {
				fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%s\n", m.ID, m.Tenant, m.Attempts, m.WrittenAt.Local().Format(time.DateTime), cmp.Or(m.Reason, "-"), excerpt(m.Body))
			}
			doc.print(w)
		}, err
	})
}
