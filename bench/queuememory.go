package main

import (
	"context"
	"errors"
	"strings"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/cmd/millrace/bench"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/connect"
)

func queueMemoryFigures() []bench.Figure {
	return []bench.Figure{
		waitingFigure("fairqueue memory of a message of 100 bytes that waits", 100, 2.8),
		waitingFigure("fairqueue memory of a message of 1 kB that waits", 1000, 1.4),
	}
}

// waitingFigure compares what a message takes that waits.
func waitingFigure(what string, size int, goal float64) bench.Figure {
	return bench.Figure{What: what, Unit: "bytes", Sides: []bench.Side{
		{Name: "fairqueue", Measure: waiting(func(ctx context.Context, own *connect.Instance, n int) error {
			q, err := fairqueue.New(own.Client, "bench", fairqueue.Config{})
			if err != nil {
				return err
			}
			body := make([]byte, size)
			return bench.Deal(ctx, n, func(ctx context.Context, i int) error {
				_, err := q.Write(ctx, fairqueue.Draft{Tenant: queueTenant(i), Body: body})
				return err
			})
		})},
		{Name: "stream", Goal: bench.AtMost(goal), Measure: waiting(func(ctx context.Context, own *connect.Instance, n int) error {
			body := strings.Repeat("x", size)
			return bench.Deal(ctx, n, func(ctx context.Context, _ int) error {
				return own.Client.Do(ctx, own.Client.B().Xadd().Key("bench").Id("*").FieldValue().FieldValue("b", body).Build()).Error()
			})
		})},
		{Name: "asynq", Goal: bench.AtMost(1), Measure: waiting(func(ctx context.Context, own *connect.Instance, n int) error {
			clients, err := info(ctx, own.Client, "clients", "connected_clients")
			if err != nil {
				return err
			}
			if err := onAsynq(own.URL, func(_ *redis.Client, queue *asynq.Client) error {
				return enqueue(ctx, queue, "bench", n, size)
			}); err != nil {
				return err
			}
			for left := clients + 1; left > clients && err == nil; { // the memory of connections is no message's
				left, err = info(ctx, own.Client, "clients", "connected_clients")
			}
			return err
		})},
	}}
}

// waitingMessages is how many wait where their memory is measured.
const waitingMessages = 20_000

// waiting returns how many bytes of the memory of a server that has nothing else a message
// takes, of those that write writes.
func waiting(write func(ctx context.Context, own *connect.Instance, n int) error) bench.Measure {
	return func(ctx context.Context, at bench.Place) (bytes float64, err error) {
		own, err := connect.Embedded(ctx, connect.EmbeddedConfig{})
		if err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, own.Close()) }()
		before, err := usedMemory(ctx, own.Client)
		if err != nil {
			return 0, err
		}
		n := at.Scaled(waitingMessages)
		if err := write(ctx, own, n); err != nil {
			return 0, err
		}
		after, err := usedMemory(ctx, own.Client)
		return float64(after-before) / float64(n), err
	}
}
