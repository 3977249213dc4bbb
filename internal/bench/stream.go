package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// What the queue is measured against: one stream and one consumer group, with the
// same client, and nothing that makes it fair, remembers a try or looks after
// messages that are not acknowledged.

const group = "group"

// onStream measures on a stream with a group, and deletes it.
func onStream(measure Measure) Measure {
	return func(ctx context.Context, p Place) (value float64, err error) {
		defer func() { err = errors.Join(err, p.cleanUp(ctx, p.unlink(streamKey(p)))) }()
		create := p.Client.B().XgroupCreate().Key(streamKey(p)).Group(group).Id("0").Mkstream().Build()
		if err := p.Client.Do(ctx, create).Error(); err != nil {
			return 0, err
		}
		return measure(ctx, p)
	}
}

func streamKey(p Place) string { return p.key("stream") }

// bareCycles is queueCycles on a bare stream.
func bareCycles(size int) Measure {
	return func(ctx context.Context, p Place) (float64, error) {
		return barely(ctx, p, size, func(int) rueidis.Client { return p.Client })
	}
}

// bareClients is queueClients on a bare stream.
func bareClients(ctx context.Context, p Place) (float64, error) {
	clients, done, err := p.clients()
	if err != nil {
		return 0, err
	}
	defer done()
	return barely(ctx, p, 1, func(goroutine int) rueidis.Client { return clients[goroutine] })
}

// barely is cycles on a bare stream.
func barely(ctx context.Context, p Place, size int, of func(goroutine int) rueidis.Client) (float64, error) {
	body := strings.Repeat("x", BodySize)
	rate, err := p.Rate(ctx, func(ctx context.Context, goroutine int) error {
		c, key := of(goroutine), streamKey(p)
		if err := bareWrite(ctx, c, key, size, body); err != nil {
			return err
		}
		n, err := bareReadAck(ctx, c, key, size)
		if err == nil && n != size {
			err = fmt.Errorf("a read brought %d messages, want %d", n, size)
		}
		return err
	})
	return rate * float64(size), err
}

func bareWrite(ctx context.Context, c rueidis.Client, key string, size int, body string) error {
	adds := make(rueidis.Commands, size)
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

// bareBacklog is queueBacklog on a bare stream.
func bareBacklog(ctx context.Context, p Place) (float64, error) {
	n := max(lot, p.Scaled(backlog))
	if err := bareWrite(context.WithoutCancel(ctx), p.Client, streamKey(p), n, strings.Repeat("x", BodySize)); err != nil {
		return 0, err
	}
	start := time.Now()
	handled, err := dealUntil(ctx, start.Add(p.Time), n, func(ctx context.Context, _ int) error {
		_, err := bareReadAck(ctx, p.Client, streamKey(p), 1)
		return err
	})
	return float64(handled) / time.Since(start).Seconds(), err
}
