package fairqueue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/loop"
	"github.com/millrace/millrace/internal/retry"
)

const (
	// ConcurrencyDefault is how many handlers run at once.
	ConcurrencyDefault = 10

	// DrainDefault is how long handlers may go on when Consume is told to end.
	DrainDefault = 30 * time.Second

	// settlePatience is for how long the end of a handler is told to Redis.
	settlePatience = 10 * time.Second
)

// Handler works on one message. Its answer decides what becomes of it:
//
//   - nil: it is acknowledged.
//   - an error: it comes again after [ConsumeConfig.Backoff], or is dead when it
//     was delivered [Config.MaxAttempts] times. See [Dead] and [RetryAfter].
//   - a panic is an error.
//
// The context ends when the message was cancelled or another reader has it
// ([ErrCancelled]), and when the time to drain is over. A message may be
// delivered more than once, so the work must be idempotent.
type Handler func(ctx context.Context, m Message) error

// ConsumeConfig is how a consumer works. The zero value works.
type ConsumeConfig struct {
	// Concurrency is how many handlers run at once in this call. Defaults to
	// [ConcurrencyDefault].
	Concurrency int

	// Visibility is after how long the message of a consumer that died comes
	// again. Living ones extend it each third of that for as long as a handler
	// runs. Defaults to [VisibilityDefault].
	Visibility time.Duration

	// Backoff returns after how long a message that failed comes again; attempt
	// is the number of the delivery that failed, from 1 on. Defaults to
	// [Backoff].
	Backoff func(attempt int) time.Duration

	// Drain is how long handlers may go on after Consume was told to end, before
	// their contexts end, too. A message whose handler fails after that is handed
	// back, and it counts as no attempt. Defaults to [DrainDefault].
	Drain time.Duration

	// Affinity is how many messages in a row a worker may take from the stream of
	// its last one, before the others have their turn. Defaults to 0, none.
	Affinity int
}

// Backoff doubles from a second up to ten minutes, less up to half, so that what
// failed together does not return together.
func Backoff(attempt int) time.Duration {
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
	if c.Visibility == 0 {
		c.Visibility = VisibilityDefault
	}
	if c.Backoff == nil {
		c.Backoff = Backoff
	}
	if c.Drain == 0 {
		c.Drain = DrainDefault
	}
	switch {
	case c.Concurrency < 0:
		return c, millrace.ErrBadArgument.Saying("Concurrency is negative: %d", c.Concurrency)
	case c.Drain < 0:
		return c, millrace.ErrBadArgument.Saying("Drain is negative: %s", c.Drain)
	case c.Affinity < 0:
		return c, millrace.ErrBadArgument.Saying("Affinity is negative: %d", c.Affinity)
	}
	return c, checkVisibility(c.Visibility)
}

// Consume handles messages until ctx ends, and returns its cause when all
// handlers have returned, for which they have the time to drain.
//
// A server that restarts, fails over, is full or gone does not end it, and
// neither does a queue that does not exist yet. What does is a queue that is
// broken or of an unknown version ([millrace.ErrBroken], [millrace.ErrVersion]) and a client that
// was closed.
func (q *Queue) Consume(ctx context.Context, cfg ConsumeConfig, handler Handler) error {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return err
	}
	work, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	c := &consumer{q: q, cfg: cfg, handler: handler, work: work, inHand: make(map[string]context.CancelCauseFunc)}
	reading, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	end := context.AfterFunc(reading, func() {
		time.AfterFunc(cfg.Drain, func() { stop(context.Cause(reading)) })
	})
	defer end()

	beating, quiet := context.WithCancel(context.WithoutCancel(ctx))
	var heart, workers sync.WaitGroup
	heart.Go(func() { c.beat(beating) })
	for range cfg.Concurrency {
		workers.Go(func() { fail(c.serve(reading)) })
	}
	workers.Wait()
	quiet()
	heart.Wait()
	return context.Cause(reading)
}

// permanent reports whether no repeat can mend an error.
func permanent(err error) bool {
	return errors.Is(err, millrace.ErrBroken) || errors.Is(err, millrace.ErrVersion) || errors.Is(err, rueidis.ErrClosing)
}

// consumer is one run of Consume.
type consumer struct {
	q       *Queue
	cfg     ConsumeConfig
	handler Handler
	work    context.Context //nolint:containedctx // the life of all handlers, longer than that of the reading

	mu     sync.Mutex
	inHand map[string]context.CancelCauseFunc // by receipt
}

// serve is one worker.
func (c *consumer) serve(ctx context.Context) error {
	last, inRow := 0, 0
	return loop.Run(ctx, loop.Config{
		Step: func(ctx context.Context) (bool, error) {
			cfg := ReadConfig{Block: -1, Visibility: c.cfg.Visibility}
			if inRow < c.cfg.Affinity {
				cfg.Prefer = last
			}
			messages, err := c.q.Read(ctx, cfg)
			if err != nil {
				return false, err
			}
			m := messages[0]
			if inRow++; m.Stream+1 != last || cfg.Prefer == 0 {
				last, inRow = m.Stream+1, 1
			}
			return true, c.handle(m)
		},
		Wait:      func(context.Context) error { return nil },
		Permanent: permanent,
		Backoff:   retry.Policy{Base: 50 * time.Millisecond, Max: 5 * time.Second},
		Logger:    c.q.cfg.Logger.With("queue", c.q.name),
	})
}

// handle runs the handler and tells Redis how it ended.
func (c *consumer) handle(m Message) error {
	ctx, cancel := context.WithCancelCause(c.work)
	c.mu.Lock()
	c.inHand[m.Receipt] = cancel
	c.mu.Unlock()
	failed := c.observed(ctx, m)
	c.mu.Lock()
	delete(c.inHand, m.Receipt)
	c.mu.Unlock()
	cancel(nil)

	ctx, done := context.WithTimeout(context.WithoutCancel(c.work), settlePatience)
	defer done()
	err := c.settle(ctx, m, failed)
	if errors.Is(err, ErrStale) {
		c.q.cfg.Logger.InfoContext(ctx, "a handler ended too late: another reader has its message, or it was cancelled",
			"queue", c.q.name, "message", m.ID)
		return nil
	}
	return err
}

func (c *consumer) settle(ctx context.Context, m Message, failed error) error {
	if failed == nil {
		_, err := c.q.Ack(ctx, m.Receipt)
		return err
	}
	if c.work.Err() != nil { // cut off by the end of the drain, which is nobody's fault
		_, err := countOf(c.q.nack(ctx, "unread", 0, "", m.Receipt))
		return err
	}
	var panicked *loop.PanicError
	log := slog.LevelInfo
	if errors.As(failed, &panicked) {
		log = slog.LevelError
	}
	c.q.cfg.Logger.Log(ctx, log, "a handler failed", "queue", c.q.name, "message", m.ID, "attempt", m.Attempt, "error", failed)
	nack := NackConfig{Delay: c.cfg.Backoff(m.Attempt), Reason: failed.Error()}
	if later, ok := errors.AsType[laterError](failed); ok {
		nack.Delay = later.after
	}
	if _, ok := errors.AsType[deadError](failed); ok {
		nack.Dead = true
	}
	nack.Delay = max(0, nack.Delay)
	if panicked != nil {
		nack.Reason = fmt.Sprintf("panic: %v", panicked.Value)
	}
	return c.q.Nack(ctx, m.Receipt, nack)
}

// observed runs the handler between the hooks, panics caught.
func (c *consumer) observed(ctx context.Context, m Message) (err error) {
	work := millrace.Handling{
		Structure: "fairqueue", Key: c.q.name, Size: 1, Age: m.PickupDelay, Attempt: m.Attempt, Headers: m.Headers,
	}
	for _, hook := range c.q.cfg.Hooks {
		if observer, ok := hook.(millrace.HandleHook); ok {
			var done func(error)
			if ctx, done = observer.OnHandle(ctx, work); done != nil {
				defer func() { done(err) }()
			}
		}
	}
	return loop.Protect(func() error { return c.handler(ctx, m) })
}

// beat extends the messages in hand until ctx ends, and ends the contexts of
// those that are not this consumer's any more.
func (c *consumer) beat(ctx context.Context) {
	for retry.Sleep(ctx, c.cfg.Visibility/3) {
		c.mu.Lock()
		receipts := make([]string, 0, len(c.inHand))
		for receipt := range c.inHand {
			receipts = append(receipts, receipt)
		}
		c.mu.Unlock()
		if len(receipts) == 0 {
			continue
		}
		within, cancel := context.WithTimeout(ctx, c.cfg.Visibility/3)
		good, err := c.q.Extend(within, c.cfg.Visibility, receipts...)
		cancel()
		if err != nil && ctx.Err() == nil {
			c.q.cfg.Logger.WarnContext(ctx, "messages in hand were not extended", "queue", c.q.name, "messages", len(receipts), "error", err)
		}
		c.mu.Lock()
		for i, ok := range good {
			if end := c.inHand[receipts[i]]; !ok && end != nil {
				end(ErrCancelled)
			}
		}
		c.mu.Unlock()
	}
}
