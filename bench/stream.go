package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// What the queue is measured against: one stream and one consumer group, with the
// same client, and nothing that makes it fair, remembers a try or looks after
// messages that are not acknowledged.
const (
	stream = "stream"
	group  = "group"
)

func freshStream(ctx context.Context, s setup) error {
	if err := empty(ctx, s); err != nil {
		return err
	}
	return s.client.Do(ctx, s.client.B().XgroupCreate().Key(stream).Group(group).Id("0").Mkstream().Build()).Error()
}

// bareCycles is queueCycles on a bare stream.
func bareCycles(size int) func(context.Context, setup) (float64, error) {
	body := strings.Repeat("x", bodySize)
	return func(ctx context.Context, s setup) (float64, error) {
		if err := freshStream(ctx, s); err != nil {
			return 0, err
		}
		cycles, err := concurrently(s, func(int) error {
			if err := bareWrite(ctx, s, size, body); err != nil {
				return err
			}
			n, err := bareReadAck(ctx, s, size)
			if err == nil && n != size {
				err = fmt.Errorf("a read brought %d messages, want %d", n, size)
			}
			return err
		})
		return cycles * float64(size), err
	}
}

func bareWrite(ctx context.Context, s setup, size int, body string) error {
	adds := make([]rueidis.Completed, size)
	for i := range adds {
		adds[i] = s.client.B().Xadd().Key(stream).Id("*").FieldValue().FieldValue("b", body).Build()
	}
	return firstError(s.client.DoMulti(ctx, adds...))
}

// bareReadAck returns how many messages it read, removed and acknowledged.
func bareReadAck(ctx context.Context, s setup, size int) (int, error) {
	c := s.client
	read, err := c.Do(ctx, c.B().Xreadgroup().Group(group, "bench").Count(int64(size)).Streams().Key(stream).Id(">").Build()).AsXRead()
	if rueidis.IsRedisNil(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	ids := make([]string, len(read[stream]))
	for i, entry := range read[stream] {
		ids[i] = entry.ID
	}
	return len(ids), firstError(c.DoMulti(ctx,
		c.B().Xack().Key(stream).Group(group).Id(ids...).Build(),
		c.B().Xdel().Key(stream).Id(ids...).Build()))
}

// bareBacklog is queueBacklog on a bare stream.
func bareBacklog(ctx context.Context, s setup) (float64, error) {
	if err := freshStream(ctx, s); err != nil {
		return 0, err
	}
	n := backlog(s)
	if err := bareWrite(ctx, s, n, strings.Repeat("x", bodySize)); err != nil {
		return 0, err
	}
	var left atomic.Int64
	left.Store(int64(n))
	start := time.Now()
	err := each(func() error {
		for left.Add(-1) >= 0 {
			if _, err := bareReadAck(ctx, s, 1); err != nil {
				return err
			}
		}
		return nil
	})
	return float64(n) / time.Since(start).Seconds(), err
}

func firstError(results []rueidis.RedisResult) error {
	i := slices.IndexFunc(results, func(r rueidis.RedisResult) bool { return r.Error() != nil })
	if i < 0 {
		return nil
	}
	return results[i].Error()
}
