package main

import (
	"context"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

var asynqPeer = &peer{
	Name: "asynq", Title: "asynq", Version: "0.26.0", missing: always, queues: true, queuesName: "asynq, a queue per tenant",
	Settings: []setting{
		{"`TaskCheckInterval` of 10 ms instead of 1 s", "an idle server polls, and this is how long a task waits for it; it costs 100 commands a second and queue"},
		{"a pool with a connection for each goroutine", "none waits for one"},
		{"a queue per tenant: `Queues` lists all of them with equal weights", "that is its means for fairness; tenants must be known when the server starts"},
		{"no batches", "`Client` has no call for them"},
		{"`RetryDelayFunc` of 1 ms and `DelayedTaskCheckInterval` of 1 s", "what comes back from a killed worker is a retry, whose backoff would delay it further; its lease of 30 s and the look for lost ones each minute cannot be set"},
	},
	connect: connectAsynq(asynq.Config{
		TaskCheckInterval:        10 * time.Millisecond,
		RetryDelayFunc:           func(int, error, *asynq.Task) time.Duration { return time.Millisecond },
		DelayedTaskCheckInterval: time.Second,
	}),
}

var asynqDefaultPeer = &peer{
	Name: "asynq-default", Title: "asynq, its defaults", Version: asynqPeer.Version, missing: always,
	connect: connectAsynq(asynq.Config{}),
}

var asynqQuickPeer = &peer{
	Name: "asynq-2ms", Title: "asynq, `TaskCheckInterval` of 2 ms", Version: asynqPeer.Version, missing: always,
	connect: connectAsynq(asynq.Config{TaskCheckInterval: 2 * time.Millisecond}),
}

// connectAsynq connects a system whose servers have these settings.
func connectAsynq(cfg asynq.Config) func(context.Context, *job) (system, error) {
	return func(_ context.Context, j *job) (system, error) {
		opt, err := redis.ParseURL(j.URL)
		if err != nil {
			return nil, err
		}
		opt.PoolSize = 10 + j.Concurrency
		for _, l := range j.Loads {
			opt.PoolSize = max(opt.PoolSize, 10+l.Writers)
		}
		client := redis.NewClient(opt)
		return &asynqSystem{redis: client, client: asynq.NewClientFromRedisClient(client), job: j, config: cfg}, nil
	}
}

// asynqKind is the type of all tasks.
const asynqKind = "compared"

type asynqSystem struct {
	redis  *redis.Client
	client *asynq.Client
	job    *job
	config asynq.Config
}

func (s *asynqSystem) write(ctx context.Context, messages []message) error {
	for _, m := range messages {
		queue := asynqKind
		if s.job.TenantQueues {
			queue = tenantName(m.tenant)
		}
		if _, err := s.client.EnqueueContext(ctx, asynq.NewTask(asynqKind, []byte(m.body)), asynq.Queue(queue)); err != nil {
			return err
		}
	}
	return nil
}

func (s *asynqSystem) work(ctx context.Context, handle func(body string)) error {
	queues := map[string]int{asynqKind: 1}
	if s.job.TenantQueues {
		queues = map[string]int{}
		for tenant := range s.job.Tenants {
			queues[tenantName(tenant)] = 1
		}
	}
	cfg := s.config
	cfg.Concurrency, cfg.Queues, cfg.LogLevel = s.job.Concurrency, queues, asynq.FatalLevel
	server := asynq.NewServerFromRedisClient(s.redis, cfg)
	if err := server.Start(asynq.HandlerFunc(func(_ context.Context, t *asynq.Task) error {
		handle(string(t.Payload()))
		return nil
	})); err != nil {
		return err
	}
	<-ctx.Done()
	server.Shutdown()
	return nil
}

func (s *asynqSystem) close() { _ = s.redis.Close() }
