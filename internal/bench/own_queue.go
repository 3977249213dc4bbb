package bench

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/fairqueue"
)

// ownQueueFigures are those of queues on servers of their own, or beside asynq.
func ownQueueFigures() []Figure {
	return slices.Concat([]Figure{
		{What: "fairqueue whole life, write one by one and consume, 50 handlers", Unit: "messages/s", Sides: []Side{
			{Name: "fairqueue", Measure: onQueue(fairqueue.Config{}, queueLife)},
		}},
		{What: "fairqueue write, read, ack one by one, each of 100 tenants with a weight", Unit: "messages/s", Sides: []Side{
			{Name: "weights", Measure: onQueue(fairqueue.Config{}, weighedCycles)},
			{Name: "none", Goal: AtLeast(0.9), Measure: onQueue(fairqueue.Config{}, queueCycles(1))},
		}},
	}, safeFigures(), queueMemoryFigures(), slowFigures())
}

// LifeMessages is how many messages are written and handled where their whole life is measured.
const LifeMessages = 20_000

// queueLife writes messages one by one, has handlers that do nothing work them off, and
// returns messages a second of both together.
func queueLife(ctx context.Context, at Place, q *fairqueue.Queue) (float64, error) {
	n, body := max(100, at.Scaled(LifeMessages)), make([]byte, BodySize)
	start := time.Now()
	if err := Deal(ctx, n, func(ctx context.Context, i int) error {
		_, err := q.Write(ctx, fairqueue.Draft{Tenant: tenant(i), Body: body})
		return err
	}); err != nil {
		return 0, err
	}
	handling, stop := context.WithCancel(ctx)
	defer stop()
	var handled atomic.Int64
	err := q.Consume(handling, fairqueue.ConsumeConfig{Concurrency: Goroutines}, func(context.Context, fairqueue.Message) error {
		if int(handled.Add(1)) == n {
			stop()
		}
		return nil
	})
	if ctx.Err() != nil || !errors.Is(err, context.Canceled) {
		return 0, err
	}
	return float64(n) / time.Since(start).Seconds(), nil
}

// weighedCycles is queueCycles where each tenant has a weight of its own.
func weighedCycles(ctx context.Context, at Place, q *fairqueue.Queue) (float64, error) {
	if _, err := q.Write(ctx, fairqueue.Draft{Tenant: tenant(0)}); err != nil { // weights are of a queue that exists
		return 0, err
	}
	messages, err := q.Read(ctx, fairqueue.ReadConfig{})
	if err != nil {
		return 0, err
	}
	if _, err := q.Ack(ctx, receipts(messages)...); err != nil {
		return 0, err
	}
	for i := range tenants {
		if err := q.SetWeight(ctx, tenant(i), float64(2+i%5)); err != nil {
			return 0, err
		}
	}
	return queueCycles(1)(ctx, at, q)
}
