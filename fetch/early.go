package fetch

import (
	"context"
	"math"
	"time"
)

// drawn reports whether a reader of a fresh value is drawn to have it computed anew before
// it is old, by Vattani, Chierichetti and Lowenstein, "Optimal Probabilistic Cache Stampede
// Prevention" (2015): the nearer the end and the longer the last load took, the likelier.
// In the first half of a value's time nobody is.
func (c *Cache) drawn(e entry) bool {
	left := e.left - e.stale
	if c.cfg.Early <= 0 || e.cost <= 0 || left > e.ttl/2 || e.paused() {
		return false
	}
	return float64(left) <= -float64(e.cost)*c.cfg.Early*math.Log(1-c.random())
}

// renewBeside has a value that is fresh computed anew, for which nobody waits.
func (c *Cache) refreshEarly(ctx context.Context, r request, found entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.flights[r.key] == nil {
		c.early.Add(1)
		c.start(ctx, r, found, false)
	}
}

// jittered returns for how long a value is fresh: a little less than TTL, so that those
// that were stored together are not computed together again.
func (c *Cache) jittered() time.Duration {
	ttl := c.cfg.TTL
	if c.cfg.Jitter > 0 {
		ttl -= time.Duration(float64(ttl) * c.cfg.Jitter * c.random())
	}
	return max(ttl.Truncate(time.Millisecond), time.Millisecond)
}

// stopwatch returns how long ago it was started.
func stopwatch() func() time.Duration {
	began := time.Now()
	return func() time.Duration { return time.Since(began) }
}
