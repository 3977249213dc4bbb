package directory

import (
	"context"
	"log/slog"
	"time"

	"github.com/millrace/millrace/internal/retry"
)

// Finisher completes changes of a kind that take several maps and were cut off. It begins
// none. Any number of agents may run it at the same time, and the command may still be
// alive: the first one to complete a step has done it for all.
type Finisher struct {
	// What is the kind of change, for the log.
	What string

	// Step names the step that a map is at; "" if nothing is to be finished.
	Step func(m *Map) string

	// Complete takes the steps that are left.
	Complete func(ctx context.Context, m *Map) error

	Logger *slog.Logger

	// After is how long a step is left to the command that began the change, beside the map's
	// grace. Defaults to 5 seconds.
	After time.Duration
}

// Run returns when ctx ends, with the cause.
func (f Finisher) Run(ctx context.Context, dir *Directory) error {
	if f.After == 0 {
		f.After = 5 * time.Second
	}
	var step string // that was seen, and since when
	var since time.Time
	for retry.Sleep(ctx, min(time.Second, f.After)) {
		m, err := dir.Confirm(ctx, 0)
		if err != nil {
			continue // other jobs of the agent report the directory
		}
		switch now := f.Step(m); {
		case now != step:
			step, since = now, time.Now()
		case now != "" && time.Since(since) > f.After+m.Grace():
			err := f.Complete(ctx, m)
			switch {
			case ctx.Err() != nil:
			case err != nil:
				f.Logger.WarnContext(ctx, "cannot finish a change that was cut off yet", "change", f.What, "error", err)
			default:
				f.Logger.InfoContext(ctx, "finished a change that was cut off", "change", f.What)
			}
			step = ""
		}
	}
	return context.Cause(ctx)
}
