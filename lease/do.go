package lease

import (
	"cmp"
	"context"
	"errors"
	"time"
)

// Do runs fn while it holds the lease of that name: ran reports that it called fn. If another holder
// has the lease for longer than the Wait of cfg, by default not at all, it returns [ErrHeld], see
// [Holder]. It renews the lease for up to the MaxHold of cfg, or else of [Config]. The context
// of fn ends with ctx and with the lease; the fence is for the resource that fn works on. Do returns
// fn's error, or [ErrLost] when the lease ended before fn did and fn has no error: another holder
// may have run meanwhile. Other errors are those of [Locker.Acquire].
func (l *Locker) Do(
	ctx context.Context, name string, ttl time.Duration, cfg AcquireConfig, fn func(ctx context.Context, fence int64) error,
) (ran bool, err error) {
	cfg.MaxHold = cmp.Or(cfg.MaxHold, l.cfg.MaxHold, l.hold)
	lease, err := l.Acquire(ctx, name, ttl, cfg)
	if err != nil {
		return false, err
	}
	defer func() { err = lease.end(ctx, err) }() // also when fn panics
	return true, lease.call(ctx, fn)
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
