package lease

import (
	"cmp"
	"context"
	"errors"
	"time"
)

// Do runs fn while it holds the lease of that name. It waits for the lease until ctx ends,
// and renews it for up to [Config.MaxHold]. The context of fn ends with ctx and with the
// lease; the fence is for the resource that fn works on. Do returns fn's error, or
// [ErrLost] when the lease ended before fn did and fn has no error: another holder may have
// run meanwhile. Other errors are those of [Locker.Acquire].
func (l *Locker) Do(ctx context.Context, name string, ttl time.Duration, fn func(ctx context.Context, fence int64) error) error {
	lease, err := l.Acquire(ctx, name, ttl, AcquireConfig{Wait: -1, MaxHold: cmp.Or(l.cfg.MaxHold, l.hold)})
	if err != nil {
		return err
	}
	return lease.do(ctx, fn)
}

// TryDo is [Locker.Do] without waiting: when another holder has the lease it returns false
// and [ErrHeld] as a [*HeldError]. It returns true if fn was called.
func (l *Locker) TryDo(ctx context.Context, name string, ttl time.Duration, fn func(ctx context.Context, fence int64) error) (ran bool, err error) {
	lease, err := l.Acquire(ctx, name, ttl, AcquireConfig{MaxHold: cmp.Or(l.cfg.MaxHold, l.hold)})
	if err != nil {
		return false, err
	}
	return true, lease.do(ctx, fn)
}

// do runs fn and releases the lease, also when fn panics.
func (l *Lease) do(ctx context.Context, fn func(context.Context, int64) error) (err error) {
	defer func() { err = l.end(ctx, err) }()
	return l.call(ctx, fn)
}

// call runs fn under a context that ends with ctx and with the lease.
func (l *Lease) call(ctx context.Context, fn func(context.Context, int64) error) error {
	held, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(l.ctx, func() { cancel(context.Cause(l.ctx)) })()
	return fn(held, l.Fence)
}

// end releases the lease. It returns err, or ErrLost if there is none and the lease had ended.
func (l *Lease) end(ctx context.Context, err error) error {
	lost := context.Cause(l.ctx)
	if released := l.Release(ctx); lost == nil && errors.Is(released, ErrLost) {
		lost = released
	}
	if err == nil && lost != nil {
		err = lostBy(lost)
	}
	return err
}
