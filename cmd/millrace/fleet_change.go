package main

import (
	"context"
	"time"

	"github.com/millrace/millrace/internal/fleet/membership"
	"github.com/millrace/millrace/internal/fleet/overview"
	"github.com/millrace/millrace/internal/readable"
)

// consent are the flags of commands that show their plan, and ask.
type consent struct {
	Yes    bool `help:"Do not ask."`
	DryRun bool `help:"Only show what would be done."`
}

// changeMembers plans a request, asks, carries it out, and prints the changes.
func (a *app) changeMembers(ctx context.Context, r membership.Request, flags newServers) error {
	return a.withMap(ctx, func(f *fleetAt) (any, table, error) {
		began := time.Now()
		plan, err := membership.Make(f.m, r)
		if err != nil {
			return nil, nil, err
		}
		doc := overview.NewChange(f.m, r, plan)
		cfg := membership.Config(flags.config(ctx, a, f.dir, f.option))
		if doc.Warnings, err = cfg.Examine(ctx, f.m, plan); err != nil || doc.Done || flags.DryRun {
			return doc, doc.Table, ofGrowing(ctx, err)
		}
		if err := a.agree(ctx, flags.Yes || doc.Begun, doc, doc.Table, "Continue?"); err != nil {
			return nil, nil, err
		}
		if _, err = cfg.CarryOut(ctx, f.dir, f.m, r, plan); err != nil {
			return nil, nil, ofGrowing(ctx, err)
		}
		doc.Done, doc.Took = true, time.Since(began).Milliseconds()
		return doc, says("done: %s in %s", readable.Count(len(doc.Changes), "partition"), readable.Duration(time.Since(began))), nil
	})
}

// agree shows a command's plan to a person on standard error, and asks.
func (a *app) agree(ctx context.Context, yes bool, doc any, t table, question string) error {
	if !a.json {
		to := *a
		to.stdout = a.stderr
		if err := to.print(doc, t); err != nil {
			return err
		}
	}
	return a.ask(ctx, yes, question)
}
