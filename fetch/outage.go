package fetch

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/retry"
)

// askAgain is how often Redis is asked while it does not answer, by one caller.
const askAgain = time.Second

// errSkipped means that Redis did not answer a moment ago and was not asked.
var errSkipped = errors.New("redis does not answer")

// outage is what is known of whether Redis answers.
type outage struct {
	epoch time.Time
	next  atomic.Int64 // when it is asked next, in nanoseconds since epoch; 0 while it answers
}

// asks reports whether to ask Redis now. While it does not answer, one caller a
// second does.
func (o *outage) asks() bool {
	next := o.next.Load()
	now := int64(time.Since(o.epoch))
	return next == 0 || now >= next && o.next.CompareAndSwap(next, now+int64(askAgain))
}

// began notes that Redis did not answer and reports whether it did before.
func (o *outage) began() bool { return o.next.Swap(int64(time.Since(o.epoch)+askAgain)) == 0 }

// ended notes that Redis answered and reports whether it did not before.
func (o *outage) ended() bool { return o.next.Load() != 0 && o.next.Swap(0) != 0 }

// trouble logs that Redis does not answer, or is full, when that begins, and any
// other trouble each time.
func (c *Cache) trouble(ctx context.Context, err error) {
	switch {
	case errors.Is(err, millrace.ErrFull):
		if !c.full.Swap(true) {
			c.cfg.Logger.WarnContext(ctx, "redis is full: values are computed and not kept", "error", err)
		}
	case !unanswered(err):
		c.cfg.Logger.WarnContext(ctx, "the cache cannot be used: a value is computed and not kept", "error", err)
	case c.outage.began():
		c.cfg.Logger.WarnContext(ctx, "redis does not answer: values are computed and not kept", "error", err)
	}
}

// answered notes that Redis answers.
func (c *Cache) answered(ctx context.Context) {
	if c.outage.ended() {
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
