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
func asynqBacklog(url string) bench.Measure { return asynqTasks(url, false) }

// asynqLife is queueLife with asynq.
func asynqLife(url string) bench.Measure { return asynqTasks(url, true) }

// asynqTasks returns tasks a second that are processed, after they were enqueued in the same
// time or before it.
func asynqTasks(url string, whole bool) bench.Measure {
	return func(ctx context.Context, at bench.Place) (speed float64, err error) {
		err = onAsynq(url, func(client *redis.Client, queue *asynq.Client) (err error) {
			defer func() { err = errors.Join(err, forgetQueue(context.WithoutCancel(ctx), client, at.Name)) }()
			n, start := max(100, at.Scaled(lifeMessages)), time.Now()
			if err := enqueue(ctx, queue, at.Name, n, bodySize); err != nil {
				return err
			}
			if !whole {
				start = time.Now()
			}
			end, err := process(ctx, client, at.Name, n)
			speed = float64(n) / end.Sub(start).Seconds()
			return err
		})
		return speed, err
	}
}

// onAsynq calls do with a client of asynq.
func onAsynq(url string, do func(client *redis.Client, queue *asynq.Client) error) error {
	opt, err := redis.ParseURL(url)
	if err != nil {
		return err
	}
	opt.PoolSize = bench.Goroutines + 10 // nobody waits for a connection
	client := redis.NewClient(opt)
	return errors.Join(do(client, asynq.NewClientFromRedisClient(client)), client.Close())
}

// enqueue writes n tasks, one by one.
func enqueue(ctx context.Context, queue *asynq.Client, name string, n, size int) error {
	body := make([]byte, size)
	return bench.Deal(ctx, n, func(ctx context.Context, _ int) error {
		_, err := queue.EnqueueContext(ctx, asynq.NewTask("bench", body), asynq.Queue(name))
		return err
	})
}

// process has asynq's workers work off n tasks, and returns when the last handler returned.
func process(ctx context.Context, client *redis.Client, name string, n int) (end time.Time, err error) {
	var handled atomic.Int64
	all := make(chan time.Time, 1)
	server := asynq.NewServerFromRedisClient(client, asynq.Config{
		Concurrency: bench.Goroutines, Queues: map[string]int{name: 1}, LogLevel: asynq.ErrorLevel,
	})
	if err := server.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
		if int(handled.Add(1)) == n {
			all <- time.Now()
		}
		return nil
	})); err != nil {
		return end, err
	}
	defer server.Shutdown()
	select {
	case end = <-all:
		return end, nil
	case <-ctx.Done():
		return end, context.Cause(ctx)
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
