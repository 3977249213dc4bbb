package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/jsontype"
	"github.com/millrace/millrace/internal/ops"
	"github.com/millrace/millrace/internal/readable"
)

// ickParked is the noun below ick for members that rest because they failed.
type ickParked struct {
	Ls    parkedLs    `cmd:"" default:"withargs"`
	Retry parkedRetry `cmd:""`
	Rm    parkedRm    `cmd:""`
}

func (*ickParked) Help() string {
	return `Consumers park members that keep failing, so that they do not block others.

Examples:

    millrace ick parked search
    millrace ick parked retry search doc:17
    millrace ick parked rm search --all`
}

type parkedLs struct {
	watchable
	ops.Ick
}

func (*parkedLs) Help() string { return `The word ls may be left out.` }

// Run prints all, in a document that needs no "more".
func (c *parkedLs) Run(ctx context.Context, a *app) error {
	return on(ctx, a, openIck(c.Ick, ick.Config{}), func(k *ick.Ick) (any, table, error) {
		doc, err := ops.ListParked.Do(ctx, k, ops.ParkedQuery{Ick: c.Ick})
		return doc.ParkedList, func(w io.Writer) { tableOfParked(w, doc.Parked) }, err
	})
}

func tableOfParked(w io.Writer, list []ops.ParkedMember) {
	if len(list) == 0 {
		fmt.Fprintln(w, "nothing is parked")
		return
	}
	fmt.Fprintln(w, "MEMBER\tSCORE\tATTEMPTS\tPARKED\tTRIED AGAIN\tREASON")
	for _, p := range list {
		again := "by hand"
		if p.Until != nil {
			again = p.Until.Local().Format(time.DateTime)
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%s\n",
			p.Member, p.Score, p.Attempts, p.ParkedAt.Local().Format(time.DateTime), again, jsontype.Text(p.Reason))
	}
}

// parkedChoice names the parked members that a command is about.
type parkedChoice struct {
	ops.Ick
	ops.ParkedChoice
}

// unpark does an operation on the chosen members.
func unpark[Out any](ctx context.Context, a *app, c parkedChoice, o ops.Operation[*ick.Ick, ops.ParkedChoice, Out], as func(Out) table) error {
	if !c.Chosen() {
		return errUsage.Errorf("name members, or say --all")
	}
	return perform(ctx, a, openIck(c.Ick, ick.Config{}), o, c.ParkedChoice, as)
}

type parkedRetry struct{ parkedChoice }

func (c *parkedRetry) Run(ctx context.Context, a *app) error {
	return unpark(ctx, a, c.parkedChoice, ops.RetryParked, func(doc ops.Retried) table {
		return says("%s will be tried again", readable.Count(doc.Retried, "member"))
	})
}

type parkedRm struct{ parkedChoice }

func (c *parkedRm) Run(ctx context.Context, a *app) error {
	return unpark(ctx, a, c.parkedChoice, ops.DropParked, func(doc ops.Dropped) table {
		return says("%s dropped", readable.Count(doc.Dropped, "member"))
	})
}

type ickStats struct {
	watchable
	ops.Ick
}

func (c *ickStats) Run(ctx context.Context, a *app) error {
	return perform(ctx, a, openIck(c.Ick, ick.Config{}), ops.GetIckStats, c.Ick, func(doc ops.IckStats) table {
		return func(w io.Writer) { tableOfIck(w, doc) }
	})
}

func tableOfIck(w io.Writer, doc ops.IckStats) {
	fmt.Fprintf(w, "%s (%s)\n\n", doc.Key, doc.Version)
	fmt.Fprintln(w, "MARKS\tSIZE\tOLDEST\tAGE\tNEWEST\tAGE")
	row := func(name string, size int, oldest, newest *jsontype.Score) {
		fmt.Fprintf(w, "%s\t%d", name, size)
		for _, s := range []*jsontype.Score{oldest, newest} {
			if s == nil {
				fmt.Fprint(w, "\t-\t-")
			} else {
				fmt.Fprintf(w, "\t%s\t%s", s, age(*s, doc.At))
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
