package main

import (
	"context"
	"io"
	"os"

	"github.com/millrace/millrace/cmd/millrace/demo"
)

type demoCommand struct{}

func (*demoCommand) Help() string {
	return `Without --redis it starts a private server, which ends with the command. It ignores MILLRACE_REDIS_URL, so that no server gets load by mistake. With --redis all its keys are under a random prefix, and it deletes them.

Examples:

    millrace demo
    millrace demo --redis redis://127.0.0.1:6379 --json`
}

func (*demoCommand) Run(ctx context.Context, a *app) error {
	report, err := a.play(ctx, demo.Config{Redis: a.redis, Progress: a.stderr, Live: isTerminal(a.stderr)})
	if err != nil {
		return err
	}
	var unwritten error
	err = a.print(report, func(w io.Writer) { unwritten = report.Table(w) })
	switch {
	case err != nil:
		return err
	case unwritten != nil:
		return unwritten
	case !report.OK:
		return errPrinted
	}
	return nil
}

// isTerminal reports whether w is a terminal, on which lines can be redrawn.
func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
