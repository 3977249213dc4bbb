package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/millrace/millrace/fairqueue"
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

// queueStatsDoc is a queue's statistics as a document.
type queueStatsDoc struct {
	Name      text             `json:"name"`
	Waiting   int              `json:"waiting"`
	InFlight  int              `json:"in_flight"`
	Delayed   int              `json:"delayed"`
	Dead      int              `json:"dead"`
	OldestAge int64            `json:"oldest_age_ms"`
	Paused    bool             `json:"paused"`
	Shape     shapeDoc         `json:"shape"`
	Streams   []streamDoc      `json:"streams"`
	Counters  queueCountersDoc `json:"counters"`
}

// streamDoc is one stream.
type streamDoc struct {
	Index     int   `json:"index"`
	Waiting   int   `json:"waiting"`
	InFlight  int   `json:"in_flight"`
	OldestAge int64 `json:"oldest_age_ms"`
}

type queueCountersDoc struct {
	Written   int64 `json:"written"`
	Delivered int64 `json:"delivered"`
	Acked     int64 `json:"acked"`
	Nacked    int64 `json:"nacked"`
	Returned  int64 `json:"returned"`
	Reclaimed int64 `json:"reclaimed"`
	Expired   int64 `json:"expired"`
	Cancelled int64 `json:"cancelled"`
	Buried    int64 `json:"buried"`
	Redriven  int64 `json:"redriven"`
	Purged    int64 `json:"purged"`
}

func newQueueStatsDoc(s fairqueue.Stats) queueStatsDoc {
	doc := queueStatsDoc{
		Name: text(s.Name), Waiting: s.Waiting, InFlight: s.InFlight, Delayed: s.Delayed, Dead: s.Dead,
		OldestAge: s.OldestAge.Milliseconds(), Paused: s.Paused, Shape: shapeOf(s),
		Streams: make([]streamDoc, len(s.Streams)), Counters: queueCountersDoc(s.Counters),
	}
	for i, one := range s.Streams {
		doc.Streams[i] = streamDoc{one.Index, one.Waiting, one.InFlight, one.OldestAge.Milliseconds()}
	}
	return doc
}

// Run shows statistics.
func (c *queueStats) Run(ctx context.Context, a *app) error {
	return c.with(ctx, a, fairqueue.Config{}, func(q *fairqueue.Queue) error {
		s, err := q.Stats(ctx)
		if err != nil {
			return err
		}
		doc := newQueueStatsDoc(s)
		return a.print(doc, doc.table)
	})
}

func (doc queueStatsDoc) table(w io.Writer) {
	fmt.Fprintf(w, "%s (%s)", doc.Name, doc.Shape)
	if doc.Paused {
		fmt.Fprint(w, ", paused")
	}
	fmt.Fprintln(w, "\n\nSTREAM\tWAITING\tIN FLIGHT\tOLDEST")
	row := func(name string, waiting, inFlight int, oldest int64) {
		age := "-"
		if waiting > 0 {
			age = duration(time.Duration(oldest) * time.Millisecond)
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
