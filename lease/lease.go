package lease

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/retry"
)

// Lease is a lease that was acquired. It is safe for concurrent use. Whoever has
// one must release it, or let it expire.
type Lease struct {
	locker *Locker
	name   string
	token  string
	fence  int64

	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer // cancels the context at the deadline
	renews sync.WaitGroup

	mu       sync.Mutex
	deadline time.Time // as this process counts
	until    time.Time // as the server does

	releasing sync.Mutex
	released  bool
}

func newLease(ctx context.Context, l *Locker, name, token string, g grant) *Lease {
	lease := &Lease{locker: l, name: name, token: token, fence: g.fence, deadline: g.deadline(), until: g.until}
	lease.ctx, lease.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	lease.mu.Lock() // the timer may fire at once
	defer lease.mu.Unlock()
	left := time.Until(lease.deadline)
	if left <= 0 {
		lease.cancel(ErrExpired)
	}
	lease.timer = time.AfterFunc(left, lease.expire)
	return lease
}

// deadline is until when this process may trust the answer: counted from before
// the question was sent, less a hundredth and 2 ms for clocks that run at
// different speeds and for what the server's milliseconds round off.
func (g grant) deadline() time.Time {
	return g.asked.Add(g.remaining - g.remaining/100 - 2*time.Millisecond)
}

// Name returns the lease's name.
func (l *Lease) Name() string { return l.name }

// Token returns the holder's token, with which another process may refresh and
// release the lease.
func (l *Lease) Token() string { return l.token }

// Fence returns the number of this acquisition. It is larger than that of every
// acquisition of the same name before it, and below 2^53. A resource that keeps
// the largest fence it has seen, and refuses smaller ones, is safe from a holder
// that does not know yet that it lost the lease.
func (l *Lease) Fence() int64 { return l.fence }

// Deadline returns until when the lease may be relied on, as this process
// counts: a little before the server's deadline.
func (l *Lease) Deadline() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.deadline
}

// ServerDeadline returns the deadline by the server's clock, to the millisecond:
// the very number that Redis holds. It is for people and other programs; what
// this process may rely on is [Lease.Deadline].
func (l *Lease) ServerDeadline() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.until
}

// Context returns a context that ends with the lease. Its cause is [ErrExpired]
// at the deadline, [ErrLost] when the server says that the lease is lost, and
// context.Canceled after a release.
func (l *Lease) Context() context.Context { return l.ctx }

// expire ends the lease if its deadline has come. A refresh may have moved it
// after the timer fired.
func (l *Lease) expire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if left := time.Until(l.deadline); left > 0 {
		l.timer.Reset(left)
		return
	}
	l.cancel(ErrExpired)
}

// Refresh makes the lease last for ttl from now, from [MinTTL] to [MaxTTL]; a
// deadline that is later already stays. A lease that expired even once is lost,
// and Refresh never creates one. Errors: [ErrLost], [millrace.ErrBadArgument], [millrace.ErrBroken],
// [millrace.ErrVersion].
func (l *Lease) Refresh(ctx context.Context, ttl time.Duration) error {
	if l.ctx.Err() != nil {
		return lostBy(context.Cause(l.ctx))
	}
	info, asked, err := l.locker.refresh(ctx, l.name, l.token, ttl)
	if err != nil {
		if errors.Is(err, ErrLost) {
			l.cancel(ErrLost)
		}
		return err
	}
	g := grant{asked: asked, remaining: info.Remaining}
	l.mu.Lock()
	defer l.mu.Unlock()
	if info.Deadline.After(l.until) {
		l.until = info.Deadline
	}
	if deadline := g.deadline(); deadline.After(l.deadline) {
		l.deadline = deadline
		l.timer.Reset(time.Until(deadline))
	}
	if !time.Now().Before(l.deadline) {
		l.cancel(ErrExpired)
	}
	if l.ctx.Err() != nil {
		return lostBy(context.Cause(l.ctx))
	}
	return nil
}

// lostBy returns [ErrLost] with the cause for which a lease ended.
func lostBy(cause error) error {
	if errors.Is(cause, ErrLost) {
		return cause
	}
	return ErrLost.Wrap(cause)
}

// Release ends the lease and its context. It does so even if ctx has ended, and
// then takes a second at most. Releasing again changes nothing. Errors:
// [ErrLost] when the lease had ended before, [millrace.ErrBroken], [millrace.ErrVersion]; after
// any other one the lease ends at its deadline.
func (l *Lease) Release(ctx context.Context) error {
	l.cancel(nil)
	l.timer.Stop()
	l.renews.Wait()
	l.releasing.Lock()
	defer l.releasing.Unlock()
	if l.released {
		return nil
	}
	err := l.locker.Release(ctx, l.name, l.token)
	l.released = err == nil
	return err
}

// watch renews the lease in the background until the time given, or until it
// ends. Errors are no reason to give up before the deadline.
func (l *Lease) watch(ttl time.Duration, until time.Time) {
	l.renews.Go(func() {
		pause, failures := ttl/3, 0
		for retry.Sleep(l.ctx, pause) {
			left := time.Until(until)
			if left < MinTTL {
				return
			}
			ctx, cancel := context.WithTimeout(l.ctx, max(ttl/3, MinTTL))
			err := l.Refresh(ctx, min(ttl, left))
			cancel()
			pause = ttl / 3
			if err != nil {
				failures++
				pause = min(pause, retry.Policy{}.Pause(failures))
			} else {
				failures = 0
			}
		}
	})
}

// Do runs fn while it holds the lease of that name, which it waits for until ctx
// ends and renews for as long as [Config.MaxHold]. The context of fn ends with
// ctx and with the lease; the fence is for the resource that fn works on. Do
// returns fn's error; when fn has none, but the lease ended before it did,
// [ErrLost], because somebody else may have run meanwhile. Errors of acquiring are
// those of [Locker.Acquire].
func (l *Locker) Do(ctx context.Context, name string, ttl time.Duration, fn func(ctx context.Context, fence int64) error) (err error) {
	lease, err := l.Acquire(ctx, name, ttl, Options{Wait: -1, MaxHold: l.cfg.MaxHold})
	if err != nil {
		return err
	}
	held, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(lease.ctx, func() { cancel(context.Cause(lease.ctx)) })
	defer func() { // also when fn panics
		stop()
		cancel(nil)
		lost := context.Cause(lease.ctx)
		if released := lease.Release(ctx); lost == nil && errors.Is(released, ErrLost) {
			lost = released
		}
		if err == nil && lost != nil {
			err = lostBy(lost)
		}
	}()
	return fn(held, lease.fence)
}
