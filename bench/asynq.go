package main

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/bench"
	"github.com/millrace/millrace/internal/must"
)

// againstAsynq adds a side for asynq to a figure of the queue: processing alone, also where
// the queue's side includes writing.
func againstAsynq(f bench.Figure, url string) bench.Figure {
	asynq := bench.Side{Name: "asynq, processing alone", Measure: asynqTasks(url, false), Goal: bench.AtLeast(5)}
	switch {
	case f.Name == "queue_cycle":
		asynq.Goal = bench.AtLeast(2)
	case f.Name == "queue_batch":
	case f.Name == "queue_backlog":
		asynq.Name = "asynq"
	case strings.HasPrefix(f.What, "fairqueue whole life"):
		asynq.Name, asynq.Measure = "asynq", asynqTasks(url, true)
	case strings.HasPrefix(f.What, bench.MemoryOfWaiting):
		size := 100
		if strings.Contains(f.What, "1 kB") {
			size = 1000
		}
		asynq.Name, asynq.Measure, asynq.Goal = "asynq", bench.Memory(bench.LifeMessages, 1, waitingTasks(size)), bench.AtMost(1)
	default:
		return f
	}
	f.Sides = append(f.Sides, asynq)
	return f
}

// waitingTasks writes tasks of a size to a server that has nothing else.
func waitingTasks(size int) func(ctx context.Context, b *bench.B, url string, n int) error {
	return func(ctx context.Context, b *bench.B, url string, n int) error {
		clients := func() float64 { return bench.Info(ctx, b.Client, "clients", "connected_clients") }
		before := clients()
		err := onAsynq(url, func(_ *redis.Client, queue *asynq.Client) error {
			return enqueue(ctx, queue, "bench", n, size)
		})
		for err == nil && clients() > before { // the memory of connections belongs to no message
			err = context.Cause(ctx)
		}
		return err
	}
}

// asynqTasks returns tasks a second that are processed, after they were enqueued in the same
// time or before it.
func asynqTasks(url string, whole bool) bench.Measure {
	return func(ctx context.Context, b *bench.B) (speed float64) {
		must.Do(onAsynq(url, func(client *redis.Client, queue *asynq.Client) (err error) {
			defer func() { err = errors.Join(err, forgetQueue(context.WithoutCancel(ctx), client, b.Name)) }()
			n, start := max(100, b.Scaled(bench.LifeMessages)), time.Now()
			if err := enqueue(ctx, queue, b.Name, n, bench.BodySize); err != nil {
				return err
			}
			if !whole {
				start = time.Now()
			}
			end, err := process(ctx, client, b.Name, n)
			speed = float64(n) / end.Sub(start).Seconds()
			return err
		}))
		return speed
	}
}

// onAsynq calls do with a client of asynq.
func onAsynq(url string, do func(client *redis.Client, queue *asynq.Client) error) error {
	opt, err := redis.ParseURL(url)
	if err != nil {
		return err
	}
	opt.PoolSize = bench.Goroutines + 10 // so that no goroutine waits for a connection
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

// forgetQueue deletes a queue of asynq, and its counters.
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
