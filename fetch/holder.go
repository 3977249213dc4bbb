package fetch

import (
	"context"
	"errors"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/expiry"
	"github.com/millrace/millrace/lease"
)

// hire takes the lease for the computation of a key, which is renewed for as long
// as that may take. The error is lease.ErrHeld when somebody else has it and keeps
// it for longer than wait.
func (c *Cache) hire(ctx context.Context, key string, wait time.Duration) (*lease.Lease, error) {
	asking, cancel := context.WithTimeout(ctx, wait+c.patience)
	defer cancel()
	held, err := c.leases.Acquire(asking, c.leaseName(key), c.hold, lease.Options{
		Wait: wait, MaxHold: c.cfg.Timeout + c.hold, Metadata: c.holder,
	})
	if err != nil && !errors.Is(err, lease.ErrHeld) && ctx.Err() == nil {
		c.leaseTrouble(ctx, key, err)
	}
	return held, err
}

// store keeps what was computed, unless the lease is lost: then somebody else may
// have computed since, from what is newer. It reports whether something may have
// been stored. That there is none is kept only if it has a time; without one, what
// was there must go.
func (c *Cache) store(ctx context.Context, key string, held *lease.Lease, e entry) bool {
	storing, cancel := context.WithTimeout(held.Context(), c.patience)
	defer cancel()
	if storing.Err() != nil {
		c.cfg.Logger.WarnContext(ctx, "a computation lost its lease and is not kept", "key", key, "error", context.Cause(storing))
		return false
	}
	var err error
	if e.lifetime() == 0 {
		_, err = c.keys.Delete(storing, key)
	} else {
		_, err = c.keys.Set(storing, key, e.seal(), e.lifetime(), expiry.SetKeyConfig{})
	}
	if err != nil {
		c.trouble(ctx, key, err)
	} else {
		c.full.Store(false)
	}
	return true
}

// retire gives the lease back. If it was lost meanwhile, what was stored under it
// may have replaced what is newer, and goes.
func (c *Cache) retire(ctx context.Context, key string, held *lease.Lease, stored bool) {
	err := held.Release(ctx)
	if !stored || !errors.Is(err, lease.ErrLost) {
		return // on any other error the lease ends at its deadline
	}
	c.cfg.Logger.WarnContext(ctx, "a computation lost its lease while it was stored, and is taken back", "key", key)
	deleting, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	if _, err := c.keys.Delete(deleting, key); err != nil {
		c.trouble(ctx, key, err)
	}
}

// depose takes the lease from whoever computes a key, and away: the last one to
// release a lease is not told of a loss, so that must not be the one deposed.
func (c *Cache) depose(ctx context.Context, key string) error {
	name := c.leaseName(key)
	info, err := c.leases.Show(ctx, name)
	if err != nil || !info.Held {
		return err
	}
	if err := c.leases.Release(ctx, name, info.Token); err != nil && !errors.Is(err, lease.ErrLost) {
		return err
	}
	held, err := c.leases.Acquire(ctx, name, c.hold, lease.Options{Metadata: c.holder})
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
