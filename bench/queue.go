package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/fairqueue"
)

const (
	tenants  = 100 // that messages are written for
	bodySize = 100 // of a message, in bytes
	lot      = 100 // messages in a call, in the rows of batches

	waiting = 20_000 // messages in a backlog for each second that a side runs
)

func queueRows() []row {
	return []row{
		{name: "fairqueue write, read, ack one by one, 50 goroutines", unit: "messages/s", sides: []side{
			{name: "fairqueue", figure: queueCycles(1)},
			{name: "bare stream", goal: "at least 0.6", figure: bareCycles(1)},
			{name: "asynq, processing alone", goal: "at least 2", figure: asynqBacklog},
		}},
		{name: "fairqueue write, read, ack in batches of 100, 50 goroutines", unit: "messages/s", sides: []side{
			{name: "fairqueue", figure: queueCycles(lot)},
			{name: "bare stream", goal: "at least 0.6", figure: bareCycles(lot)},
			{name: "asynq, processing alone", goal: "at least 5", figure: asynqBacklog},
		}},
		{name: "fairqueue consume a backlog, 50 handlers", unit: "messages/s", sides: []side{
			{name: "fairqueue", figure: queueBacklog},
			{name: "bare stream", figure: bareBacklog},
			{name: "asynq", figure: asynqBacklog},
		}},
		{name: "fairqueue pickup by an idle reader, median", unit: "us", sides: []side{
			{name: "fairqueue", figure: pickup(queuePickups, 50, time.Microsecond)},
			{name: "bare BLPOP", goal: "at most 3", figure: pickup(barePickups, 50, time.Microsecond)},
		}},
		{name: "fairqueue pickup by an idle reader, p99", unit: "ms", sides: []side{
			{name: "fairqueue", figure: pickup(queuePickups, 99, time.Millisecond)},
			{name: "bare BLPOP", goal: "at most 10 ms", figure: pickup(barePickups, 99, time.Millisecond)},
		}},
		{name: "fairqueue last of 60 quiet tenants behind 3000", unit: "messages read", sides: []side{
			{name: "64 streams, 4 a tenant", figure: lastQuiet(fairqueue.Config{})},
			{name: "one stream", goal: "at most 70", figure: lastQuiet(fairqueue.Config{Streams: 1})},
		}},
		{name: "fairqueue memory when all is acked", unit: "kB", sides: []side{
			{name: "after four cycles", figure: memoryAfter(4)},
			{name: "after one", goal: "at most 1.05", figure: memoryAfter(1)},
		}},
		{name: "fairqueue idle cost of 50 readers", unit: "commands/s", sides: []side{
			{name: "fairqueue", figure: queueIdle},
			{name: "BLPOP of a second", goal: "at most 2 commands/s", figure: bareIdle},
		}},
	}
}

// freshQueue empties the server and returns a queue on it.
func freshQueue(ctx context.Context, s setup, cfg fairqueue.Config) (*fairqueue.Queue, error) {
	if err := empty(ctx, s); err != nil {
		return nil, err
	}
	return fairqueue.New(s.client, "bench", cfg)
}

// drafts returns n messages, for all tenants in turn.
func drafts(n int) []fairqueue.Draft {
	list := make([]fairqueue.Draft, n)
	for i := range list {
		list[i] = fairqueue.Draft{Tenant: "tenant:" + strconv.Itoa(i%tenants), Body: make([]byte, bodySize)}
	}
	return list
}

// receipts returns what acknowledges messages.
func receipts(messages []fairqueue.Message) []string {
	list := make([]string, len(messages))
	for i, m := range messages {
		list[i] = m.Receipt
	}
	return list
}

// queueCycles has each goroutine write, read and acknowledge size messages, again
// and again, so that little more than what is under way lies in the queue. It
// returns messages a second.
func queueCycles(size int) func(context.Context, setup) (float64, error) {
	return func(ctx context.Context, s setup) (float64, error) {
		q, err := freshQueue(ctx, s, fairqueue.Config{})
		if err != nil {
			return 0, err
		}
		all := drafts(tenants + size)
		var turn atomic.Int64
		cycles, err := concurrently(s, func(int) error {
			first := int(turn.Add(1)) % tenants
			if _, err := q.WriteBatch(ctx, all[first:first+size]...); err != nil {
				return err
			}
			messages, err := q.Read(ctx, fairqueue.ReadConfig{Max: size})
			if err != nil {
				return err
			}
			if len(messages) != size {
				return fmt.Errorf("a read brought %d messages, want %d", len(messages), size)
			}
			_, err = q.Ack(ctx, receipts(messages)...)
			return err
		})
		return cycles * float64(size), err
	}
}

// backlog returns how many messages lie there before a backlog is worked off.
func backlog(s setup) int { return max(lot, int(waiting*s.time.Seconds())) }

// queueBacklog has handlers that do nothing work a backlog off and returns
// messages a second.
func queueBacklog(ctx context.Context, s setup) (float64, error) {
	q, err := freshQueue(ctx, s, fairqueue.Config{})
	if err != nil {
		return 0, err
	}
	n := backlog(s)
	if _, err := q.WriteBatch(ctx, drafts(n)...); err != nil {
		return 0, err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var handled atomic.Int64
	start := time.Now()
	err = q.Consume(ctx, fairqueue.ConsumeConfig{Concurrency: goroutines}, func(context.Context, fairqueue.Message) error {
		if int(handled.Add(1)) == n {
			stop()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) || int(handled.Load()) < n {
		return 0, err
	}
	return float64(n) / time.Since(start).Seconds(), nil
}

// lastQuiet has one tenant write 3000 messages and 60 others one each, and returns
// how many are read until the last of the 60 has come.
func lastQuiet(cfg fairqueue.Config) func(context.Context, setup) (float64, error) {
	const loud, flood, quiet = "loud", 3000, 60
	return func(ctx context.Context, s setup) (float64, error) {
		q, err := freshQueue(ctx, s, cfg)
		if err != nil {
			return 0, err
		}
		all := drafts(flood)
		for i := range all {
			all[i].Tenant = loud
		}
		start := strconv.FormatInt(time.Now().UnixNano(), 36) // other tenants each time
		for i := range quiet {
			all = append(all, fairqueue.Draft{Tenant: start + strconv.Itoa(i)})
		}
		if _, err := q.WriteBatch(ctx, all...); err != nil {
			return 0, err
		}
		read := 0
		for seen := 0; seen < quiet; read++ {
			messages, err := q.Read(ctx, fairqueue.ReadConfig{})
			if err != nil {
				return 0, err
			}
			if messages[0].Tenant != loud {
				seen++
			}
		}
		return float64(read), nil
	}
}

// memoryAfter returns the size of a queue's keys in kilobytes after so many
// cycles, in each of which a backlog is written, and then read and acknowledged.
//
// The answers that are kept for calls whose reply was lost do not count: how many
// there are is a matter of the time and of the calls, not of what the queue holds.
func memoryAfter(cycles int) func(context.Context, setup) (float64, error) {
	const size = 5000
	return func(ctx context.Context, s setup) (float64, error) {
		q, err := freshQueue(ctx, s, fairqueue.Config{})
		if err != nil {
			return 0, err
		}
		for range cycles {
			if _, err := q.WriteBatch(ctx, drafts(size)...); err != nil {
				return 0, err
			}
			for left := size; left > 0; {
				messages, err := q.Read(ctx, fairqueue.ReadConfig{Max: lot})
				if err != nil {
					return 0, err
				}
				n, err := q.Ack(ctx, receipts(messages)...)
				if err != nil {
					return 0, err
				}
				left -= n
			}
		}
		c := s.client
		if err := c.Do(ctx, c.B().Del().Key("mr:queue:{bench}:req", "mr:queue:{bench}:req_before").Build()).Error(); err != nil {
			return 0, err
		}
		keys, err := c.Do(ctx, c.B().Keys().Pattern("*").Build()).AsStrSlice()
		if err != nil {
			return 0, err
		}
		bytes := int64(0)
		for _, key := range keys {
			n, err := c.Do(ctx, c.B().MemoryUsage().Key(key).Samples(0).Build()).AsInt64()
			if err != nil {
				return 0, err
			}
			bytes += n
		}
		return float64(bytes) / 1024, nil
	}
}
