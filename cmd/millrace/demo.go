package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/millrace/millrace/cmd/millrace/demo"
	"github.com/millrace/millrace/cmd/millrace/watch"
	"github.com/millrace/millrace/internal/chaos"
	"github.com/millrace/millrace/internal/jsontype"
)

type demoCommand struct {
	Scenes []string `arg:"" optional:"" name:"scene" help:"Play these scenes, or all. Defaults to queue."`
}

// Help lists the scenes and shows examples.
func (*demoCommand) Help() string {
	return `Shows in nine seconds why a queue has tenants: a flood and slow messages of one, in a fair queue and in one line, side by side. Each scene puts load on a structure, causes accidents, and checks the result against its own ledger. The scenes: ` + strings.Join(demo.Names(), ", ") + `; all plays all.

Without --redis it starts a private server that ends with it. It ignores MILLRACE_REDIS_URL, so that it puts no load on a server by mistake. With --redis it works under a random name and deletes what it wrote. Without a redis-server on this machine it plays five scenes in a small version.

Examples:

    millrace demo
    millrace demo all
    millrace demo --redis redis://127.0.0.1:6379 --json`
}

// Run plays the scenes.
func (c *demoCommand) Run(ctx context.Context, a *app) error {
	scenes, err := demo.Choose(c.Scenes...)
	if err != nil {
		return errUsage.Errorf("%s", err)
	}
	cfg := chaos.Config{Scenes: scenes, Redis: a.redis, Progress: a.stderr, Live: watch.IsTerminal(a.stderr)}
	if !a.json {
		cfg.Results = a.stdout
	}
	report, err := a.play(ctx, cfg)
	if err != nil {
		return err
	}
	if a.json {
		err = jsontype.Encode(a.stdout, report)
	}
	switch {
	case err != nil:
		return err
	case !report.OK:
		return errPrinted
	case !a.json && len(c.Scenes) == 0:
		_, err = fmt.Fprintln(a.stdout, goOn)
	}
	return err
}

// goOn says where to read on after the first look.
const goOn = `
Go on with a queue in your program: https://pkg.go.dev/github.com/millrace/millrace/fairqueue
Which structure is for what: docs/CHOOSING.md. All of them under load: millrace demo all`
