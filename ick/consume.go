package ick

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/loop"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/redis/wake"
)

const (
	// maxRetryDelay is the longest that a member is parked before it is tried again.
	maxRetryDelay = time.Hour

	// pollEvery is how often an idle consumer polls, for marks of producers that do not wake
	// it, such as the gem's.
	pollEvery = time.Second

	// finishTimeout bounds the last commit of a consumer after the end of its context.
	finishTimeout = 5 * time.Second
)

// Handler processes a batch, oldest marks first. Its result decides what happens to the batch:
//
//   - nil: all members are committed.
//   - an error of [Failed], or one that wraps or joins such errors: the named members are
//     parked, the others are committed.
//   - any other error, or a panic: nothing is committed, and after a pause that grows up to ten
//     seconds the handler gets the same batch again. Return it when a database is down.
//
// A handler may get a member again, so its work must be idempotent: bring the copy in line with
// the current state.
type Handler func(ctx context.Context, batch []Entry) error

// ConsumeConfig configures a consumer. The zero value works.
type ConsumeConfig struct {
	// Batch is the largest number of members that the handler gets. Defaults to 100.
	Batch int

	// MaxAttempts is how often a member may fail. Then it stays parked until it is marked
	// again, or until [Ick.Retry] or [Ick.Drop]. Defaults to 5.
	MaxAttempts int

	// RetryDelay is how long a member is parked after its first failure, in whole
	// milliseconds; it doubles with each failure, up to an hour. Defaults to 1 s.
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
	c.Batch, c.MaxAttempts = cmp.Or(c.Batch, 100), cmp.Or(c.MaxAttempts, 5)
	c.RetryDelay, c.poll = cmp.Or(c.RetryDelay, time.Second), cmp.Or(c.poll, pollEvery)
	return c, nil
}

// Consume passes batches to the handler, one at a time, until ctx ends, and returns its cause.
// An idle consumer sends at most two commands a second; a Millrace producer's add wakes it, and
// it finds a gem producer's within a second. When ctx ends, Consume commits the handler's finished
// members, within five seconds. If it cannot, the error also wraps [ErrUncommitted].
//
// A server that restarts, fails over, is full or silent does not end it. A broken Ick
// ([millrace.ErrBroken]), an unknown version ([millrace.ErrVersion]) and a closed client do.
//
// Use one consumer for each Ick. Two lose no marks, but do much of the work twice.
func (k *Ick) Consume(ctx context.Context, cfg ConsumeConfig, handler Handler) error {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return err
	}
	c := &consumer{ick: k, cfg: cfg, handler: handler, permanent: permanent}
	return c.run(ctx, ctx)
}

// permanent reports whether repeats are useless after an error.
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

	// idle is called before the consumer sleeps. Nil for none.
	idle func(context.Context) error

	// pace is the shortest interval between two polls. Nil for none.
	pace func() time.Duration

	token string        // of the last batch
	done  []string      // its members that the next exchange commits
	pause time.Duration // until a mark is due; negative if unknown
}

// run consumes until ctx ends or an error is permanent. The handler's context is work, which may
// outlast ctx: then the handler finishes its batch first.
func (c *consumer) run(ctx, work context.Context) error {
	err := loop.Run(ctx, loop.Config{
		Step:      func(ctx context.Context) (bool, error) { return c.step(ctx, work) },
		Wait:      c.wait,
		Permanent: c.permanent,
		Backoff:   retry.Policy{Base: 50 * time.Millisecond, Max: 10 * time.Second}.Pause,
		Logger:    c.ick.cfg.Logger.With("ick", c.ick.name),
	})
	return c.finish(ctx, err)
}

// step commits the last batch, reserves the next one and calls the handler.
func (c *consumer) step(ctx, work context.Context) (bool, error) {
	r, _, err := c.ick.Exchange(ctx, c.token, c.done, c.cfg.Batch)
	if errors.Is(err, errRetired) && c.idle != nil {
		return false, nil // it is empty, and the channel may open it again
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
	err := loop.Handle(ctx, c.ick.cfg.Hooks, handling, func(ctx context.Context) error { return c.handler(ctx, r.Entries) })
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
	return c.ick.parkAll(ctx, r.Token, c.cfg, failed)
}

// wait sleeps until a producer wakes it, a mark is due, or it is time to poll.
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

// finish commits the last batch, even though ctx has ended, and returns the error of a consumer that ends for
// that cause.
func (c *consumer) finish(ctx context.Context, cause error) error {
	if len(c.done) == 0 {
		return cause
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
	defer cancel()
	_, _, err := c.ick.Exchange(ctx, c.token, c.done, 0)
	if err == nil || errors.Is(err, errRetired) { // a retired one is empty
		return cause
	}
	return ErrUncommitted.Errorf("%d members of the last batch of %q were not committed before the end, and are reserved again", len(c.done), c.ick.name).
		Wrap(fmt.Errorf("%w (the consumer ended: %w)", err, cause))
}

// age is how long a mark has waited, if its score is a time.
func age(score float64, now time.Time) (age time.Duration, known bool) {
	if math.IsInf(score, 0) {
		return 0, false
	}
	const most = float64(math.MaxInt64 / time.Second)
	seconds := min(float64(now.UnixMicro())/1e6-score, most)
	return max(0, time.Duration(seconds*float64(time.Second))), true
}
