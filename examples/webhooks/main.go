// Webhooks accepts webhooks for many tenants and delivers each to its tenant's
// endpoint, with a fair queue between the two.
//
//	POST /hooks/{tenant} ──▶ service ──▶ queue ──▶ courier ──▶ endpoint
//	       202 {"id"} ◀──────────┘         ▲          │
//	                                       └──────────┤ 500, no answer in time: later
//	                                                  │ 429: after Retry-After
//	                                  dead letters ◀──┘ 410, or too many attempts
//
// It posts webhooks of a number of quiet tenants, and then the same again next to
// a noisy one, who has fifty times as many and an endpoint that is slow and fails.
// In the middle of that the courier is replaced. It waits until nothing is left in
// the queue, and then accounts for every webhook. The exit code is 0 when each was
// delivered or is in the dead letters with a reason, and the noisy tenant did not
// delay the others; 1 when not, or when something failed; 2 for wrong flags.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/millrace/millrace"
)

const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is main with its surroundings as arguments.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("webhooks", flag.ContinueOnError)
	flags.SetOutput(stderr)
	url := flags.String("redis", "", "Redis to use, redis://HOST:PORT (default: a private one that is gone at the end)")
	streams := flags.Int("streams", 0, "streams of the queue, or 0 for a flow for each tenant; with 1 all tenants wait in one line")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		return exitUsage
	case flags.NArg() > 0:
		fmt.Fprintf(stderr, "webhooks: unexpected argument %q\nTry: webhooks --redis %s\n", flags.Arg(0), flags.Arg(0))
		return exitUsage
	}

	j := job{redis: *url, streams: *streams, hands: 40, quiet: 20, every: 200 * time.Millisecond, alone: 5 * time.Second, together: 10 * time.Second}
	seen, err := j.run(ctx, stderr)
	if err != nil {
		fmt.Fprintf(stderr, "webhooks: %v\n", err)
		if hint := millrace.Hint(err); hint != "" {
			fmt.Fprintf(stderr, "Try: %s\n", hint)
		}
		return exitFailed
	}
	return report(stdout, seen)
}
