package bench

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/must"
)

// The baseline of the queue is one stream with one consumer group and the same client,
// without fairness, attempts or redelivery.

const group = "group"

// stream creates a stream with a group, which is deleted at the end.
func (b *B) stream(ctx context.Context) (key string) {
	key = b.key("stream")
	b.unlinkAfter(key)
	must.Do(b.Client.Do(ctx, b.Client.B().XgroupCreate().Key(key).Group(group).Id("0").Mkstream().Build()).Error())
	return key
}

// streamCycles is queueCycles on a bare stream.
func streamCycles(size int) Measure {
	return func(ctx context.Context, b *B) float64 {
		key := b.stream(ctx)
		return float64(size) * b.Rate(ctx, Goroutines, func(ctx context.Context, _ int) error {
			if err := bareWrite(ctx, b.Client, key, size); err != nil {
				return err
			}
			n, err := bareReadAck(ctx, b.Client, key, size)
			if err == nil && n != size {
				err = fmt.Errorf("a read returned %d messages, want %d", n, size)
			}
			return err
		})
	}
}

func bareWrite(ctx context.Context, c rueidis.Client, key string, size int) error {
	adds, body := make(rueidis.Commands, size), strings.Repeat("x", BodySize)
	for i := range adds {
		adds[i] = c.B().Xadd().Key(key).Id("*").FieldValue().FieldValue("b", body).Build()
	}
	return FirstError(c.DoMulti(ctx, adds...))
}

// bareReadAck returns how many messages it read, removed and acknowledged.
func bareReadAck(ctx context.Context, c rueidis.Client, key string, size int) (int, error) {
	read, err := c.Do(ctx, c.B().Xreadgroup().Group(group, "bench").Count(int64(size)).Streams().Key(key).Id(">").Build()).AsXRead()
	if rueidis.IsRedisNil(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	ids := make([]string, len(read[key]))
	for i, entry := range read[key] {
		ids[i] = entry.ID
	}
	return len(ids), FirstError(c.DoMulti(ctx,
		c.B().Xack().Key(key).Group(group).Id(ids...).Build(),
		c.B().Xdel().Key(key).Id(ids...).Build()))
}

// streamBacklog is queueBacklog on a bare stream.
func streamBacklog(ctx context.Context, b *B) float64 {
	key, n := b.stream(ctx), max(lot, b.Scaled(backlog))
	must.Do(bareWrite(context.WithoutCancel(ctx), b.Client, key, n))
	start := time.Now()
	handled := must.Get(dealUntil(ctx, start.Add(b.Time), n, func(ctx context.Context, _ int) error {
		_, err := bareReadAck(ctx, b.Client, key, 1)
		return err
	}))
	return float64(handled) / time.Since(start).Seconds()
}
