package main

import (
	"context"
	"io"
	"os"

	"github.com/millrace/millrace/cmd/millrace/demo"
)

type demoCommand struct{}

func (*demoCommand) Help() string {
	return `Without --redis it starts a private server, which ends with it; MILLRACE_REDIS_URL is not heeded, so that nobody puts load on a server unawares. With --redis it works under a random prefix and cleans up.

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
		return errSaid
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
