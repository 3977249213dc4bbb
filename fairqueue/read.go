package fairqueue

import (
	"context"
	"time"

	"github.com/millrace/millrace"
)

const (
	// VisibilityDefault is after how long a message that was neither acknowledged nor
	// extended comes again.
	VisibilityDefault = 30 * time.Second

	// MinVisibility is the shortest that may be asked for.
	MinVisibility = 10 * time.Millisecond

	// MaxVisibility is the longest.
	MaxVisibility = 12 * time.Hour
)

// ReadConfig is how messages are read. The zero value reads one message if there
// is one.
type ReadConfig struct {
	// Max is how many messages are taken at most, up to 1,000. Defaults to 1.
	Max int

	// Block is for how long to wait for the first message. Negative waits until
	// the context ends. Defaults to 0, not at all.
	Block time.Duration

	// Visibility is after how long a message that was neither acknowledged nor
	// extended comes again, from [MinVisibility] to [MaxVisibility], in whole
	// milliseconds. Defaults to [VisibilityDefault].
	Visibility time.Duration
}

func (c ReadConfig) withDefaults() (ReadConfig, error) {
	if c.Max == 0 {
		c.Max = 1
	}
	if c.Visibility == 0 {
		c.Visibility = VisibilityDefault
	}
	if c.Max < 0 || c.Max > chunk {
		return c, millrace.ErrBadArgument.Errorf("a read takes 1 to %d messages, not %d", chunk, c.Max)
	}
	return c, checkVisibility(c.Visibility)
}

func checkVisibility(d time.Duration) error {
	if d < MinVisibility || d > MaxVisibility {
		return millrace.ErrBadArgument.Errorf("a visibility is from %s to %s, not %s", MinVisibility, MaxVisibility, d)
	}
	return nil
}

// Read takes messages, the head of one flow after the other, and returns at least one or
// an error. They are invisible to others until they were not acknowledged for
// [ReadConfig.Visibility]. Goroutines that read at the same time share calls. Max counts
// as far as the messages are not more than a mebibyte.
//
// Messages that are read count for nobody's share of the handlers: see [Queue.Consume].
//
// A call whose context ends returns at once. What was taken for it meanwhile is
// handed back, which counts as no attempt.
//
// Errors: [ErrEmpty], also for a queue that does not exist; [ErrPaused] instead
// while reading is off; [millrace.ErrBadArgument], [millrace.ErrBroken],
// [millrace.ErrVersion].
func (q *Queue) Read(ctx context.Context, cfg ReadConfig) (messages []Message, err error) {
	cfg, err = cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	err = q.observe(ctx, "work", func(ctx context.Context) error {
		messages, err = q.read(ctx, cfg)
		return err
	})
	if err != nil && q.cfg.Enlister != nil && ctx.Err() == nil {
		q.cfg.Enlister.Enlist(ctx)
	}
	return messages, err
}

func (q *Queue) read(ctx context.Context, cfg ReadConfig) ([]Message, error) {
	request := workRequest{q: q, max: min(cfg.Max, page), visibility: cfg.Visibility, sleeps: cfg.Block != 0}
	end := ctx
	if cfg.Block > 0 {
		var cancel context.CancelFunc
		end, cancel = context.WithTimeoutCause(ctx, cfg.Block, ErrEmpty)
		defer cancel()
	}
	for {
		a, err := q.shared.do(ctx, request)
		switch {
		case err != nil:
			return nil, err
		case len(a.messages) > 0:
			return q.readMore(ctx, a.messages, request, cfg.Max), nil
		case a.again:
			continue
		}
		if moved, err := q.adopt(ctx, cfg.Max); err != nil {
			return nil, err
		} else if moved > 0 {
			continue
		}
		if cfg.Block == 0 || end.Err() != nil {
			return nil, a.nothing()
		}
		rest, cancel := q.resting(end)
		found, err := q.shared.sleepers.wait(rest, request, a.pause)
		cancel()
		switch {
		case err == nil:
			return found.messages, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case end.Err() != nil:
			return nil, a.nothing()
		case rest.Err() == nil:
			return nil, err
		}
	}
}

// readMore makes further calls for a caller who asked for more than one call takes. It ends
// when a call brings fewer messages than it may.
func (q *Queue) readMore(ctx context.Context, messages []Message, request workRequest, most int) []Message {
	request.sleeps = false
	for full := len(messages) == page; full && len(messages) < most; {
		request.max = min(most-len(messages), page)
		a, err := q.shared.do(ctx, request)
		if err != nil {
			break // whoever has messages is not kept from them
		}
		messages, full = append(messages, a.messages...), len(a.messages) == page
	}
	return messages
}

// resting ends when a reader that sleeps is to look into the legacy stream again.
func (q *Queue) resting(ctx context.Context) (context.Context, context.CancelFunc) {
	if q.cfg.Legacy.Stream == "" {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, longestSleep)
}

// nothing is the error of a read that found nothing.
func (a workAnswer) nothing() error {
	if a.paused {
		return ErrPaused
	}
	return ErrEmpty
}
