package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"
)

var riverPeer = &peer{
	Name: "river", Title: "River", Version: "0.51.1", postgres: true, batches: true, queues: true, queuesName: "River, a queue per tenant",
	Settings: []setting{
		{"`FetchCooldown` of 1 ms instead of 100 ms, also in the writer", "its documentation: throughput is limited by this value; a writer notifies no more often"},
		{"`FetchPollInterval` of 1 s, its default; of 5 s with a queue per tenant", "`LISTEN/NOTIFY` wakes it earlier, and 201 queues that poll take the database's time"},
		{"`InsertManyFast`", "it writes a batch with `COPY`"},
		{"pgx pool of 40 connections", "each of 32 writers has one"},
		{"a queue per tenant: `MaxWorkers` of half of the handlers, with a semaphore over all queues", "queues cannot share `MaxWorkers`; so one tenant cannot take all handlers, but two slow ones can"},
		{"`JobTimeout` 4 s and `RescueStuckJobsAfter` 5 s in the crashes, a retry after 1 ms", "defaults are a minute and an hour; it looks each 30 s, which cannot be set"},
	},
	missing: missingPostgres,
	connect: func(ctx context.Context, j *job) (system, error) {
		cfg, err := pgxpool.ParseConfig(j.URL)
		if err != nil {
			return nil, err
		}
		cfg.MaxConns = 40
		pool, err := pgxpool.NewWithConfig(ctx, cfg)
		if err != nil {
			return nil, err
		}
		s := &riverSystem{pool: pool, job: j}
		if len(j.Loads) > 0 {
			s.client, err = river.NewClient(riverpgxv5.New(pool), &river.Config{FetchCooldown: riverCooldown, Logger: quiet})
		}
		return s, err
	},
}

// riverCooldown is the shortest interval between fetches, and between notifications by a writer.
const riverCooldown = time.Millisecond

// quiet drops River's log: restarts of the database are part of the measurements.
var quiet = slog.New(slog.DiscardHandler)

// migrateRiver makes River's tables.
func migrateRiver(ctx context.Context, dsn string) error {
	pool, err := pgxpool.New(ctx, dsn)
	if err != nil {
		return err
	}
	defer pool.Close()
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: quiet})
	if err != nil {
		return err
	}
	_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return err
}

type riverArgs struct {
	B string `json:"b"`
}

func (riverArgs) Kind() string { return "compared" }

type riverSystem struct {
	pool   *pgxpool.Pool
	client *river.Client[pgx.Tx]
	job    *job
}

func (s *riverSystem) write(ctx context.Context, messages []message) error {
	queue := func(m message) *river.InsertOpts {
		if s.job.TenantQueues {
			return &river.InsertOpts{Queue: tenantName(m.tenant)}
		}
		return nil
	}
	if len(messages) == 1 {
		_, err := s.client.Insert(ctx, riverArgs{messages[0].body}, queue(messages[0]))
		return err
	}
	params := make([]river.InsertManyParams, len(messages))
	for i, m := range messages {
		params[i] = river.InsertManyParams{Args: riverArgs{m.body}, InsertOpts: queue(m)}
	}
	_, err := s.client.InsertManyFast(ctx, params)
	return err
}

// soon retries without a wait, since only killed workers' jobs are retried here.
type soon struct{}

func (soon) NextRetry(*rivertype.JobRow) time.Time { return time.Now().Add(time.Millisecond) }

type riverWorker struct {
	river.WorkerDefaults[riverArgs]

	slots  chan struct{}
	handle func(body string)
}

func (w *riverWorker) Work(_ context.Context, j *river.Job[riverArgs]) error {
	w.slots <- struct{}{}
	defer func() { <-w.slots }()
	w.handle(j.Args.B)
	return nil
}

func (s *riverSystem) work(ctx context.Context, handle func(body string)) error {
	workers := river.NewWorkers()
	river.AddWorker(workers, &riverWorker{slots: make(chan struct{}, s.job.Concurrency), handle: handle})
	cfg := &river.Config{
		Queues:        map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: s.job.Concurrency}},
		FetchCooldown: riverCooldown, Workers: workers, RetryPolicy: soon{}, Logger: quiet,
	}
	if s.job.TenantQueues {
		cfg.Queues, cfg.FetchPollInterval = map[string]river.QueueConfig{}, 5*time.Second
		for tenant := range s.job.Tenants {
			cfg.Queues[tenantName(tenant)] = river.QueueConfig{MaxWorkers: max(1, s.job.Concurrency/2)}
		}
	}
	if s.job.VisibilityMs > 0 {
		cfg.RescueStuckJobsAfter = time.Duration(s.job.VisibilityMs) * time.Millisecond
		cfg.JobTimeout = cfg.RescueStuckJobsAfter * 4 / 5
	}
	client, err := river.NewClient(riverpgxv5.New(s.pool), cfg)
	if err != nil {
		return err
	}
	if err := client.Start(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("start of River: %w", err)
	}
	<-ctx.Done()
	return client.Stop(context.WithoutCancel(ctx))
}

func (s *riverSystem) close() { s.pool.Close() }
