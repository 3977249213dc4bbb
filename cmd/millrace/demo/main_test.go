package demo

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redistest"
)

// Arguments that make the test binary a process with a part of its own.
const (
	// A consumer that leaves out one document, or all, but commits them.
	skipOne = "skip-one"
	skipAll = "skip-all"

	// A site whose recruits find nothing to collect.
	lazy = "lazy"

	// Hosts whose recruits find nothing to reap, who look past deadlines, and who
	// take fields for gone before their time.
	hoarding = "hoarding"
	blind    = "blind"
	hasty    = "hasty"

	// A worker that leaves out a message, but acknowledges it.
	forgetful = "forgetful"

	// A child that ends by itself, and one that ends only by a signal.
	fail = "fail"
	hang = "hang"

	// A parent that hires a hanging child, prints its process id and waits.
	parent = "parent"
)

// skipped is the document that skipOne leaves out: the newest one at the
// start, which is certainly changed.
const skipped = "doc:499"

func TestMain(m *testing.M) {
	if code, ok := Child(context.Background(), os.Args[1:]); ok {
		os.Exit(code)
	}
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case skipOne:
			os.Exit(playChild(context.Background(), sabotaged(func(id string) bool { return id == skipped })))
		case skipAll:
			os.Exit(playChild(context.Background(), sabotaged(func(string) bool { return true })))
		case lazy:
			os.Exit(playChild(context.Background(), serveLazily))
		case hoarding:
			os.Exit(playChild(context.Background(), hostBadly(hoard)))
		case blind:
			os.Exit(playChild(context.Background(), hostBadly(lookPastDeadlines)))
		case hasty:
			os.Exit(playChild(context.Background(), hostBadly(giveUpEarly)))
		case forgetful:
			os.Exit(playChild(context.Background(), workForgetfully))
		case fail:
			fmt.Fprintln(os.Stderr, "out of paper")
			os.Exit(3)
		case hang:
			select {}
		case parent:
			beParent()
		}
	}
	redistest.Main(m)
}

// sabotaged is the ick scene's consumer, but for documents to leave out.
func sabotaged(leaveOut func(id string) bool) func(context.Context, part) error {
	return func(ctx context.Context, p part) error {
		return consume(ctx, p, func(ctx context.Context, p part, ids []string) error {
			if ids = slices.DeleteFunc(slices.Clone(ids), leaveOut); len(ids) == 0 {
				return nil
			}
			return process(ctx, p, ids)
		})
	}
}

// serveLazily is the steal scene's site, but for the work.
func serveLazily(ctx context.Context, p part) error {
	return newSite(p).play(ctx, p, func(context.Context) (millrace.Progress, error) { return millrace.Idle, nil })
}

// forgotten is the message that workForgetfully leaves out.
const forgotten = 100

// workForgetfully is the queue scene's worker, but for one message.
func workForgetfully(ctx context.Context, p part) error {
	w := &queueWorker{part: p}
	return w.serve(ctx, func(ctx context.Context, news queueNews, work time.Duration) error {
		if news.Number == forgotten && news.Side == fair {
			return nil
		}
		return w.handle(ctx, news, work)
	})
}

func beParent() {
	c := &crew{command: self(hang), heard: func([]byte) {}, lost: func(err error) { fmt.Println(err) }}
	if err := c.hire(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(c.workers[0].cmd.Process.Pid)
	select {} // until it is killed
}

// self is the command that runs the test binary as something else.
func self(args ...string) []string { return append([]string{os.Args[0]}, args...) }
