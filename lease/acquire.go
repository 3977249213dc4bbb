package lease

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/retry"
	"github.com/millrace/millrace/internal/wake"
)

const (
	// maxMetadata is the longest metadata in bytes.
	maxMetadata = 4096

	// longestWait is for how long one who waits sleeps at most before looking
	// again: a wake-up is best effort.
	longestWait = time.Second
)

// Options are how one lease is acquired. The zero value tries once and never
// renews.
type Options struct {
	// Wait is for how long to wait for a lease that somebody holds. A negative one
	// waits until the context ends. Defaults to 0, not at all.
	Wait time.Duration

	// MaxHold renews the lease in the background, a third of its TTL after the
	// last time, until it has been held this long. Defaults to 0, no renewal.
	MaxHold time.Duration

	// Metadata is shown to those who find the lease held: a host, a process. At
	// most 4,096 bytes. Defaults to none.
	Metadata string

	// Unless is called each time before the lease is asked for again, and ends the
	// waiting with its error if it has one. It is for those who wait for what the holder
	// makes, and not for the lease: all of them are woken by a release, and not only one
	// in each process. Defaults to none.
	Unless func(ctx context.Context) error

	// Token names the holder, 1 to 64 bytes, and is as good as the lease itself: who
	// has it may refresh and release it, and acquiring again with it adopts the
	// lease. For programs that hand a lease on; two holders must never share one.
	// Defaults to 128 random bits.
	Token string
}

// HeldError says who holds a lease. It wraps [ErrHeld].
type HeldError struct {
	Name      string
	Remaining time.Duration // until the holder's deadline
	Metadata  string        // the holder's
	Fence     int64         // the holder's
}

// Error says for how long the lease is held, and the holder's metadata.
func (e *HeldError) Error() string {
	text := fmt.Sprintf("the lease %q is held for another %s", e.Name, e.Remaining)
	if e.Metadata != "" {
		text += fmt.Sprintf(" by %q", e.Metadata)
	}
	return text
}

// Unwrap returns [ErrHeld].
func (e *HeldError) Unwrap() error { return ErrHeld }

// Acquire takes the lease of that name for ttl, from [MinTTL] to [MaxTTL], in
// whole milliseconds. The context bounds the acquiring, not the holding: for
// that see [Lease.Context], which keeps ctx's values.
//
// After a lost reply the library asks again and adopts what it got. When the
// outcome stays unknown, the lease is given back in the background; should that
// fail, too, it expires. Unless Options has a Token: then the caller may acquire
// again with it.
//
// All callers of a process that wait share one connection.
//
// Errors: [ErrHeld] as a [*HeldError], [millrace.ErrEvictable], [millrace.ErrBadName], [millrace.ErrBadArgument],
// [millrace.ErrBroken], [millrace.ErrVersion], [ErrExpired] when the answer came too late,
// millrace.ErrFull, and what Unless returns.
func (l *Locker) Acquire(ctx context.Context, name string, ttl time.Duration, opts Options) (*Lease, error) {
	token := opts.Token
	if token == "" {
		token = newToken()
	}
	if err := cmp.Or(CheckName(name), CheckToken(token), CheckTTL(ttl)); err != nil {
		return nil, err
	}
	if opts.MaxHold < 0 {
		return nil, millrace.ErrBadArgument.Errorf("MaxHold is negative: %s", opts.MaxHold)
	}
	if len(opts.Metadata) > maxMetadata {
		return nil, millrace.ErrBadArgument.Errorf("the metadata is %d bytes long, more than %d", len(opts.Metadata), maxMetadata)
	}
	if err := l.policy.Check(ctx); err != nil {
		return nil, err
	}
	got, err := l.obtain(ctx, name, token, ttl, opts)
	if err != nil {
		var held *HeldError
		var unneeded unneededError
		switch {
		case errors.As(err, &unneeded):
			err = unneeded.error
		case errors.As(err, &held):
			if l.cfg.Enlister != nil && ctx.Err() == nil {
				l.cfg.Enlister.Enlist(ctx)
			}
		case opts.Token == "" && uncertain(err):
			go l.giveBack(ctx, name, token)
		}
		return nil, err
	}
	lease := newLease(ctx, l, name, token, got)
	if lease.ctx.Err() != nil {
		go l.giveBack(ctx, name, token)
		return nil, ErrExpired.Errorf("the lease expired before the answer came")
	}
	if opts.MaxHold > 0 {
		lease.watch(ttl, got.asked.Add(opts.MaxHold))
	}
	return lease, nil
}

// grant is an answer of the server.
type grant struct {
	asked     time.Time // before the question that was answered was sent
	fence     int64
	remaining time.Duration // until the deadline, at most, counted from asked
	until     time.Time     // the deadline by the server's clock
}

// unneededError is what Options.Unless returned: the lease was not asked for since.
type unneededError struct{ error }

// obtain asks until the lease is free, or until it has waited enough.
func (l *Locker) obtain(ctx context.Context, name, token string, ttl time.Duration, opts Options) (g grant, err error) {
	began := time.Now()
	var waiter *wake.Waiter
	id := ""
	if opts.Wait != 0 { // from before the first question on, so that no release is missed
		waiter, id = l.hub.Join(baseKey(name), opts.Unless != nil), l.hub.ID()
		defer func() { waiter.Leave(err == nil) }()
	}
	for {
		g, held, err := l.ask(ctx, name, token, ttl, opts.Metadata, id)
		if err != nil || held == nil {
			return g, err
		}
		held.Name = name
		pause := min(longestWait, held.Remaining)
		if opts.Wait >= 0 {
			left := opts.Wait - time.Since(began)
			if left <= 0 {
				return g, held
			}
			pause = min(pause, left)
		}
		waiter.Wait(ctx, pause)
		if ctx.Err() != nil {
			return g, fmt.Errorf("%w (%w)", context.Cause(ctx), held)
		}
		if opts.Unless != nil {
			if err := opts.Unless(ctx); err != nil {
				return g, unneededError{err}
			}
		}
	}
}

// ask asks for the lease once. The waiter is the id of this process if the caller will
// wait.
func (l *Locker) ask(ctx context.Context, name, token string, ttl time.Duration, metadata, waiter string) (grant, *HeldError, error) {
	args := []string{token, millis(ttl)}
	switch {
	case waiter != "":
		args = append(args, metadata, waiter)
	case metadata != "":
		args = append(args, metadata)
	}
	reply, err := l.run.Run(ctx, "acquire", baseKey(name), args...)
	if err != nil {
		return grant{}, nil, err
	}
	held := reply.Bool()
	g := grant{asked: reply.Asked, fence: reply.Int(), remaining: reply.Millis(), until: time.UnixMilli(reply.Int())}
	if reply.Err() == nil {
		l.index.Enter(name, g.until.Add(-g.remaining)) // also another's: its holder may be dead
	}
	if held {
		return g, nil, reply.Err()
	}
	return g, &HeldError{Remaining: g.remaining, Metadata: reply.Text(), Fence: g.fence}, reply.Err()
}

// uncertain reports whether a call may have been executed all the same.
func uncertain(err error) bool {
	reply, answered := errors.AsType[*rueidis.RedisError](err)
	return !answered || retry.Transient(reply)
}

// giveBack releases what nobody will know that it holds, if it does.
func (l *Locker) giveBack(ctx context.Context, name, token string) {
	_ = l.Release(context.WithoutCancel(ctx), name, token) // it expires, if it must
}

// newToken returns 128 random bits in hexadecimal.
func newToken() string {
	var bits [16]byte
	_, _ = rand.Read(bits[:]) // never fails
	return hex.EncodeToString(bits[:])
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
