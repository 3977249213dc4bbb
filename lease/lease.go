package lease

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/names"
	"github.com/millrace/millrace/internal/redis/retry"
)

// Lease is an acquired lease. It is safe for concurrent use. Its holder releases it or
// lets it expire. The exported fields never change.
type Lease struct {
	Name string

	// Token names the holder: with it another process may refresh and release the lease.
	Token string

	// Fence is the number of this acquisition. It is larger than that of every earlier
	// acquisition of the same name, and below 2^53. A resource that keeps the largest
	// fence and refuses smaller ones is safe from a holder that has not noticed yet that
	// it lost the lease. The exception is a server that has lost the last fence and whose
	// clock is behind; see the package.
	Fence int64

	// Until is the deadline of the acquisition by the server's clock, to the millisecond, for
	// people and other programs: this process relies on [Lease.Deadline]. After a refresh
	// [Locker.Show] has the new one.
	Until time.Time

	locker   *Locker
	acquired time.Time // by the server's clock, to the millisecond
	ctx      context.Context
	cancel   context.CancelCauseFunc
	timer    *time.Timer // cancels the context at the deadline
	renews   sync.WaitGroup

	mu       sync.Mutex
	deadline time.Time // by this process's clock

	releasing sync.Mutex
	released  bool
}

func newLease(ctx context.Context, l *Locker, r request, g grant) *Lease {
	lease := &Lease{locker: l, Name: r.name, Token: r.token, Fence: g.fence, Until: g.until, deadline: g.deadline()}
	lease.acquired = g.until.Add(-r.ttl.Truncate(time.Millisecond))
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

// deadline returns how long this process may rely on the lease: counted from before the
// request was sent, less 1% and 2 ms for clocks that run at different speeds and for the
// server's rounding to milliseconds.
func (g grant) deadline() time.Time {
	return g.asked.Add(g.remaining - g.remaining/100 - 2*time.Millisecond)
}

// Deadline returns until when this process may rely on the lease. It is a little before
// the server's deadline.
func (l *Lease) Deadline() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.deadline
}

// Context returns a context that ends with the lease. Its cause is [ErrExpired] at the
// deadline, [ErrLost] when the server reports that the lease is lost, and context.Canceled
// after a release.
func (l *Lease) Context() context.Context { return l.ctx }

// expire ends the lease unless a refresh moved the deadline after the timer fired.
func (l *Lease) expire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if left := time.Until(l.deadline); left > 0 {
		l.timer.Reset(left)
		return
	}
	l.cancel(ErrExpired)
}

// Refresh extends the lease to ttl from now, from 10 ms to 366 days; a later
// deadline stays. It never creates a lease: a lease that expired even once is lost. Errors:
// [ErrLost], [millrace.ErrBadArgument], [millrace.ErrBroken], [millrace.ErrVersion].
func (l *Lease) Refresh(ctx context.Context, ttl time.Duration) error {
	if l.ctx.Err() != nil {
		return lostBy(context.Cause(l.ctx))
	}
	info, asked, err := l.locker.refresh(ctx, l.Name, l.Token, ttl)
	if err != nil {
		if errors.Is(err, ErrLost) {
			l.cancel(ErrLost)
		}
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if deadline := (grant{asked: asked, remaining: info.Remaining}).deadline(); deadline.After(l.deadline) {
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

// Release ends the lease and its context, even if ctx has ended, within a second. A second
// call changes nothing. Errors: [ErrLost] when the lease had ended before,
// [millrace.ErrBroken], [millrace.ErrVersion]. After any other error the lease ends at its
// deadline.
func (l *Lease) Release(ctx context.Context) error {
	l.stop()
	l.releasing.Lock()
	defer l.releasing.Unlock()
	if l.released {
		return nil
	}
	err := l.locker.Release(ctx, l.Name, l.Token)
	l.released = err == nil
	return err
}

// stop ends the context and the watchdog.
func (l *Lease) stop() {
	l.cancel(nil)
	l.timer.Stop()
	l.renews.Wait()
}

// renew is the watchdog: it refreshes the lease in the background until the given time,
// or until the lease ends. It ignores errors until the deadline.
func (l *Lease) renew(ttl time.Duration, until time.Time) {
	l.renews.Go(func() {
		pause, failures := ttl/3, 0
		for retry.Sleep(l.ctx, pause) {
			left := time.Until(until)
			if left < names.MinLeaseTTL {
				return
			}
			ctx, cancel := context.WithTimeout(l.ctx, max(ttl/3, names.MinLeaseTTL))
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
