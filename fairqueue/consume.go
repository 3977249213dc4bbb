package fairqueue

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/names"
)

const (
	// ConcurrencyDefault is how many handlers run at once.
	ConcurrencyDefault = 10

	// DrainDefault is how long handlers may go on when Consume is told to end.
	DrainDefault = 30 * time.Second
)

// Handler works on one message. Its answer decides what becomes of it:
//
//   - nil: it is acknowledged.
//   - an error: it comes again after [ConsumeConfig.Backoff], or is dead when it
//     was delivered [Config.MaxAttempts] times. See [Dead] and [RetryAfter].
//   - a panic is an error.
//
// The context ends when the message was cancelled or another reader has it
// ([ErrCancelled]), after [ConsumeConfig.Timeout] ([millrace.ErrTimeout]), and when the time to
// drain is over. A message may be delivered more than once, so the work must be
// idempotent.
type Handler func(ctx context.Context, m Message) error

// ConsumeConfig is how a consumer works. The zero value works.
type ConsumeConfig struct {
	// Concurrency is how many handlers run at once in this call. Defaults to
	// [ConcurrencyDefault].
	Concurrency int

	// Name is what people see of this consumer, at most 512 bytes without control
	// characters. Defaults to the process's number.
	Name string

	// Visibility is after how long the message of a consumer that died comes
	// again. Living ones extend it each third of that for as long as a handler
	// runs. Defaults to [VisibilityDefault].
	Visibility time.Duration

	// Timeout is after how long a handler's context ends. Defaults to 0, never.
	Timeout time.Duration

	// MaxRun is after how long a handler that does not heed its context is given up:
	// its message is not extended any more and comes again, and another handler runs in
	// its place. When Concurrency handlers were given up, Consume ends with
	// [ErrUnhealthy]. Defaults to 0, never.
	MaxRun time.Duration

	// Backoff returns after how long a message that failed comes again; attempt
	// is the number of the delivery that failed with err, from 1 on. Defaults to
	// [Backoff].
	Backoff func(attempt int, err error) time.Duration

	// Drain is how long handlers may go on after Consume was told to end, before
	// their contexts end, too, and their messages are extended no more. A message
	// whose handler fails after that is handed back, and it counts as no attempt.
	// Defaults to [DrainDefault].
	Drain time.Duration
}

// Backoff doubles from a second up to ten minutes, less up to half, so that what
// failed together does not return together.
func Backoff(attempt int, _ error) time.Duration {
	most := 10 * time.Minute
	if attempt < 11 {
		most = min(most, time.Second<<max(0, attempt-1))
	}
	return most/2 + rand.N(most/2+1)
}

// deadError is the answer of a handler that gives up.
type deadError struct{ error }

func (e deadError) Unwrap() error { return e.error }

// Dead says that a message is not worth another try: it is dead at once, with the
// error's text as the reason. Dead(nil) is nil.
func Dead(err error) error {
	if err == nil {
		return nil
	}
	return deadError{err}
}

// laterError is the answer of a handler that knows when to try again.
type laterError struct {
	error

	after time.Duration
}

func (e laterError) Unwrap() error { return e.error }

// RetryAfter says after how long a message that failed should come again, as a
// Retry-After header does, instead of after the backoff. RetryAfter(d, nil) is
// nil.
func RetryAfter(d time.Duration, err error) error {
	if err == nil {
		return nil
	}
	return laterError{error: err, after: d}
}

func (c ConsumeConfig) withDefaults() (ConsumeConfig, error) {
	if c.Concurrency == 0 {
		c.Concurrency = ConcurrencyDefault
	}
	if c.Name == "" {
		c.Name = strconv.Itoa(os.Getpid())
	}
	if c.Visibility == 0 {
		c.Visibility = VisibilityDefault
	}
	if c.Backoff == nil {
		c.Backoff = Backoff
	}
	if c.Drain == 0 {
		c.Drain = DrainDefault
	}
	for _, one := range []struct {
		name  string
		value int64
	}{
		{"Concurrency", int64(c.Concurrency)},
		{"Timeout", int64(c.Timeout)},
		{"MaxRun", int64(c.MaxRun)},
		{"Drain", int64(c.Drain)},
	} {
		if one.value < 0 {
			return c, millrace.ErrBadArgument.Errorf("%s is negative", one.name)
		}
	}
	if c.Concurrency > chunk {
		return c, millrace.ErrBadArgument.Errorf("Concurrency is %d, more than %d: call Consume more than once", c.Concurrency, chunk)
	}
	if err := names.CheckText(millrace.ErrBadArgument, "name of a consumer", c.Name, maxLabel); err != nil {
		return c, err
	}
	return c, checkVisibility(c.Visibility)
}

// Consume handles messages until ctx ends, and returns its cause when all
// handlers have returned, for which they have the time to drain.
//
// What finished is settled and what comes next is fetched in one call. Where handlers take
// less than 5 ms, a few messages are fetched before they can start; one that did not
// start within 20 ms is handed back.
//
// Handlers are shared among tenants: one whose handlers are slow gets half of all that are
// free, two a third each, and so on, unless nobody else has had messages for a minute. See
// the package's documentation.
//
// A server that restarts, fails over, is full or gone does not end it, and
// neither does a queue that does not exist yet. What does is a queue that is
// broken or of an unknown version ([millrace.ErrBroken], [millrace.ErrVersion]), a client
// that was closed, and [ErrUnhealthy].
func (q *Queue) Consume(ctx context.Context, cfg ConsumeConfig, handler Handler) error {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return err
	}
	return newConsumer(q, cfg, handler).run(ctx)
}

// permanent reports whether no repeat can mend an error.
func permanent(err error) bool {
	return errors.Is(err, millrace.ErrBroken) || errors.Is(err, millrace.ErrVersion) || errors.Is(err, rueidis.ErrClosing)
}
