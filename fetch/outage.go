package fetch

import (
	"context"
	"errors"
	"hash/crc32"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/redis/shards"
)

// askAgain is the interval at which one caller asks Redis during an outage.
const askAgain = time.Second

// errSkipped means that Redis did not answer a moment ago and was not asked.
var errSkipped = errors.New("redis does not answer")

// outage records which servers do not answer: on a Cluster for each shard of the namespace,
// assuming the default number, otherwise for all together.
type outage struct {
	epoch time.Time
	next  []atomic.Int64 // the next time to ask, in nanoseconds since epoch; 0 while it answers
	out   atomic.Int64   // how many do not answer
}

func newOutage(client rueidis.Client) *outage {
	places := 1
	if client.Mode() == rueidis.ClientModeCluster {
		places = shards.Default
	}
	return &outage{epoch: time.Now(), next: make([]atomic.Int64, places)}
}

func (o *outage) place(key string) *atomic.Int64 {
	return &o.next[crc32.ChecksumIEEE([]byte(key))%uint32(len(o.next))]
}

// away reports whether the shard did not answer when it was last asked.
func (o *outage) away(key string) bool { return o.place(key).Load() != 0 }

// asks reports whether to ask Redis for a key now.
func (o *outage) asks(key string) bool {
	place := o.place(key)
	next := place.Load()
	now := int64(time.Since(o.epoch))
	return next == 0 || now >= next && place.CompareAndSwap(next, now+int64(askAgain))
}

func (c *Cache) probe(ctx context.Context, r request) {
	if !c.outage.asks(r.key) {
		return
	}
	ctx = context.WithoutCancel(ctx)
	go func() { _, _ = c.ask(ctx, r.key, r.check) }()
}

// trouble records and logs an error of Redis: an outage and a full server once when they begin,
// other errors each time.
func (c *Cache) trouble(ctx context.Context, key string, err error) {
	o := c.outage
	switch {
	case errors.Is(err, millrace.ErrFull):
		if !c.full.Swap(true) {
			c.cfg.Logger.WarnContext(ctx, "redis is full: computed values are not stored", "error", err)
		}
	case !unanswered(err):
		c.cfg.Logger.WarnContext(ctx, "the cache cannot be used: a computed value is not stored", "error", err)
	case o.place(key).Swap(int64(time.Since(o.epoch)+askAgain)) == 0 && o.out.Add(1) == 1:
		c.cfg.Logger.WarnContext(ctx, "redis does not answer: computed values are not stored", "error", err)
	}
}

// leaseTrouble is trouble for the lease of a key. On a Cluster it may be on another server than
// the value.
func (c *Cache) leaseTrouble(ctx context.Context, key string, err error) {
	if unanswered(err) && len(c.outage.next) > 1 {
		c.cfg.Logger.DebugContext(ctx, "the server of a lease does not answer: a computed value is not stored", "key", key, "error", err)
		return
	}
	c.trouble(ctx, key, err)
}

// stopwatch returns a function that returns the time since its start.
func stopwatch() func() time.Duration {
	began := time.Now()
	return func() time.Duration { return time.Since(began) }
}

func (c *Cache) answered(ctx context.Context, key string) {
	place := c.outage.place(key)
	if place.Load() != 0 && place.Swap(0) != 0 && c.outage.out.Add(-1) == 0 {
		c.cfg.Logger.InfoContext(ctx, "redis answers again")
	}
}

// unanswered reports whether an error means that Redis is unavailable.
func unanswered(err error) bool {
	if reply, ok := errors.AsType[*rueidis.RedisError](err); ok {
		return retry.Transient(reply)
	}
	return retry.NoAnswer(err)
}
