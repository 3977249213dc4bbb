package demo

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/expiry"
	"github.com/millrace/millrace/internal/script"
)

// drift is the part of a time by which two clocks may come apart meanwhile: those
// that are kept in step are steered by at most this much.
const drift = 1.0 / 2000

// serverClock knows within which bounds the time of a shard's server lies, without
// asking for it at every read. On a cluster each shard may lie on another server.
type serverClock struct {
	name    string
	scripts script.Runner
	told    [expiry.DefaultShards]atomic.Pointer[told]
	next    int // the shard whose turn it is to be asked again
}

// told is what a server said of its time, and between when, by our own clock.
type told struct {
	time            time.Time
	asked, answered time.Time
}

func newServerClock(client rueidis.Client, name string) *serverClock {
	return &serverClock{name: name, scripts: script.Runner{Client: client, Scripts: library}}
}

// ask asks about all shards. It comes before everything else.
func (c *serverClock) ask(ctx context.Context) error {
	for range c.told {
		if err := c.tick(ctx); err != nil {
			return err
		}
	}
	return nil
}

// tick asks about the shard whose turn it is. Only one goroutine may call it.
func (c *serverClock) tick(ctx context.Context) error {
	shard := c.next % len(c.told)
	c.next++
	reply, err := c.scripts.Run(ctx, "expiry_clock", shardKey(c.name, shard))
	if err != nil {
		return err
	}
	t := &told{time: time.Unix(reply.Int(), reply.Int()*1000), asked: reply.Asked, answered: time.Now()}
	if reply.Err() == nil {
		c.told[shard].Store(t)
	}
	return reply.Err()
}

// bounds returns the earliest and the latest time that it may be for a shard's
// server at a moment of our own.
func (c *serverClock) bounds(shard int, moment time.Time) (earliest, latest time.Time) {
	t := c.told[shard].Load()
	off := time.Duration(drift * float64(moment.Sub(t.asked).Abs()))
	return t.time.Add(moment.Sub(t.answered) - off), t.time.Add(moment.Sub(t.asked) + off + time.Microsecond)
}

// span is bounds over all shards.
func (c *serverClock) span(moment time.Time) (earliest, latest time.Time) {
	earliest, latest = c.bounds(0, moment)
	for shard := 1; shard < len(c.told); shard++ {
		first, last := c.bounds(shard, moment)
		if first.Before(earliest) {
			earliest = first
		}
		if last.After(latest) {
			latest = last
		}
	}
	return earliest, latest
}
