package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/cmd/millrace/bench"
	"github.com/millrace/millrace/fairqueue"
)

// queueFigures are those of queues that need asynq or servers of their own.
func queueFigures(url string) []bench.Figure {
	return slices.Concat([]bench.Figure{
		{What: "fairqueue whole life, write one by one and consume, 50 handlers", Unit: "messages/s", Sides: []bench.Side{
			{Name: "fairqueue", Measure: onQueue(queueLife)},
			{Name: "asynq", Goal: bench.AtLeast(5), Measure: asynqLife(url)},
		}},
		{What: "fairqueue write, read, ack one by one, each of 100 tenants with a weight", Unit: "messages/s", Sides: []bench.Side{
			{Name: "weights", Measure: onQueue(weighedCycles)},
			{Name: "none", Goal: bench.AtLeast(0.9), Measure: onQueue(queueCycles)},
		}},
	}, safeFigures(), queueMemoryFigures(), slowFigures())
}

const (
	queueTenants = 100 // that messages are written for
	bodySize     = 100 // of a message, in bytes
	lifeMessages = 20_000
)

func queueTenant(i int) string { return fmt.Sprint("tenant:", i%queueTenants) }

// onQueue measures on a queue, and deletes it.
func onQueue(measure func(ctx context.Context, at bench.Place, q *fairqueue.Queue) (float64, error)) bench.Measure {
	return func(ctx context.Context, at bench.Place) (value float64, err error) {
		q, err := fairqueue.New(at.Client, at.Name, fairqueue.Config{})
		if err != nil {
			return 0, err
		}
		defer func() {
			_, left := q.Delete(context.WithoutCancel(ctx))
			err = errors.Join(err, left)
		}()
		return measure(ctx, at, q)
	}
}

// queueLife writes messages one by one, has handlers that do nothing work them off, and
// returns messages a second of both together.
func queueLife(ctx context.Context, at bench.Place, q *fairqueue.Queue) (float64, error) {
	n, body := max(100, at.Scaled(lifeMessages)), make([]byte, bodySize)
	start := time.Now()
	if err := bench.Deal(ctx, n, func(ctx context.Context, i int) error {
		_, err := q.Write(ctx, fairqueue.Draft{Tenant: queueTenant(i), Body: body})
		return err
	}); err != nil {
		return 0, err
	}
	handling, stop := context.WithCancel(ctx)
	defer stop()
	var handled atomic.Int64
	err := q.Consume(handling, fairqueue.ConsumeConfig{Concurrency: bench.Goroutines}, func(context.Context, fairqueue.Message) error {
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
func weighedCycles(ctx context.Context, at bench.Place, q *fairqueue.Queue) (float64, error) {
	if _, err := q.Write(ctx, fairqueue.Draft{Tenant: queueTenant(0)}); err != nil { // weights are of a queue that exists
		return 0, err
	}
	if err := takeOne(ctx, q); err != nil {
		return 0, err
	}
	for i := range queueTenants {
		if err := q.SetWeight(ctx, queueTenant(i), float64(2+i%5)); err != nil {
			return 0, err
		}
	}
	return queueCycles(ctx, at, q)
}

// queueCycles has each goroutine write, read and acknowledge a message, again and again.
func queueCycles(ctx context.Context, at bench.Place, q *fairqueue.Queue) (float64, error) {
	body := make([]byte, bodySize)
	var turn atomic.Int64
	return at.Rate(ctx, func(ctx context.Context, _ int) error {
		if _, err := q.Write(ctx, fairqueue.Draft{Tenant: queueTenant(int(turn.Add(1))), Body: body}); err != nil {
			return err
		}
		return takeOne(ctx, q)
	})
}

func takeOne(ctx context.Context, q *fairqueue.Queue) error {
	messages, err := q.Read(ctx, fairqueue.ReadConfig{})
	if err != nil {
		return err
	}
	_, err = q.Ack(ctx, messages[0].Receipt)
	return err
}
