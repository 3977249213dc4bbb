package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/millrace/millrace/ick"
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

// statsDoc is an Ick's statistics as a document.
type statsDoc struct {
	Key          text           `json:"key"`
	Version      string         `json:"version"`
	PsetKey      text           `json:"pset_key"`
	CsetKey      text           `json:"cset_key"`
	PsetSize     int            `json:"pset_size"`
	CsetSize     int            `json:"cset_size"`
	TotalSize    int            `json:"total_size"`
	DistinctSize int            `json:"distinct_size"`
	ParkedSize   int            `json:"parked_size"`
	Oldest       *score         `json:"oldest_score,omitempty"`
	Newest       *score         `json:"newest_score,omitempty"`
	PsetOldest   *score         `json:"pset_oldest,omitempty"`
	PsetNewest   *score         `json:"pset_newest,omitempty"`
	CsetOldest   *score         `json:"cset_oldest,omitempty"`
	CsetNewest   *score         `json:"cset_newest,omitempty"`
	OldestAge    *float64       `json:"oldest_age_s,omitempty"`
	Counters     ickCountersDoc `json:"counters"`
}

type ickCountersDoc struct {
	New       int64 `json:"new"`
	Folded    int64 `json:"folded"`
	Reserved  int64 `json:"reserved"`
	Committed int64 `json:"committed"`
	Kept      int64 `json:"kept"`
	Parked    int64 `json:"parked"`
	Retried   int64 `json:"retried"`
	Dropped   int64 `json:"dropped"`
}

func newStatsDoc(s ick.Stats) statsDoc {
	doc := statsDoc{
		Key: text(s.Name), Version: s.Version, PsetKey: text(s.Pset.Key), CsetKey: text(s.Cset.Key),
		PsetSize: s.Pset.Size, CsetSize: s.Cset.Size,
		TotalSize: s.Total, DistinctSize: s.Distinct, ParkedSize: s.Parked,
		Counters: ickCountersDoc(s.Counters),
	}
	doc.Oldest, doc.Newest = bounds(s.Range)
	doc.PsetOldest, doc.PsetNewest = bounds(s.Pset.Range)
	doc.CsetOldest, doc.CsetNewest = bounds(s.Cset.Range)
	if doc.Oldest != nil && !math.IsInf(s.Range.Oldest, 0) {
		seconds := s.OldestAge.Seconds()
		doc.OldestAge = &seconds
	}
	return doc
}

func bounds(r *ick.Range) (oldest, newest *score) {
	if r == nil {
		return nil, nil
	}
	return (*score)(&r.Oldest), (*score)(&r.Newest)
}

// Run shows statistics.
func (c *ickStats) Run(ctx context.Context, a *app) error {
	return c.with(ctx, a, ick.Config{}, func(k *ick.Ick) error {
		s, err := k.Stats(ctx)
		if err != nil {
			return err
		}
		doc := newStatsDoc(s)
		return a.print(doc, func(w io.Writer) { doc.table(w, s.At) })
	})
}

func (doc statsDoc) table(w io.Writer, now time.Time) {
	fmt.Fprintf(w, "%s (%s)\n\n", doc.Key, doc.Version)
	fmt.Fprintln(w, "MARKS\tSIZE\tOLDEST\tAGE\tNEWEST\tAGE")
	row := func(name string, size int, oldest, newest *score) {
		fmt.Fprintf(w, "%s\t%d", name, size)
		for _, s := range []*score{oldest, newest} {
			if s == nil {
				fmt.Fprint(w, "\t-\t-")
			} else {
				fmt.Fprintf(w, "\t%s\t%s", s, s.age(now))
			}
		}
		fmt.Fprintln(w)
	}
	row("waiting", doc.PsetSize, doc.PsetOldest, doc.PsetNewest)
	row("reserved", doc.CsetSize, doc.CsetOldest, doc.CsetNewest)
	row("both", doc.TotalSize, doc.Oldest, doc.Newest)
	fmt.Fprintf(w, "\n%s, %d parked\n", count(doc.DistinctSize, "distinct member"), doc.ParkedSize)
	n := doc.Counters
	fmt.Fprintln(w, "\nNEW\tFOLDED\tRESERVED\tCOMMITTED\tKEPT\tPARKED\tRETRIED\tDROPPED")
	fmt.Fprintf(w, "%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n",
		n.New, n.Folded, n.Reserved, n.Committed, n.Kept, n.Parked, n.Retried, n.Dropped)
}
