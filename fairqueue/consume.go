package fairqueue

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/names"
)

// Handler works on one message. Its result decides what happens to the message:
//
//   - nil: it is acknowledged.
//   - an error: it comes again after [ConsumeConfig.Backoff], or is dead if it was
//     delivered [Config.MaxAttempts] times. See [NoRetry], [RetryAfter] and
//     [Throttle].
//   - a panic counts as an error.
//
// The context ends when the message was cancelled or delivered to another reader
// ([ErrCancelled]), after [ConsumeConfig.Timeout] ([millrace.ErrTimeout]), and after
// [ConsumeConfig.Drain]. A message may be delivered more than once, so the work must be
// idempotent. [Chain] wraps a handler in middleware.
type Handler func(ctx context.Context, msg Message) error

// ConsumeConfig configures a consumer. The zero value works.
type ConsumeConfig struct {
	// Concurrency is how many handlers run at once, up to 1,000. Defaults to 10, or to all
	// of the Pool.
	Concurrency int

	// Pool is shared with other runs of Consume: each handler needs one of the Pool's. Each
	// run reports an equal share of them to its queue. Defaults to none.
	Pool *Pool

	// Name is shown to people for this consumer: at most 512 bytes without control
	// characters. Defaults to the program's name and the process's number, which in a container is 1: "billing/1".
	Name string

	// Visibility is the longest time until the messages of a dead consumer come again. A
	// consumer extends its messages every third of it, at least every 5 s, and each from a
	// sixth of it on. Defaults to 30 s.
	Visibility time.Duration

	// Timeout ends a handler's context. Defaults to 0, never.
	Timeout time.Duration

	// MaxRun gives up a handler that ignores its context: its message is no longer
	// extended and comes again, and another handler runs in its place. When Concurrency
	// handlers were given up, Consume ends with [ErrUnhealthy]. Defaults to 0, never.
	MaxRun time.Duration

	// Backoff returns the delay after a failed delivery: attempt is its number, from 1 on,
	// and err the error of the handler. Defaults to [Backoff].
	Backoff func(attempt int, err error) time.Duration

	// Drain is how long handlers may go on after the context of Consume has ended. Then
	// their contexts end, too, and their messages are no longer extended. A message whose
	// handler fails after that is handed back, which counts as no attempt. Defaults to
	// 30 s.
	Drain time.Duration
}

// Backoff doubles from a second up to ten minutes, less a random part of up to half, so that
// messages that failed together do not come again together.
func Backoff(attempt int, _ error) time.Duration {
	most := 10 * time.Minute
	if attempt < 11 {
		most = min(most, time.Second<<max(0, attempt-1))
	}
	return most/2 + rand.N(most/2+1)
}

// firstBackoff is the delay of [Backoff] after the first attempt, which script settle doubles.
func firstBackoff() time.Duration { return Backoff(1, nil) }

type noRetryError struct{ error }

func (e noRetryError) Unwrap() error { return e.error }

// NoRetry marks a handler's error as final: the message is dead at once, with the error's
// text as the reason. NoRetry(nil) is nil.
func NoRetry(err error) error {
	if err == nil {
		return nil
	}
	return noRetryError{err}
}

type retryAfterError struct {
	error

	after time.Duration
}

func (e retryAfterError) Unwrap() error { return e.error }

// RetryAfter sets the delay after which a failed message comes again, instead of the backoff.
// RetryAfter(d, nil) is nil.
func RetryAfter(d time.Duration, err error) error {
	if err == nil {
		return nil
	}
	return retryAfterError{error: err, after: d}
}

func (c ConsumeConfig) withDefaults() (ConsumeConfig, error) {
	if c.Concurrency == 0 && c.Pool != nil {
		c.Concurrency = c.Pool.size
	}
	if c.Concurrency == 0 {
		c.Concurrency = defaultConcurrency
	}
	if c.Name == "" {
		program, _ := os.Executable()
		c.Name = filepath.Base(program) + "/" + strconv.Itoa(os.Getpid())
	}
	if c.Visibility == 0 {
		c.Visibility = defaultVisibility
	}
	if c.Backoff == nil {
		c.Backoff = Backoff
	}
	if c.Drain == 0 {
		c.Drain = defaultDrain
	}
	switch bad := millrace.ErrBadArgument; {
	case c.Concurrency < 0 || c.Concurrency > maxConcurrency:
		return c, bad.Errorf("Concurrency is %d, not 1 to %d; for more, call Consume more than once", c.Concurrency, maxConcurrency)
	case c.Timeout < 0:
		return c, bad.Errorf("Timeout is negative: %s", c.Timeout)
	case c.MaxRun < 0:
		return c, bad.Errorf("MaxRun is negative: %s", c.MaxRun)
	case c.Drain < 0:
		return c, bad.Errorf("Drain is negative: %s", c.Drain)
	}
	if err := names.CheckText(millrace.ErrBadArgument, "name of a consumer", c.Name, maxLabel); err != nil {
		return c, err
	}
	return c, checkVisibility(c.Visibility)
}

// Consume handles messages until ctx ends, and returns its cause when all handlers have
// returned, for which [ConsumeConfig.Drain] gives them time. If the queue does not answer then,
// it tries for 10 s to settle a message, and the error also wraps [ErrUnsettled]. The error also
// wraps it if the queue is broken and messages remain that Consume could not settle.
//
// One call settles finished messages and fetches the next ones. Where handlers take less than
// 5 ms, Consume fetches a few messages before they can start. A message that does not start
// within 20 ms is handed back.
//
// Tenants share the handlers: one whose handlers are slow gets half of them, two get a third
// each, and so on, unless no other tenant had a message for a minute. See the package's
// documentation.
//
// A server that restarts, fails over, is full or down does not end Consume, nor does a queue
// that does not exist yet. A queue that is broken or of an unknown version
// ([millrace.ErrBroken], [millrace.ErrVersion]), a closed client, and [ErrUnhealthy] do.
func (q *Queue) Consume(ctx context.Context, cfg ConsumeConfig, handler Handler) error {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return err
	}
	return newConsumer(q, cfg, handler).run(ctx)
}

// permanent reports whether a repeat is useless.
func permanent(err error) bool {
	return errors.Is(err, millrace.ErrBroken) || errors.Is(err, millrace.ErrVersion) || errors.Is(err, rueidis.ErrClosing)
}
