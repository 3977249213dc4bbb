package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/document"
	"github.com/millrace/millrace/internal/readable"
)

type ickStats struct {
	ickName
}

// Help shows examples.
func (*ickStats) Help() string {
	return `Ages take scores for Unix seconds. The counters count since the Ick began, over all Millrace processes.

Examples:

    millrace ick stats search
    millrace ick stats search --json`
}

// Run shows statistics.
func (c *ickStats) Run(ctx context.Context, a *app) error {
	return c.with(ctx, a, ick.Config{}, func(k *ick.Ick) error {
		s, err := k.Stats(ctx)
		if err != nil {
			return err
		}
		doc := document.OfIckStats(s)
		return a.print(doc, func(w io.Writer) { tableOfIck(w, doc, s.At) })
	})
}

func tableOfIck(w io.Writer, doc document.IckStats, now time.Time) {
	fmt.Fprintf(w, "%s (%s)\n\n", doc.Key, doc.Version)
	fmt.Fprintln(w, "MARKS\tSIZE\tOLDEST\tAGE\tNEWEST\tAGE")
	row := func(name string, size int, oldest, newest *document.Score) {
		fmt.Fprintf(w, "%s\t%d", name, size)
		for _, s := range []*document.Score{oldest, newest} {
			if s == nil {
				fmt.Fprint(w, "\t-\t-")
			} else {
				fmt.Fprintf(w, "\t%s\t%s", s, age(*s, now))
			}
		}
		fmt.Fprintln(w)
	}
	row("waiting", doc.PsetSize, doc.PsetOldest, doc.PsetNewest)
	row("reserved", doc.CsetSize, doc.CsetOldest, doc.CsetNewest)
	row("both", doc.TotalSize, doc.Oldest, doc.Newest)
	fmt.Fprintf(w, "\n%s, %d parked\n", readable.Count(doc.DistinctSize, "distinct member"), doc.ParkedSize)
	n := doc.Counters
	fmt.Fprintln(w, "\nNEW\tFOLDED\tRESERVED\tCOMMITTED\tKEPT\tPARKED\tRETRIED\tDROPPED")
	fmt.Fprintf(w, "%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n",
		n.New, n.Folded, n.Reserved, n.Committed, n.Kept, n.Parked, n.Retried, n.Dropped)
}
