package main

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// asynqBacklog has asynq's workers work off tasks that do nothing and returns
// tasks a second. Enqueueing them is not measured.
func asynqBacklog(ctx context.Context, s setup) (float64, error) {
	if err := empty(ctx, s); err != nil {
		return 0, err
	}
	opt, err := redis.ParseURL(s.url)
	if err != nil {
		return 0, err
	}
	opt.PoolSize = goroutines + 10 // nobody waits for a connection
	client := redis.NewClient(opt)
	defer func() { _ = client.Close() }()

	n := backlog(s)
	var left atomic.Int64
	left.Store(int64(n))
	queue, body := asynq.NewClientFromRedisClient(client), make([]byte, bodySize)
	err = each(func() error {
		for left.Add(-1) >= 0 {
			if _, err := queue.EnqueueContext(ctx, asynq.NewTask("bench", body)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}

	var handled atomic.Int64
	all := make(chan struct{})
	server := asynq.NewServerFromRedisClient(client, asynq.Config{Concurrency: goroutines, LogLevel: asynq.ErrorLevel})
	start := time.Now()
	err = server.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
		if int(handled.Add(1)) == n {
			close(all)
		}
		return nil
	}))
	if err != nil {
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
