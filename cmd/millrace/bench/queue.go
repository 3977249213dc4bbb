package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fairqueue"
)

const (
	tenants  = 100 // that messages are written for
	bodySize = 100 // of a message, in bytes
	lot      = 100 // messages in a call, where there are batches

	backlog = 20_000 // messages that handlers work off
)

func queueFigures() []Figure {
	return []Figure{
		{Name: "queue_cycle", What: "fairqueue write, read, ack one by one, 50 goroutines", Unit: "messages/s", Sides: []Side{
			{Name: "fairqueue", Measure: onQueue(fairqueue.Config{}, queueCycles(1))},
			{Name: "bare stream", Goal: AtLeast(0.6), Measure: onStream(bareCycles(1))},
		}},
		{Name: "queue_batch", What: "fairqueue write, read, ack in batches of 100, 50 goroutines", Unit: "messages/s", Sides: []Side{
			{Name: "fairqueue", Measure: onQueue(fairqueue.Config{}, queueCycles(lot))},
			{Name: "bare stream", Goal: AtLeast(0.6), Measure: onStream(bareCycles(lot))},
		}},
		{Name: "queue_backlog", What: "fairqueue consume a backlog, 50 handlers", Unit: "messages/s", Sides: []Side{
			{Name: "fairqueue", Measure: onQueue(fairqueue.Config{}, queueBacklog)},
			{Name: "bare stream", Measure: onStream(bareBacklog)},
		}},
		{Name: "queue_pickup_median", What: "fairqueue pickup by an idle reader, median", Unit: "us", Sides: []Side{
			{Name: "fairqueue", Measure: percentile(50, time.Microsecond, queuePickups)},
			{Name: "bare BLPOP", Goal: AtMost(3), Measure: percentile(50, time.Microsecond, barePickups)},
		}},
		{Name: "queue_pickup_p99", What: "fairqueue pickup by an idle reader, p99", Unit: "ms", Sides: []Side{
			{Name: "fairqueue", Measure: percentile(99, time.Millisecond, queuePickups)},
			{Name: "bare BLPOP", Goal: ValueAtMost(10), Measure: percentile(99, time.Millisecond, barePickups)},
		}},
		{Name: "queue_fairness", What: "fairqueue last of 60 quiet tenants behind 3000", Unit: "messages read", Once: true, Sides: []Side{
			{Name: "64 streams, 4 a tenant", Measure: onQueue(fairqueue.Config{}, lastQuiet)},
			{Name: "one stream", Goal: ValueAtMost(70), Measure: onQueue(fairqueue.Config{Streams: 1}, lastQuiet)},
		}},
		{Name: "queue_memory", What: "fairqueue memory when all is acked", Unit: "kB", Once: true, Sides: []Side{
			{Name: "after four cycles", Measure: onQueue(fairqueue.Config{}, memoryAfter(4))},
			{Name: "after one", Goal: AtMost(1.05), Measure: onQueue(fairqueue.Config{}, memoryAfter(1))},
		}},
		{Name: "queue_idle", What: "fairqueue idle cost of 50 readers", Unit: "commands/s", Once: true, Sides: []Side{
			{Name: "fairqueue", Measure: queueIdle},
			{Name: "BLPOP of a second", Goal: ValueAtMost(2), Measure: bareIdle},
		}},
	}
}

// onQueue measures on a queue, and deletes it.
func onQueue(cfg fairqueue.Config, measure func(ctx context.Context, p Place, q *fairqueue.Queue) (float64, error)) Measure {
	return func(ctx context.Context, p Place) (value float64, err error) {
		q, err := fairqueue.New(p.Client, p.Name, cfg)
		if err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, p.cleanUp(ctx, q.Delete)) }()
		return measure(ctx, p, q)
	}
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
func queueCycles(size int) func(context.Context, Place, *fairqueue.Queue) (float64, error) {
	return func(ctx context.Context, p Place, q *fairqueue.Queue) (float64, error) {
		all := drafts(tenants + size)
		var turn atomic.Int64
		cycles, err := p.Rate(ctx, func(ctx context.Context, _ int) error {
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

// queueBacklog has handlers that do nothing work a backlog off, until there is
// nothing left or the time is over, and returns messages a second.
func queueBacklog(ctx context.Context, p Place, q *fairqueue.Queue) (float64, error) {
	n := max(lot, p.Scaled(backlog))
	if _, err := q.WriteBatch(context.WithoutCancel(ctx), drafts(n)...); err != nil {
		return 0, err
	}
	var handled atomic.Int64
	handling, stop := context.WithCancel(ctx)
	defer stop()
	start := time.Now()
	err := q.Consume(handling, fairqueue.ConsumeConfig{Concurrency: Goroutines}, func(context.Context, fairqueue.Message) error {
		if int(handled.Add(1)) == n || time.Since(start) > p.Time {
			stop()
		}
		return nil
	})
	took := time.Since(start)
	if ctx.Err() != nil || !errors.Is(err, context.Canceled) {
		return 0, err
	}
	return float64(handled.Load()) / took.Seconds(), nil
}

// lastQuiet has one tenant write 3000 messages and 60 others one each, and returns
// how many are read until the last of the 60 has come. It reads many at once, which
// come in the order in which they would come one by one.
func lastQuiet(ctx context.Context, _ Place, q *fairqueue.Queue) (float64, error) {
	const loud, flood, quiet = "loud", 3000, 60
	all := drafts(flood)
	for i := range all {
		all[i].Tenant = loud
	}
	start := strconv.FormatInt(time.Now().UnixNano(), 36) // other tenants each time
	for i := range quiet {
		all = append(all, fairqueue.Draft{Tenant: start + strconv.Itoa(i)})
	}
	calls := context.WithoutCancel(ctx) // none is cut off
	if _, err := q.WriteBatch(calls, all...); err != nil {
		return 0, err
	}
	for seen, read := 0, 0; ctx.Err() == nil; {
		messages, err := q.Read(calls, fairqueue.ReadConfig{Max: lot})
		if err != nil {
			return 0, err
		}
		for _, m := range messages {
			read++
			if m.Tenant != loud {
				seen++
			}
			if seen == quiet {
				return float64(read), nil
			}
		}
	}
	return 0, context.Cause(ctx)
}

// memoryAfter returns the size of a queue's keys in kilobytes after so many
// cycles, in each of which a backlog is written, and then read and acknowledged.
func memoryAfter(cycles int) func(context.Context, Place, *fairqueue.Queue) (float64, error) {
	const size = 5000
	return func(ctx context.Context, p Place, q *fairqueue.Queue) (float64, error) {
		for range cycles {
			if err := cycle(ctx, q, size); err != nil {
				return 0, err
			}
		}
		return sizeOf(ctx, p, queueKeys(p))
	}
}

// cycle writes messages, and then reads and acknowledges them.
func cycle(ctx context.Context, q *fairqueue.Queue, size int) error {
	calls := context.WithoutCancel(ctx) // none is cut off
	if _, err := q.WriteBatch(calls, drafts(size)...); err != nil {
		return err
	}
	for left := size; left > 0 && ctx.Err() == nil; {
		messages, err := q.Read(calls, fairqueue.ReadConfig{Max: lot})
		if err != nil {
			return err
		}
		n, err := q.Ack(calls, receipts(messages)...)
		if err != nil {
			return err
		}
		left -= n
	}
	return context.Cause(ctx)
}

// queueKeys returns the keys of a queue, as docs/WIRE.md has them, but for the
// answers that are kept for calls whose reply was lost: how many there are is a
// matter of the time and of the calls, not of what the queue holds.
func queueKeys(p Place) []string {
	base := "mr:queue:{" + p.Name + "}"
	keys := []string{base}
	for _, part := range []string{"waits", "due", "delayed", "later", "places", "dead", "dedupe", "dedupes", "wake"} {
		keys = append(keys, base+":"+part)
	}
	for i := range fairqueue.StreamsDefault {
		keys = append(keys, base+":s:"+strconv.Itoa(i))
	}
	return keys
}

// sizeOf returns how many kilobytes of the server's memory keys take.
func sizeOf(ctx context.Context, p Place, keys []string) (float64, error) {
	commands := make(rueidis.Commands, len(keys))
	for i, key := range keys {
		commands[i] = p.Client.B().MemoryUsage().Key(key).Samples(0).Build()
	}
	bytes := int64(0)
	for _, reply := range p.Client.DoMulti(ctx, commands...) {
		n, err := reply.AsInt64()
		if err != nil && !rueidis.IsRedisNil(err) { // there is no such key
			return 0, err
		}
		bytes += n
	}
	return float64(bytes) / 1024, nil
}
