package main

import (
	"context"
	"fmt"
	"io"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/jsontype"
	"github.com/millrace/millrace/internal/ops"
)

type queuePosition struct {
	queueName
	Source jsontype.Text `arg:"" optional:"" doc:"The name of the source. Defaults to all."`
	To     *int64        `name:"set" placeholder:"N" doc:"The number behind which it continues; 0 to forget the source."`
}

func (*queuePosition) Help() string {
	return `Without a source it shows all. Set a position to begin in the middle, or to leave out what is lost; that creates the queue if there is none.`
}

func (c *queuePosition) row() ops.Row {
	switch {
	case c.To != nil:
		return ops.SetPosition.Row
	case c.Source == "":
		return ops.ListSources.Row
	}
	return ops.GetPosition.Row
}

func (c *queuePosition) Run(ctx context.Context, a *app) error {
	return c.with(ctx, a, fairqueue.Config{}, func(q *fairqueue.Queue) (any, table, error) {
		switch {
		case c.To != nil:
			doc, err := ops.SetPosition.Do(ctx, q, ops.Position{Source: c.Source, Position: *c.To})
			return doc, says("%s goes on behind %d", doc.Source, doc.Position), err
		case c.Source == "":
			all, err := ops.ListSources.Do(ctx, q, c.Queue)
			return all, func(w io.Writer) {
				for _, s := range all.Sources {
					fmt.Fprintf(w, "%s %d\n", s.Source, s.Position)
				}
			}, err
		}
		doc, err := ops.GetPosition.Do(ctx, q, ops.SourceOf{Queue: c.Queue, Source: c.Source})
		return doc, says("%d", doc.Position), err
	})
}
