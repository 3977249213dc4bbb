package ick

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/loop"
	"github.com/millrace/millrace/internal/retry"
	"github.com/millrace/millrace/internal/wake"
)

const (
	// maxRetryDelay is the longest that a member is parked before it is tried again.
	maxRetryDelay = time.Hour

	// pollEvery is how often an idle consumer polls for marks of producers that do not
	// wake it, such as the gem's.
	pollEvery = time.Second

	// finishTimeout is how long a consumer may take after the end of its context to
	// commit what its handler finished.
	finishTimeout = 5 * time.Second
)

// Handler works on a batch, oldest marks first. Its answer decides what becomes
// of the batch:
//
//   - nil: all of it is committed.
//   - an error that [Failed] made, or that wraps or joins such errors: the
//     members named are parked, the rest is committed.
//   - any other error, or a panic: nothing is committed, and after a pause that
//     grows up to ten seconds the same batch is handed out again. That is the
//     answer for trouble that is nobody's fault, like a database that is down.
//
// A handler may be called again for a member that it worked on, so its work
// must be idempotent: bring the downstream copy in line with what is true now.
type Handler func(ctx context.Context, batch []Entry) error

// ConsumeConfig is how a consumer works. The zero value works.
type ConsumeConfig struct {
	// Batch is how many members the handler is given at most. Defaults to
	// 100.
	Batch int

	// MaxAttempts is how often a member may fail before it stays parked until it
	// is marked again or taken up by hand. Defaults to 5.
	MaxAttempts int

	// RetryDelay is how long a member is parked after its first failure; it doubles
	// with each further one, up to an hour. In milliseconds at the finest.
	// Defaults to 1 s.
	RetryDelay time.Duration

	poll time.Duration // only tests change it
}

func (c ConsumeConfig) withDefaults() (ConsumeConfig, error) {
	switch {
	case c.Batch < 0:
		return c, millrace.ErrBadArgument.Errorf("Batch is negative: %d", c.Batch)
	case c.MaxAttempts < 0:
		return c, millrace.ErrBadArgument.Errorf("MaxAttempts is negative: %d", c.MaxAttempts)
	case c.RetryDelay < 0:
		return c, millrace.ErrBadArgument.Errorf("RetryDelay is negative: %s", c.RetryDelay)
	}
	if c.Batch == 0 {
		c.Batch = 100
	}
	if c.MaxAttempts == 0 {
		c.MaxAttempts = 5
	}
	if c.RetryDelay == 0 {
		c.RetryDelay = time.Second
	}
	if c.poll == 0 {
		c.poll = pollEvery
	}
	return c, nil
}

// Consume hands batches to handler, one at a time, until ctx ends, and returns
// its cause. While there is nothing to do it sleeps and asks Redis twice a
// second at most; a Millrace producer's add wakes it, and a gem producer's is
// seen within a second. A mark that a handler finished before ctx ended is still
// committed, for which Consume takes up to five seconds more.
//
// A server that restarts, fails over, is full or gone does not end it. What does
// is an Ick that is broken or of an unknown version ([millrace.ErrBroken], [millrace.ErrVersion])
// and a client that was closed.
//
// One consumer an Ick is the rule. Two forget nothing, but do much of the work
// twice.
func (k *Ick) Consume(ctx context.Context, cfg ConsumeConfig, handler Handler) error {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return err
	}
	c := &consumer{ick: k, cfg: cfg, handler: handler, permanent: permanent}
	return c.run(ctx, ctx)
}

// permanent reports whether no repeat can mend an error.
func permanent(err error) bool {
	return errors.Is(err, millrace.ErrBroken) || errors.Is(err, millrace.ErrVersion) || errors.Is(err, errRetired) ||
		errors.Is(err, rueidis.ErrClosing)
}

// consumer is one run of Consume.
type consumer struct {
	ick     *Ick
	cfg     ConsumeConfig
	handler Handler

	// permanent reports whether an error ends the consumer.
	permanent func(error) bool

	// idle is called when there is nothing to do, before the consumer sleeps. Nil
	// for none.
	idle func(context.Context) error

	// pace is the least time between two looks for the marks of silent producers.
	// Nil for none.
	pace func() time.Duration

	token string        // of the batch before
	done  []string      // its members that the next exchange commits
	pause time.Duration // until more is due; negative when nobody knows
}

// run consumes until ctx ends or an error is permanent. The handler's context is
// work, which may outlast ctx: then the batch in hand is finished first.
func (c *consumer) run(ctx, work context.Context) error {
	err := loop.Run(ctx, loop.Config{
		Step:      func(ctx context.Context) (bool, error) { return c.step(ctx, work) },
		Wait:      c.wait,
		Permanent: c.permanent,
		Backoff:   retry.Policy{Base: 50 * time.Millisecond, Max: 10 * time.Second}.Pause,
		Logger:    c.ick.cfg.Logger.With("ick", c.ick.name),
	})
	c.finish(ctx)
	return err
}

// step commits the batch before, reserves the next one and has it handled.
func (c *consumer) step(ctx, work context.Context) (bool, error) {
	r, _, err := c.ick.Exchange(ctx, c.token, c.done, c.cfg.Batch)
	if errors.Is(err, errRetired) && c.idle != nil {
		return false, nil // it is empty, and its channel may open it again
	}
	if err != nil {
		return false, err
	}
	c.token, c.done, c.pause = r.Token, nil, r.pause
	if len(r.Entries) == 0 {
		return false, nil
	}
	return true, c.handle(work, r)
}

func (c *consumer) handle(ctx context.Context, r Reservation) error {
	handling := millrace.Handling{Structure: "ick", Key: c.ick.name, Size: len(r.Entries), Age: -1}
	if age, known := age(r.Entries[0].Score, r.At); known {
		handling.Age = age
	}
	err := c.observed(ctx, handling, func(ctx context.Context) error { return c.handler(ctx, r.Entries) })
	failed := failures(err, r.Entries)
	if err != nil && len(failed) == 0 {
		return err
	}
	for _, e := range r.Entries {
		if _, ok := failed[e.Member]; !ok {
			c.done = append(c.done, e.Member)
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
	defer cancel()
	for reason, members := range byReason(failed) {
		c.ick.cfg.Logger.WarnContext(ctx, "members failed and are parked",
			"ick", c.ick.name, "members", len(members), "reason", reason)
		if _, err := c.ick.park(ctx, r.Token, c.cfg, reason, members); err != nil {
			return fmt.Errorf("park failed members: %w", err)
		}
	}
	return nil
}

// observed runs the handler between the hooks, panics caught.
func (c *consumer) observed(ctx context.Context, h millrace.Handling, run func(context.Context) error) (err error) {
	for _, hook := range c.ick.cfg.Hooks {
		if observer, ok := hook.(millrace.HandleHook); ok {
			var done func(error)
			if ctx, done = observer.OnHandle(ctx, h); done != nil {
				defer func() { done(err) }()
			}
		}
	}
	return loop.Protect(func() error { return run(ctx) })
}

// wait sleeps until a producer wakes it, something is due, or it is time to look
// for the marks of silent producers.
func (c *consumer) wait(ctx context.Context) error {
	if c.idle != nil {
		if err := c.idle(ctx); err != nil {
			return err
		}
	}
	most := c.cfg.poll
	if c.pace != nil {
		most = max(most, c.pace())
	}
	if c.pause >= 0 {
		most = min(most, c.pause)
	}
	_, err := wake.Wait(ctx, c.ick.run.Client, key(c.ick.name, keyWake), most)
	return err
}

// finish commits what was handled last, even though ctx has ended.
func (c *consumer) finish(ctx context.Context) {
	if len(c.done) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
	defer cancel()
	if _, _, err := c.ick.Exchange(ctx, c.token, c.done, 0); err != nil {
		c.ick.cfg.Logger.WarnContext(ctx, "the last batch is not committed and comes again", "ick", c.ick.name, "error", err)
	}
}

// age is how long a mark has waited, if its score tells.
func age(score float64, now time.Time) (age time.Duration, known bool) {
	if math.IsInf(score, 0) {
		return 0, false
	}
	const most = float64(math.MaxInt64 / time.Second)
	seconds := min(float64(now.UnixMicro())/1e6-score, most)
	return max(0, time.Duration(seconds*float64(time.Second))), true
}
