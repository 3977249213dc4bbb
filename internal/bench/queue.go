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
	"github.com/millrace/millrace/internal/registry"
)

const (
	tenants = 100 // that messages are written for

	// BodySize is the size of a message, in bytes.
	BodySize = 100

	lot = 100 // messages in a call, where there are batches

	backlog = 20_000 // messages that handlers work off
)

func queueFigures() []Figure {
	return []Figure{
		{Name: "queue_cycle", What: "fairqueue write, read, ack one by one, 50 goroutines", Unit: "messages/s", Sides: []Side{
			{Name: "fairqueue", Measure: onQueue(fairqueue.Config{}, queueCycles(1))},
			{Name: "bare stream", Goal: AtLeast(0.8), Measure: onStream(bareCycles(1))},
		}},
		{Name: "queue_clients", What: "fairqueue write, read, ack one by one, 50 clients", Unit: "messages/s", Sides: []Side{
			{Name: "fairqueue", Measure: queueClients},
			{Name: "bare stream", Goal: AtLeast(0.5), Measure: onStream(bareClients)},
		}},
		{Name: "queue_batch", What: "fairqueue write, read, ack in batches of 100, 50 goroutines", Unit: "messages/s", Sides: []Side{
			{Name: "fairqueue", Measure: onQueue(fairqueue.Config{}, queueCycles(lot))},
			{Name: "bare stream", Goal: AtLeast(0.65), Measure: onStream(bareCycles(lot))},
		}},
		{Name: "queue_backlog", What: "fairqueue consume a backlog, 50 handlers", Unit: "messages/s", Sides: []Side{
			{Name: "fairqueue", Measure: onQueue(fairqueue.Config{}, queueBacklog)},
			{Name: "bare stream", Goal: AtLeast(0.9), Measure: onStream(bareBacklog)},
		}},
		{Name: "queue_pickup_median", What: "fairqueue pickup by an idle reader, median", Unit: "us", Sides: []Side{
			{Name: "fairqueue", Measure: percentile(50, time.Microsecond, queuePickups)},
			{Name: "bare BLPOP", Goal: AtMost(3), Measure: percentile(50, time.Microsecond, barePickups)},
		}},
		{Name: "queue_pickup_p99", What: "fairqueue pickup by an idle reader, p99", Unit: "ms", Sides: []Side{
			{Name: "fairqueue", Measure: percentile(99, time.Millisecond, queuePickups)},
			{Name: "bare BLPOP", Goal: ValueAtMost(10), Measure: percentile(99, time.Millisecond, barePickups)},
		}},
		fairnessFigure("queue_fairness", "read by 100", readBy(lot)),
		fairnessFigure("queue_fairness_single", "read one by one", readBy(1)),
		fairnessFigure("queue_fairness_consume", "consumed", consumeAll),
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

func tenant(i int) string { return "tenant:" + strconv.Itoa(i%tenants) }

// drafts returns n messages, for all tenants in turn.
func drafts(n int) []fairqueue.Draft {
	list := make([]fairqueue.Draft, n)
	for i := range list {
		list[i] = fairqueue.Draft{Tenant: tenant(i), Body: make([]byte, BodySize)}
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
		return cycles(ctx, p, size, func(int) *fairqueue.Queue { return q })
	}
}

// cycles is queueCycles with a queue for each goroutine.
func cycles(ctx context.Context, p Place, size int, of func(goroutine int) *fairqueue.Queue) (float64, error) {
	all := drafts(tenants + size)
	var turn atomic.Int64
	rate, err := p.Rate(ctx, func(ctx context.Context, goroutine int) error {
		q, first := of(goroutine), int(turn.Add(1))%tenants
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
	return rate * float64(size), err
}

// queueClients is queueCycles for goroutines with a client each, as if each were a
// process.
func queueClients(ctx context.Context, p Place) (rate float64, err error) {
	clients, done, err := p.clients()
	if err != nil {
		return 0, err
	}
	defer done()
	queues := make([]*fairqueue.Queue, len(clients))
	for i, c := range clients {
		if queues[i], err = fairqueue.New(c, p.Name, fairqueue.Config{}); err != nil {
			return 0, err
		}
	}
	defer func() {
		for _, c := range clients {
			registry.Settle(context.WithoutCancel(ctx), c) // so that the deletion has the last word
		}
		err = errors.Join(err, p.cleanUp(ctx, queues[0].Delete))
	}()
	return cycles(ctx, p, 1, func(goroutine int) *fairqueue.Queue { return queues[goroutine] })
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
	for _, part := range []string{
		"messages", "backlog", "active", "blocked", "work", "flight", "delayed", "deadlines", "dead", "deaths", "readers",
		"dedupe", "dedupes", "weights", "wake",
	} {
		keys = append(keys, base+":"+part)
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
