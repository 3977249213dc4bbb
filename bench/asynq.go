package main

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/cmd/millrace/bench"
)

// againstAsynq adds asynq to what the queue is measured against: processing alone,
// whatever the queue does beside it.
func againstAsynq(f bench.Figure, url string) bench.Figure {
	asynq := bench.Side{Name: "asynq, processing alone", Measure: asynqBacklog(url)}
	switch f.Name {
	case "queue_cycle":
		asynq.Goal = bench.AtLeast(2)
	case "queue_batch":
		asynq.Goal = bench.AtLeast(5)
	case "queue_backlog":
		asynq.Name, asynq.Goal = "asynq", bench.AtLeast(5)
	default:
		return f
	}
	f.Sides = append(f.Sides, asynq)
	return f
}

// asynqBacklog has asynq's workers work off tasks that do nothing and returns
// tasks a second. Enqueueing them is not measured.
func asynqBacklog(url string) bench.Measure {
	return func(ctx context.Context, at bench.Place) (speed float64, err error) {
		opt, err := redis.ParseURL(url)
		if err != nil {
			return 0, err
		}
		opt.PoolSize = bench.Goroutines + 10 // nobody waits for a connection
		client := redis.NewClient(opt)
		defer func() {
			err = errors.Join(err, forgetQueue(context.WithoutCancel(ctx), client, at.Name), client.Close())
		}()

		n := max(100, at.Scaled(20_000))
		queue, body := asynq.NewClientFromRedisClient(client), make([]byte, 100)
		if err := bench.Deal(ctx, n, func(ctx context.Context, _ int) error {
			_, err := queue.EnqueueContext(ctx, asynq.NewTask("bench", body), asynq.Queue(at.Name))
			return err
		}); err != nil {
			return 0, err
		}

		var handled atomic.Int64
		all := make(chan struct{})
		server := asynq.NewServerFromRedisClient(client, asynq.Config{
			Concurrency: bench.Goroutines, Queues: map[string]int{at.Name: 1}, LogLevel: asynq.ErrorLevel,
		})
		start := time.Now()
		if err := server.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
			if int(handled.Add(1)) == n {
				close(all)
			}
			return nil
		})); err != nil {
			return 0, err
		}
		defer server.Shutdown()
		select {
		case <-all:
			return float64(n) / time.Since(start).Seconds(), nil
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

// forgetQueue deletes a queue of asynq, and what it counted.
func forgetQueue(ctx context.Context, client *redis.Client, name string) error {
	err := asynq.NewInspectorFromRedisClient(client).DeleteQueue(name, true)
	if errors.Is(err, asynq.ErrQueueNotFound) {
		err = nil
	}
	counts := client.Scan(ctx, 0, "asynq:{"+name+"}:*", 1000).Iterator()
	for counts.Next(ctx) {
		err = errors.Join(err, client.Unlink(ctx, counts.Val()).Err())
	}
	return errors.Join(err, counts.Err())
}
