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
	Retry parkedRetry `cmd:"" help:"Have parked members tried once more now, their attempts kept."`
	Drop  parkedDrop  `cmd:"" help:"Forget parked members for good."`
}

// Help shows examples.
func (*ickParked) Help() string {
	return `Consumers park members that keep failing, so that they block nobody.

Examples:

    millrace ick parked search
    millrace ick parked retry search doc:17
    millrace ick parked drop search --all`
}

type parkedLs struct {
	ickName
}

// Help shows examples.
func (*parkedLs) Help() string {
	return `The word ls may be left out.

Examples:

    millrace ick parked ls search
    millrace ick parked search --json`
}

// Run lists.
func (c *parkedLs) Run(ctx context.Context, a *app) error {
	return c.with(ctx, a, ick.Config{}, func(k *ick.Ick) error {
		list := []document.ParkedMember{}
		for p, err := range k.Parked(ctx) {
			if err != nil {
				return err
			}
			list = append(list, document.OfParked(p))
		}
		return a.print(document.Parked{Parked: list}, func(w io.Writer) { tableOfParked(w, list) })
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

func (c *parkedChoice) check() error {
	if c.All == (len(c.Members) > 0) {
		return errUsage.Errorf("name members, or say --all")
	}
	return nil
}

func (c *parkedChoice) members(ctx context.Context, k *ick.Ick) ([]string, error) {
	members := document.Strings(c.Members)
	if !c.All {
		return members, nil
	}
	for p, err := range k.Parked(ctx) {
		if err != nil {
			return nil, err
		}
		members = append(members, p.Member)
	}
	return members, nil
}

// each calls do with the chosen members and returns how many it counted.
func (c *parkedChoice) each(ctx context.Context, a *app, do func(*ick.Ick, []string) error) error {
	if err := c.check(); err != nil {
		return err
	}
	return c.with(ctx, a, ick.Config{}, func(k *ick.Ick) error {
		members, err := c.members(ctx, k)
		if err != nil {
			return err
		}
		return do(k, members)
	})
}

type parkedRetry struct {
	parkedChoice
}

// Help shows examples.
func (*parkedRetry) Help() string {
	return `Members that are not parked are passed over.

Examples:

    millrace ick parked retry search doc:17 doc:18
    millrace ick parked retry search --all`
}

// Run retries.
func (c *parkedRetry) Run(ctx context.Context, a *app) error {
	return c.each(ctx, a, func(k *ick.Ick, members []string) error {
		n, err := k.Retry(ctx, members...)
		if err != nil {
			return err
		}
		return a.print(document.Retried{Retried: n}, func(w io.Writer) { fmt.Fprintln(w, readable.Count(n, "member")+" will be tried again") })
	})
}

type parkedDrop struct {
	parkedChoice
}

// Help shows examples.
func (*parkedDrop) Help() string {
	return `Members that are not parked are passed over.

Examples:

    millrace ick parked drop search doc:17
    millrace ick parked drop search --all`
}

// Run drops.
func (c *parkedDrop) Run(ctx context.Context, a *app) error {
	return c.each(ctx, a, func(k *ick.Ick, members []string) error {
		n, err := k.Drop(ctx, members...)
		if err != nil {
			return err
		}
		return a.print(document.Dropped{Dropped: n}, func(w io.Writer) { fmt.Fprintln(w, readable.Count(n, "member")+" dropped") })
	})
}
