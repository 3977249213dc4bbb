package main

import (
	"context"
	"fmt"
	"io"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/document"
)

type queuePosition struct {
	queueName
	Source document.Text `arg:"" optional:"" help:"The name of the source. Defaults to all."`
	To     *int64        `name:"set" placeholder:"N" help:"The number behind which it goes on; 0 to forget the source."`
}

func (*queuePosition) Help() string {
	return `A source numbers its messages, and the queue takes each number once and in order: see --source and --position of millrace queue write. The position is the number of the last one; 0 if there is none. If Redis lost its last writes, it went back with the messages.

Set it to begin in the middle, or to leave out what is lost. That creates the queue if there is none.

Examples:

    millrace queue position orders
    millrace queue position orders 'orders table'
    millrace queue position orders 'orders table' --set 17`
}

func (c *queuePosition) Run(ctx context.Context, a *app) error {
	return c.with(ctx, a, fairqueue.Config{}, func(q *fairqueue.Queue) (any, table, error) {
		source := string(c.Source)
		if source == "" && c.To == nil {
			positions, err := q.Sources().All(ctx)
			all := document.OfSources(positions)
			return all, func(w io.Writer) {
				for _, s := range all.Sources {
					fmt.Fprintf(w, "%s %d\n", s.Source, s.Position)
				}
			}, err
		}
		doc := document.Position{Source: c.Source}
		if c.To != nil {
			doc.Position = *c.To
			return doc, says("%s goes on behind %d", c.Source, doc.Position), q.Sources().SetPosition(ctx, source, doc.Position)
		}
		var err error
		doc.Position, err = q.Sources().Position(ctx, source)
		return doc, says("%d", doc.Position), err
	})
}
