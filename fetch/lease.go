package fetch

import (
	"context"
	"errors"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/lease"
	"github.com/millrace/millrace/pinned"
)

// errThere ends the wait for a lease when the value is there.
var errThere = errors.New("the value is there")

// acquire takes the lease of a key, and renews it for as long as a load may take. Unless is called
// after each wake-up of a waiter. The error is lease.ErrHeld if another process keeps the lease
// for longer than wait, or that of unless.
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

// store stores an entry for a lifetime, or removes the key for a lifetime of 0. It stores nothing
// if the lease is lost, because another process may have computed a newer value. It reports
// whether something may have been stored.
func (c *Cache) store(ctx context.Context, key string, held *lease.Lease, e entry, lifetime time.Duration) bool {
	storing, cancel := context.WithTimeout(held.Context(), c.timeout)
	defer cancel()
	if storing.Err() != nil {
		c.cfg.Logger.WarnContext(ctx, "a computation lost its lease, and its value is not stored", "key", key, "error", context.Cause(storing))
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

// release releases the lease, and reports whether it was kept. If it was lost, it removes what was
// stored, which may have replaced a newer value.
func (c *Cache) release(ctx context.Context, key string, held *lease.Lease, stored bool) bool {
	err := held.Release(ctx)
	lost := errors.Is(err, lease.ErrLost)
	if !stored || !lost {
		return !lost // after any other error the lease ends at its deadline
	}
	c.cfg.Logger.WarnContext(ctx, "a computation lost its lease while its value was stored, and removes the value", "key", key)
	deleting, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	if _, err := c.keys.Remove(deleting, key); err != nil {
		c.trouble(ctx, key, err)
	}
	return false
}

// revoke takes the lease of a key from its holder and releases it. It acquires the lease once
// more, because the last token that released a lease may release it again without an error, and
// the holder must get one.
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
	case errors.Is(err, lease.ErrHeld), // by a holder that began after this
		errors.Is(err, millrace.ErrFull): // then the old holder stores nothing either
		return nil
	case err != nil:
		return err
	}
	if err := held.Release(ctx); err != nil && !errors.Is(err, lease.ErrLost) {
		return err
	}
	return nil
}
