package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/must"
)

const (
	tenants = 100 // that messages are written for

	// BodySize is the size of a message, in bytes.
	BodySize = 100

	lot = 100 // messages in a call, where there are batches

	backlog = 20_000 // messages that handlers work off

	floods    = 10   // tenants that have much
	floodSize = 2000 // messages that each of them has
	quiet     = 200  // tenants that have one message each, written behind the floods
)

func queueFigures() []Figure {
	return []Figure{
		{Name: "queue_cycle", What: "fairqueue write, read, ack one by one, 50 goroutines", Unit: "messages/s", Sides: []Side{
			{Name: "fairqueue", Measure: queueCycles(1)},
			{Name: "bare stream", Goal: AtLeast(0.8), Measure: streamCycles(1)},
		}},
		{Name: "queue_batch", What: "fairqueue write, read, ack in batches of 100, 50 goroutines", Unit: "messages/s", Sides: []Side{
			{Name: "fairqueue", Measure: queueCycles(lot)},
			{Name: "bare stream", Goal: AtLeast(0.65), Measure: streamCycles(lot)},
		}},
		{Name: "queue_backlog", What: "fairqueue consume a backlog, 50 handlers", Unit: "messages/s", Sides: []Side{
			{Name: "fairqueue", Measure: queueBacklog},
			{Name: "bare stream", Goal: AtLeast(0.9), Measure: streamBacklog},
		}},
		{Name: "queue_pickup_median", What: "fairqueue pickup by an idle reader, median", Unit: "us", Sides: []Side{
			{Name: "fairqueue", Measure: QuantileOf(0.5, time.Microsecond, queuePickups)},
			{Name: "bare BLPOP", Goal: AtMost(3), Measure: QuantileOf(0.5, time.Microsecond, listPickups)},
		}},
		{Name: "queue_pickup_p99", What: "fairqueue pickup by an idle reader, p99", Unit: "ms", Sides: []Side{
			{Name: "fairqueue", Measure: QuantileOf(0.99, time.Millisecond, queuePickups)},
			{Name: "bare BLPOP", Goal: ValueAtMost(10), Measure: QuantileOf(0.99, time.Millisecond, listPickups)},
		}},
		fairnessFigure("queue_fairness", "read by 100", readAll),
		fairnessFigure("queue_fairness_consume", "consumed", consume),
		{Name: "queue_limits", What: "fairqueue write, read, ack one by one, each of 100 tenants with all kinds of limits", Unit: "messages/s", Sides: []Side{
			{Name: "limits", Measure: limitedCycles},
			{Name: "none", Goal: AtLeast(0.7), Measure: queueCycles(1)},
		}},
	}
}

// Queue returns a queue, which is deleted at the end.
func (b *B) Queue(c rueidis.Client, cfg fairqueue.Config) *fairqueue.Queue {
	q := must.Get(fairqueue.New(c, b.Name, cfg))
	b.deleteAfter(q.Delete)
	return q
}

// Tenant is the name of one of 100 tenants.
func Tenant(i int) string { return "tenant:" + strconv.Itoa(i%tenants) }

// drafts returns n messages, for all tenants in turn.
func drafts(n int) []fairqueue.Draft {
	list := make([]fairqueue.Draft, n)
	for i := range list {
		list[i] = fairqueue.Draft{Tenant: Tenant(i), Body: make([]byte, BodySize)}
	}
	return list
}

// receipts returns the receipts of messages.
func receipts(messages []fairqueue.Message) []string {
	list := make([]string, len(messages))
	for i, m := range messages {
		list[i] = m.Receipt
	}
	return list
}

// queueCycles has each goroutine write, read and acknowledge size messages, again and
// again, so that the queue holds little more than the messages in progress. It returns
// messages a second.
func queueCycles(size int) Measure {
	return func(ctx context.Context, b *B) float64 {
		q := b.Queue(b.Client, fairqueue.Config{})
		return cycles(ctx, b, size, q)
	}
}

// limitedCycles is queueCycles with limits that hold nothing back.
func limitedCycles(ctx context.Context, b *B) float64 {
	q := b.Queue(b.Client, fairqueue.Config{})
	for i := range tenants {
		limits := fairqueue.OwnLimits{Weight: new(2.0), MaxInFlight: new(1000), Rate: new(1e6), MaxWaiting: new(1000)}
		must.Do(q.Limits().Set(ctx, Tenant(i), limits))
	}
	return cycles(ctx, b, 1, q)
}

func cycles(ctx context.Context, b *B, size int, q *fairqueue.Queue) float64 {
	all := drafts(tenants + size)
	var turn atomic.Int64
	return float64(size) * b.Rate(ctx, Goroutines, func(ctx context.Context, _ int) error {
		first := int(turn.Add(1)) % tenants
		if _, err := q.WriteBatch(ctx, all[first:first+size]...); err != nil {
			return err
		}
		messages, err := q.Read(ctx, fairqueue.ReadConfig{Max: size})
		if err != nil {
			return err
		}
		if len(messages) != size {
			return fmt.Errorf("a read returned %d messages, want %d", len(messages), size)
		}
		_, err = q.Ack(ctx, receipts(messages)...)
		return err
	})
}

// queueBacklog has handlers that do nothing work a backlog off, until there is
// nothing left or the time is over, and returns messages a second.
func queueBacklog(ctx context.Context, b *B) float64 {
	q, n := b.Queue(b.Client, fairqueue.Config{}), max(lot, b.Scaled(backlog))
	must.Get(q.WriteBatch(context.WithoutCancel(ctx), drafts(n)...))
	handled, start := 0, time.Now()
	consume(ctx, q, func(string) (enough bool) {
		handled++
		return handled == n || time.Since(start) > b.Time
	})
	return float64(handled) / time.Since(start).Seconds()
}

// consume has 50 handlers call see with the tenants of messages, one at a time, until it
// has seen enough.
func consume(ctx context.Context, q *fairqueue.Queue, see func(tenant string) (enough bool)) {
	handling, stop := context.WithCancel(ctx)
	defer stop()
	var mu sync.Mutex
	err := q.Consume(handling, fairqueue.ConsumeConfig{Concurrency: Goroutines}, func(_ context.Context, m fairqueue.Message) error {
		mu.Lock()
		defer mu.Unlock()
		if see(m.Tenant) {
			stop()
		}
		return nil
	})
	must.Do(context.Cause(ctx))
	if !errors.Is(err, context.Canceled) {
		must.Do(err)
	}
}

// fairnessFigure measures how many messages come until that of the last quiet tenant has:
// 210 where each tenant has its turn, and a fifth more is allowed.
func fairnessFigure(name, how string, take func(ctx context.Context, q *fairqueue.Queue, see func(tenant string) (enough bool))) Figure {
	lastQuiet := func(cfg fairqueue.Config) Measure {
		return func(ctx context.Context, b *B) float64 {
			q := b.Queue(b.Client, cfg)
			var all []fairqueue.Draft
			for i := range floods * b.Scaled(floodSize) {
				all = append(all, fairqueue.Draft{Tenant: fmt.Sprint("loud ", i%floods), Body: make([]byte, BodySize)})
			}
			for i := range quiet {
				all = append(all, fairqueue.Draft{Tenant: fmt.Sprint("quiet ", i), Body: make([]byte, BodySize)})
			}
			must.Get(q.WriteBatch(context.WithoutCancel(ctx), all...)) // none is cut off
			taken, last, missing := 0, 0, quiet
			take(ctx, q, func(tenant string) bool {
				taken++
				if strings.HasPrefix(tenant, "quiet") && missing > 0 {
					last, missing = taken, missing-1
				}
				return missing == 0
			})
			return float64(last)
		}
	}
	return Figure{Name: name, What: "fairqueue last of 200 quiet tenants behind 10 floods, " + how, Unit: "messages", Once: true, Sides: []Side{
		{Name: "a flow for each tenant", Measure: lastQuiet(fairqueue.Config{})},
		{Name: "64 streams, 4 a tenant", Goal: ValueAtMost(260), Measure: lastQuiet(fairqueue.Config{Streams: 64})},
	}}
}

// readAll reads by 100.
func readAll(ctx context.Context, q *fairqueue.Queue, see func(string) bool) {
	for enough := false; !enough; {
		must.Do(context.Cause(ctx))
		for _, m := range must.Get(q.Read(context.WithoutCancel(ctx), fairqueue.ReadConfig{Max: lot})) {
			enough = see(m.Tenant) || enough
		}
	}
}
