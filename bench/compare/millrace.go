package main

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/dial"
	"github.com/millrace/millrace/fairqueue"
)

var millracePeer = &peer{
	Name: "millrace", Title: "Millrace", Version: "this tree", batches: true, missing: always,
	Settings: []setting{
		{"`Config` and `ConsumeConfig` at their defaults, but for `Concurrency`", "they need no tuning"},
		{"`Visibility` of 5 s in the crashes", "a killed worker's messages come again after it; handlers are short"},
	},
	connect: func(ctx context.Context, j *job) (system, error) { return connectMillrace(ctx, j) },
}

// millraceCallsPeer has no Consume: its workers read, handle and acknowledge by themselves.
var millraceCallsPeer = &peer{
	Name: "millrace-calls", Title: "Millrace, `Write`, `Read`, `Ack`", Version: millracePeer.Version, batches: true, missing: always,
	connect: func(ctx context.Context, j *job) (system, error) {
		s, err := connectMillrace(ctx, j)
		return millraceCalls{s}, err
	},
}

func connectMillrace(ctx context.Context, j *job) (*millraceSystem, error) {
	client, err := dial.Redis(ctx, j.URL)
	if err != nil {
		return nil, err
	}
	queue, err := fairqueue.New(client, "compared", fairqueue.Config{Streams: j.Streams})
	if err != nil {
		client.Close()
		return nil, err
	}
	return &millraceSystem{client: client, queue: queue, job: j}, nil
}

type millraceSystem struct {
	client rueidis.Client
	queue  *fairqueue.Queue
	job    *job
	held   map[string]error // the results of the messages of the last round, by receipt
}

// round makes the call that Consume makes. How many messages share one of Consume's is chance.
func (s *millraceSystem) round(ctx context.Context, n int) error {
	messages, _, err := s.queue.Exchange(ctx, s.held, fairqueue.ReadConfig{Max: n, Worker: "rounds", Concurrency: 1000})
	if err != nil {
		return err
	}
	if len(messages) != n {
		return fmt.Errorf("a round took %d messages, want %d", len(messages), n)
	}
	s.held = make(map[string]error, n)
	for _, m := range messages {
		s.held[m.Receipt] = nil
	}
	return nil
}

func (s *millraceSystem) write(ctx context.Context, messages []message) error {
	drafts := make([]fairqueue.Draft, len(messages))
	for i, m := range messages {
		drafts[i] = fairqueue.Draft{Tenant: tenantName(m.tenant), Body: []byte(m.body)}
	}
	if len(drafts) == 1 {
		_, err := s.queue.Write(ctx, drafts[0])
		return err
	}
	_, err := s.queue.WriteBatch(ctx, drafts...)
	return err
}

func (s *millraceSystem) work(ctx context.Context, handle func(body string)) error {
	cfg := fairqueue.ConsumeConfig{Concurrency: s.job.Concurrency, Visibility: time.Duration(s.job.VisibilityMs) * time.Millisecond}
	return s.queue.Consume(ctx, cfg, func(_ context.Context, m fairqueue.Message) error {
		handle(string(m.Body))
		return nil
	})
}

func (s *millraceSystem) close() { s.client.Close() }

type millraceCalls struct{ *millraceSystem }

func (s millraceCalls) step(ctx context.Context, n int) (acknowledge func() error, err error) {
	messages, err := s.queue.Read(ctx, fairqueue.ReadConfig{Max: n})
	if err == nil && len(messages) != n {
		err = fmt.Errorf("a read returned %d messages, want %d", len(messages), n)
	}
	receipts := make([]string, len(messages))
	for i, m := range messages {
		receipts[i] = m.Receipt
	}
	return func() error {
		_, err := s.queue.Ack(ctx, receipts...)
		return err
	}, err
}

func (s millraceCalls) work(ctx context.Context, handle func(body string)) error {
	return loops(ctx, s.job.Concurrency, func(ctx context.Context, _ int) error {
		messages, err := s.queue.Read(ctx, fairqueue.ReadConfig{Block: time.Second})
		for _, m := range messages {
			handle(string(m.Body))
			_, err = s.queue.Ack(ctx, m.Receipt)
		}
		return err
	})
}
