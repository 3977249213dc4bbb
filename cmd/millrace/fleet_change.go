package main

import (
	"context"
	"slices"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/membership"
	"github.com/millrace/millrace/internal/fleet/overview"
	"github.com/millrace/millrace/internal/readable"
)

// consent are the flags of commands that show their plan, and ask.
type consent struct {
	Yes    bool `help:"Do not ask."`
	DryRun bool `help:"Only show what would be done."`
}

// changeMembers plans a request, asks, carries it out, and prints what was done.
func (a *app) changeMembers(ctx context.Context, r membership.Request, consent consent, restartTimeout time.Duration) error {
	return a.withMap(ctx, func(f *fleetAt) (any, table, error) {
		began, log, m := time.Now(), a.logger(), f.m
		plan, err := membership.Make(m, r)
		if err != nil {
			return nil, nil, err
		}
		doc := overview.Change{Plan: plan.ID, Changes: plan.Changes(m), Begun: plan.Begun, Done: len(plan.Tasks) == 0}
		if doc.Done {
			return doc, doc.Table, nil
		}
		if cancel, ok := r.(membership.Cancel); ok {
			doc.Drops = slices.DeleteFunc(overview.TasksOf(m), func(t overview.Task) bool { return t.Plan != cancel.Plan })
		}
		cfg := membership.Config{
			Option: f.option, RestartTimeout: restartTimeout, Progress: func(step string) { log.InfoContext(ctx, step) },
			Agent: a.help(f.dir, f.option),
		}
		if !plan.Begun {
			if doc.Warnings, err = cfg.Examine(ctx, m, plan); err != nil {
				return nil, nil, ofGrowing(ctx, err)
			}
		}
		if consent.DryRun {
			return doc, doc.Table, nil
		}
		if err := a.agree(ctx, consent, doc); err != nil {
			return nil, nil, err
		}
		if _, err = cfg.CarryOut(ctx, f.dir, m, r, plan); err != nil {
			return nil, nil, ofChanging(ctx, f.dir, r, err)
		}
		doc.Done, doc.Took = true, time.Since(began).Milliseconds()
		return doc, says("done: %s in %s", readable.Count(len(doc.Changes), "partition"), readable.Duration(time.Since(began))), nil
	})
}

// preview shows a person on standard error what a command is about to do.
func (a *app) preview(doc any, t table) error {
	if a.json {
		return nil
	}
	to := *a
	to.stdout = a.stderr
	return to.print(doc, t)
}

// agree shows a plan, and asks whether to begin it. One that has begun needs no answer.
func (a *app) agree(ctx context.Context, consent consent, doc overview.Change) error {
	if err := a.preview(doc, doc.Table); err != nil {
		return err
	}
	if doc.Begun {
		a.logger().InfoContext(ctx, "an earlier command has begun this: waiting until it is done")
		return nil
	}
	return a.ask(ctx, consent.Yes, "Continue?")
}

// errBegun means that a signal ended a command whose plan is in the map.
var errBegun = &millrace.Error{
	Code: "interrupted", Message: "interrupted: the change has begun, and agents go on with it",
	Hint: "Look at millrace fleet show. If no agent runs, start one, or repeat the command: it does the rest.",
}

// ofChanging says what an interrupted command has left.
func ofChanging(ctx context.Context, dir *directory.Directory, r membership.Request, err error) error {
	if ctx.Err() == nil {
		return ofGrowing(ctx, err)
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), directoryTimeout)
	defer cancel()
	m, failed := dir.Confirm(bounded, 0)
	if failed != nil {
		return errBegun // at worst there is nothing to be seen
	}
	if plan, err := membership.Make(m, r); err == nil && !plan.Begun {
		return errCut
	}
	return errBegun
}
