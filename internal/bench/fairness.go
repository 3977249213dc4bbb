package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/millrace/millrace/fairqueue"
)

const (
	floods    = 10   // tenants that have much
	floodSize = 2000 // messages that each of them has
	quiet     = 200  // tenants that have one message each, written behind the floods
)

// fairnessFigure measures how many messages come until that of the last quiet tenant has:
// 210 where each tenant has its turn, and a fifth more is allowed.
func fairnessFigure(name, how string, take func(ctx context.Context, q *fairqueue.Queue, see func(tenant string) (enough bool)) error) Figure {
	return Figure{Name: name, What: "fairqueue last of 200 quiet tenants behind 10 floods, " + how, Unit: "messages", Once: true, Sides: []Side{
		{Name: "a flow for each tenant", Measure: onQueue(fairqueue.Config{}, lastQuiet(take))},
		{Name: "64 streams, 4 a tenant", Goal: ValueAtMost(260), Measure: onQueue(fairqueue.Config{Streams: 64}, lastQuiet(take))},
	}}
}

// lastQuiet writes floods, then a message of each quiet tenant, and takes messages until
// those have come.
func lastQuiet(take func(ctx context.Context, q *fairqueue.Queue, see func(string) bool) error) func(context.Context, Place, *fairqueue.Queue) (float64, error) {
	return func(ctx context.Context, p Place, q *fairqueue.Queue) (float64, error) {
		var all []fairqueue.Draft
		for i := range floods * p.Scaled(floodSize) {
			all = append(all, fairqueue.Draft{Tenant: fmt.Sprint("loud ", i%floods), Body: make([]byte, BodySize)})
		}
		for i := range quiet {
			all = append(all, fairqueue.Draft{Tenant: fmt.Sprint("quiet ", i), Body: make([]byte, BodySize)})
		}
		if _, err := q.WriteBatch(context.WithoutCancel(ctx), all...); err != nil { // none is cut off
			return 0, err
		}
		var mu sync.Mutex
		taken, last, missing := 0, 0, quiet
		err := take(ctx, q, func(tenant string) bool {
			mu.Lock()
			defer mu.Unlock()
			taken++
			if strings.HasPrefix(tenant, "quiet") && missing > 0 {
				last, missing = taken, missing-1
			}
			return missing == 0
		})
		return float64(last), err
	}
}

// readBy reads so many messages at a time.
func readBy(size int) func(ctx context.Context, q *fairqueue.Queue, see func(string) bool) error {
	return func(ctx context.Context, q *fairqueue.Queue, see func(string) bool) error {
		for enough := false; !enough; {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			messages, err := q.Read(context.WithoutCancel(ctx), fairqueue.ReadConfig{Max: size})
			if err != nil {
				return err
			}
			for _, m := range messages {
				enough = see(m.Tenant) || enough
			}
		}
		return nil
	}
}

// consumeAll has handlers take them, which do nothing.
func consumeAll(ctx context.Context, q *fairqueue.Queue, see func(string) bool) error {
	handling, stop := context.WithCancel(ctx)
	defer stop()
	err := q.Consume(handling, fairqueue.ConsumeConfig{Concurrency: Goroutines}, func(_ context.Context, m fairqueue.Message) error {
		if see(m.Tenant) {
			stop()
		}
		return nil
	})
	if ctx.Err() == nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
