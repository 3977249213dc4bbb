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

// ickParked is the noun below ick for members that rest because they failed.
type ickParked struct {
	Ls    parkedLs    `cmd:"" default:"withargs" help:"List parked members, those that are tried again soonest first."`
	Retry parkedRetry `cmd:"" help:"Retry parked members now; their attempts are kept."`
	Rm    parkedRm    `cmd:"" help:"Forget parked members for good."`
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
	ickName
}

func (*parkedLs) Help() string {
	return `The word ls may be left out.

Examples:

    millrace ick parked ls search
    millrace ick parked search --json`
}

func (c *parkedLs) Run(ctx context.Context, a *app) error {
	return c.with(ctx, a, ick.Config{}, func(k *ick.Ick) (any, table, error) {
		list := []document.ParkedMember{}
		for p, err := range k.Parked(ctx) {
			if err != nil {
				return nil, nil, err
			}
			list = append(list, document.OfParked(p))
		}
		return document.Parked{Parked: list}, func(w io.Writer) { tableOfParked(w, list) }, nil
	})
}

func tableOfParked(w io.Writer, list []document.ParkedMember) {
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
			p.Member, p.Score, p.Attempts, p.ParkedAt.Local().Format(time.DateTime), again, document.Text(p.Reason))
	}
}

// parkedChoice names the parked members that a command is about.
type parkedChoice struct {
	ickName
	Members []document.Text `arg:"" optional:"" name:"member" help:"Parked members."`
	All     bool            `help:"All that are parked."`
}

// each calls do with the chosen members, and reports how many it counted.
func (c *parkedChoice) each(ctx context.Context, a *app, do func(*ick.Ick, context.Context, ...string) (int, error), doc func(n int) any, done string) error {
	if c.All == (len(c.Members) > 0) {
		return errUsage.Errorf("name members, or say --all")
	}
	return c.with(ctx, a, ick.Config{}, func(k *ick.Ick) (any, table, error) {
		members := document.Strings(c.Members)
		if c.All {
			for p, err := range k.Parked(ctx) {
				if err != nil {
					return nil, nil, err
				}
				members = append(members, p.Member)
			}
		}
		n, err := do(k, ctx, members...)
		return doc(n), says("%s %s", readable.Count(n, "member"), done), err
	})
}

type parkedRetry struct {
	parkedChoice
}

func (*parkedRetry) Help() string {
	return `Members that are not parked are skipped.

Examples:

    millrace ick parked retry search doc:17 doc:18
    millrace ick parked retry search --all`
}

func (c *parkedRetry) Run(ctx context.Context, a *app) error {
	return c.each(ctx, a, (*ick.Ick).Retry, func(n int) any { return document.Retried{Retried: n} }, "will be tried again")
}

type parkedRm struct {
	parkedChoice
}

func (*parkedRm) Help() string {
	return `Members that are not parked are skipped.

Examples:

    millrace ick parked rm search doc:17
    millrace ick parked rm search --all`
}

func (c *parkedRm) Run(ctx context.Context, a *app) error {
	return c.each(ctx, a, (*ick.Ick).Drop, func(n int) any { return document.Dropped{Dropped: n} }, "dropped")
}

type ickStats struct {
	watchable
	ickName
}

func (*ickStats) Help() string {
	return `Ages take scores for Unix seconds. The counters count since the Ick began, over all Millrace processes.

Examples:

    millrace ick stats search
    millrace ick stats search --json`
}

func (c *ickStats) Run(ctx context.Context, a *app) error {
	return c.with(ctx, a, ick.Config{}, func(k *ick.Ick) (any, table, error) {
		s, err := k.Stats(ctx)
		doc := document.OfIckStats(s)
		return doc, func(w io.Writer) { tableOfIck(w, doc, s.At) }, err
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
