package fetch

import (
	"context"
	"errors"
	"time"

	"github.com/millrace/millrace/lease"
	"github.com/millrace/millrace/pinned"
)

// errThere ends the wait for a lease when the value exists.
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

// claim claims a key for [Cache.store] and looks at it, in one call.
func (c *Cache) claim(ctx context.Context, key string, accept func(payload []byte) error) (claim string, e entry, err error) {
	if !c.outage.asks(key) {
		return "", entry{}, errSkipped
	}
	asking, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	claim, stored, left, err := c.keys.Claim(asking, key, c.cfg.Timeout+c.hold)
	if err != nil {
		if ctx.Err() == nil {
			c.trouble(ctx, key, err)
		}
		return "", entry{}, err
	}
	c.answered(ctx, key)
	if stored == nil {
		return claim, entry{}, nil
	}
	return claim, c.read(ctx, key, stored, left, accept), nil
}

// store stores an entry for a lifetime, or removes the key for a lifetime of 0. Redis refuses it
// if the key was forgotten since it was claimed, or claimed by another process, which computes a
// newer value. It reports whether it was refused.
func (c *Cache) store(ctx context.Context, key, claim string, e entry, lifetime time.Duration) (refused bool) {
	storing, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	stored := true
	var err error
	if lifetime == 0 {
		_, err = c.keys.Remove(storing, key)
	} else {
		stored, err = c.keys.Set(storing, key, e.seal(), lifetime, pinned.SetConfig{Claim: claim})
	}
	switch {
	case err != nil:
		c.trouble(ctx, key, err)
		return false
	case !stored:
		c.cfg.Logger.DebugContext(ctx, "a key was forgotten, or claimed by another process, while its value was computed, which is not stored", "key", key)
	}
	c.full.Store(false)
	return !stored
}

// revoke releases the lease of a key for any holder, so that the next caller need not wait for
// the holder. It is best effort.
func (c *Cache) revoke(ctx context.Context, key string) {
	revoking, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	info, err := c.leases.Show(revoking, c.leaseName(key))
	if err == nil && info.Held {
		err = c.leases.Release(revoking, c.leaseName(key), info.Token)
	}
	if err != nil && !errors.Is(err, lease.ErrLost) && ctx.Err() == nil {
		c.leaseTrouble(ctx, key, err)
	}
}
