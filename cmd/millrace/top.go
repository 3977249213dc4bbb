package main

import (
	"context"
	"time"

	"github.com/millrace/millrace/cmd/millrace/top"
	"github.com/millrace/millrace/internal/audit"
	"github.com/millrace/millrace/internal/fleet/open"
)

type topCommand struct {
	Interval time.Duration `default:"2s" placeholder:"TIME" help:"Between looks at Redis, 250ms at least; keys change it. Defaults to ${default}."`
	ReadOnly bool          `help:"Refuse to pause and to resume."`
}

// minTopInterval is the shortest time between looks.
const minTopInterval = 250 * time.Millisecond

func (*topCommand) Help() string {
	return `Queues with their rates, and below each its tenants by backlog, in flight, handler time and age; Icks, readers, leases and servers. Keys sort, filter, open a queue or a tenant, and pause or resume it after a question; ? shows them all. If Redis is silent, the numbers stay, and the first line says for how long.

It needs a terminal. NO_COLOR turns colours off. It reads at most 200 structures of a kind, and asks Redis at most half of the time.

Examples:

    millrace top
    millrace top --read-only --interval 5s`
}

func (c *topCommand) Run(ctx context.Context, a *app) error {
	switch {
	case c.Interval < minTopInterval:
		return errUsage.Errorf("--interval %s is less than %s", c.Interval, minTopInterval)
	case a.url() != "": // a missing URL is reported first
		if err := c.check(a); err != nil {
			return err
		}
	}
	a.quiet = true // the screen is no place for a log
	cfg := top.Config{Interval: c.Interval, ReadOnly: c.ReadOnly, Input: a.stdin, Output: a.stdout, Env: a.env}
	if open.Is(a.url()) {
		f, err := a.openFleet(ctx)
		if err != nil {
			return err
		}
		defer f.Close()
		cfg.Client, cfg.Fleet = f.Client(), f
	} else {
		client, err := a.open(ctx)
		if err != nil {
			return err
		}
		defer client.Close()
		cfg.Client = client
	}
	cfg.Note = func(ctx context.Context, e audit.Entry, failed error) { a.note(ctx, cfg.Client, e, failed) }
	return top.Run(ctx, cfg)
}

// check returns an error where there is no terminal, or JSON was asked for.
func (*topCommand) check(a *app) error {
	if a.json {
		return top.ErrTerminal
	}
	return top.Check(a.stdin, a.stdout)
}
