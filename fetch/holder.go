package fetch

import (
	"context"
	"errors"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/lease"
	"github.com/millrace/millrace/pinned"
)

// errThere means that what a flight waits for is there.
var errThere = errors.New("the value is there")

// hire takes the lease for the computation of a key, which is renewed for as long
// as that may take. The error is lease.ErrHeld when somebody else has it and keeps
// it for longer than wait, and what unless returns, which is called each time that one who
// waits is woken.
func (c *Cache) acquire(ctx context.Context, key string, wait time.Duration, unless func(context.Context) error) (*lease.Lease, error) {
	asking, cancel := context.WithTimeout(ctx, wait+c.timeout)
	defer cancel()
	held, err := c.leases.Acquire(asking, c.leaseName(key), c.hold, lease.AcquireConfig{
		Wait: wait, MaxHold: c.cfg.Timeout + c.hold, Metadata: c.holder, Unless: unless,
	})
	for _, none := range []error{nil, lease.ErrHeld, lease.ErrExpired, errThere, errSkipped} {
		if errors.Is(err, none) {
			return held, err
		}
	}
	if ctx.Err() == nil {
		c.leaseTrouble(ctx, key, err)
	}
	return held, err
}

// store keeps an entry for so long, unless the lease is lost: then somebody else may
// have computed since, from what is newer. It reports whether something may have
// been stored. That there is none is kept only if it has a time; without one, what
// was there must go.
func (c *Cache) store(ctx context.Context, key string, held *lease.Lease, e entry, lifetime time.Duration) bool {
	storing, cancel := context.WithTimeout(held.Context(), c.timeout)
	defer cancel()
	if storing.Err() != nil {
		c.cfg.Logger.WarnContext(ctx, "a computation lost its lease and is not kept", "key", key, "error", context.Cause(storing))
		return false
	}
	var err error
	if lifetime == 0 {
		_, err = c.keys.Remove(storing, key)
	} else {
		_, err = c.keys.Set(storing, key, e.seal(), lifetime, pinned.SetConfig{})
	}
	if err != nil {
		c.trouble(ctx, key, err)
	} else {
		c.full.Store(false)
	}
	return true
}

// retire gives the lease back. If it was lost meanwhile, what was stored under it
// may have replaced what is newer, and goes. It reports whether the lease was kept.
func (c *Cache) release(ctx context.Context, key string, held *lease.Lease, stored bool) bool {
	err := held.Release(ctx)
	lost := errors.Is(err, lease.ErrLost)
	if !stored || !lost {
		return !lost // on any other error the lease ends at its deadline
	}
	c.cfg.Logger.WarnContext(ctx, "a computation lost its lease while it was stored, and is taken back", "key", key)
	deleting, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	if _, err := c.keys.Remove(deleting, key); err != nil {
		c.trouble(ctx, key, err)
	}
	return false
}

// depose takes the lease from whoever computes a key, and away: the last one to
// release a lease is not told of a loss, so that must not be the one deposed.
func (c *Cache) revoke(ctx context.Context, key string) error {
	name := c.leaseName(key)
	info, err := c.leases.Show(ctx, name)
	if err != nil || !info.Held {
		return err
	}
	if err := c.leases.Release(ctx, name, info.Token); err != nil && !errors.Is(err, lease.ErrLost) {
		return err
	}
	held, err := c.leases.Acquire(ctx, name, c.hold, lease.AcquireConfig{Metadata: c.holder})
	switch {
	case errors.Is(err, lease.ErrHeld): // by one who began after this
		return nil
	case errors.Is(err, millrace.ErrFull): // then the deposed stores nothing either
		return nil
	case err != nil:
		return err
	}
	if err := held.Release(ctx); err != nil && !errors.Is(err, lease.ErrLost) {
		return err
	}
	return nil
}
