package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/readable"
	"github.com/millrace/millrace/server/document"
)

type queueStats struct {
	queueName
}

// Help shows examples.
func (*queueStats) Help() string {
	return `The streams are those that hold messages. The counters count since the queue began, over all processes.

Examples:

    millrace queue stats orders
    millrace queue stats orders --json | jq .waiting`
}

// Run shows statistics.
func (c *queueStats) Run(ctx context.Context, a *app) error {
	return c.with(ctx, a, fairqueue.Config{}, func(q *fairqueue.Queue) error {
		s, err := q.Stats(ctx)
		if err != nil {
			return err
		}
		doc := document.OfQueueStats(s)
		return a.print(doc, func(w io.Writer) { tableOfQueue(w, doc) })
	})
}

func tableOfQueue(w io.Writer, doc document.QueueStats) {
	fmt.Fprintf(w, "%s (%s)", doc.Name, inWords(doc.Shape))
	if doc.Paused {
		fmt.Fprint(w, ", paused")
	}
	fmt.Fprintln(w, "\n\nSTREAM\tWAITING\tIN FLIGHT\tOLDEST")
	row := func(name string, waiting, inFlight int, oldest int64) {
		age := "-"
		if waiting > 0 {
			age = readable.Duration(time.Duration(oldest) * time.Millisecond)
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\n", name, waiting, inFlight, age)
	}
	for _, one := range doc.Streams {
		row(fmt.Sprint(one.Index), one.Waiting, one.InFlight, one.OldestAge)
	}
	row("all", doc.Waiting, doc.InFlight, doc.OldestAge)
	fmt.Fprintf(w, "\n%d delayed, %d dead\n", doc.Delayed, doc.Dead)
	n := doc.Counters
	fmt.Fprintln(w, "\nWRITTEN\tDELIVERED\tACKED\tNACKED\tRECLAIMED\tEXPIRED\tCANCELLED\tBURIED\tREDRIVEN\tPURGED")
	fmt.Fprintf(w, "%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n", n.Written, n.Delivered, n.Acked, n.Nacked,
		n.Reclaimed, n.Expired, n.Cancelled, n.Buried, n.Redriven, n.Purged)
}
