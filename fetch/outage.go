package fetch

import (
	"context"
	"errors"
	"hash/crc32"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/retry"
	"github.com/millrace/millrace/internal/shards"
)

// askAgain is how often Redis is asked while it does not answer, by one caller.
const askAgain = time.Second

// errSkipped means that Redis did not answer a moment ago and was not asked.
var errSkipped = errors.New("redis does not answer")

// outage is what is known of whether Redis answers, for each place in which values
// lie. On a Cluster that is each shard of the namespace, which has as many as one has
// by default: a server that is silent is no outage of the others.
type outage struct {
	epoch time.Time
	next  []atomic.Int64 // when it is asked next, in nanoseconds since epoch; 0 while it answers
	out   atomic.Int64   // how many places do not answer
}

func newOutage(client rueidis.Client) *outage {
	places := 1
	if client.Mode() == rueidis.ClientModeCluster {
		places = shards.Default
	}
	return &outage{epoch: time.Now(), next: make([]atomic.Int64, places)}
}

// place returns what is known of the place of a key's value.
func (o *outage) place(key string) *atomic.Int64 {
	return &o.next[crc32.ChecksumIEEE([]byte(key))%uint32(len(o.next))]
}

// away reports whether the place of a key did not answer when it was last asked.
func (o *outage) away(key string) bool { return o.place(key).Load() != 0 }

// asks reports whether to ask Redis for a key now. While the place does not answer,
// one caller a second does.
func (o *outage) asks(key string) bool {
	place := o.place(key)
	next := place.Load()
	now := int64(time.Since(o.epoch))
	return next == 0 || now >= next && place.CompareAndSwap(next, now+int64(askAgain))
}

// began notes that the place of a key did not answer and reports whether all did
// before.
func (o *outage) began(key string) bool {
	return o.place(key).Swap(int64(time.Since(o.epoch)+askAgain)) == 0 && o.out.Add(1) == 1
}

// ended notes that the place of a key answered and reports whether it was the last
// that did not.
func (o *outage) ended(key string) bool {
	place := o.place(key)
	return place.Load() != 0 && place.Swap(0) != 0 && o.out.Add(-1) == 0
}

// probe asks whether Redis answers again, beside a caller that need not wait for it.
func (c *Cache) probe(ctx context.Context, r request) {
	if !c.outage.asks(r.key) {
		return
	}
	ctx = context.WithoutCancel(ctx)
	go func() { _, _ = c.ask(ctx, r.key, r.check) }()
}

// trouble logs that Redis does not answer, or is full, when that begins, and any
// other trouble each time.
func (c *Cache) trouble(ctx context.Context, key string, err error) {
	switch {
	case errors.Is(err, millrace.ErrFull):
		if !c.full.Swap(true) {
			c.cfg.Logger.WarnContext(ctx, "redis is full: values are computed and not kept", "error", err)
		}
	case !unanswered(err):
		c.cfg.Logger.WarnContext(ctx, "the cache cannot be used: a value is computed and not kept", "error", err)
	case c.outage.began(key):
		c.cfg.Logger.WarnContext(ctx, "redis does not answer: values are computed and not kept", "error", err)
	}
}

// leaseTrouble is trouble with the lease for a key. On a Cluster that may lie on
// another server than the value: that it does not answer says nothing of others.
func (c *Cache) leaseTrouble(ctx context.Context, key string, err error) {
	if unanswered(err) && len(c.outage.next) > 1 {
		c.cfg.Logger.DebugContext(ctx, "a lease does not answer: a value is computed and not kept", "key", key, "error", err)
		return
	}
	c.trouble(ctx, key, err)
}

// answered notes that Redis answers.
func (c *Cache) answered(ctx context.Context, key string) {
	if c.outage.ended(key) {
		c.cfg.Logger.InfoContext(ctx, "redis answers again")
	}
}

// unanswered reports whether an error says that Redis is out of reach, and nothing
// about what it was asked.
func unanswered(err error) bool {
	if reply, ok := errors.AsType[*rueidis.RedisError](err); ok {
		return retry.Transient(reply)
	}
	return millrace.Code(err) == ""
}
