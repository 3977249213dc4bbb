package bench

import (
	"context"
	"errors"
	"strings"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/connect"
)

// MemoryOfWaiting is how the names of figures begin that measure the memory of messages.
const MemoryOfWaiting = "fairqueue memory of a message of "

func queueMemoryFigures() []Figure {
	return []Figure{
		waitingFigure(MemoryOfWaiting+"100 bytes that waits", 100, 2.8),
		waitingFigure(MemoryOfWaiting+"1 kB that waits", 1000, 1.4),
	}
}

// waitingFigure compares what a message takes that waits.
func waitingFigure(what string, size int, goal float64) Figure {
	return Figure{What: what, Unit: "bytes", Sides: []Side{
		{Name: "fairqueue", Measure: Waiting(func(ctx context.Context, own *connect.Instance, n int) error {
			q, err := fairqueue.New(own.Client, "bench", fairqueue.Config{})
			if err != nil {
				return err
			}
			body := make([]byte, size)
			return Deal(ctx, n, func(ctx context.Context, i int) error {
				_, err := q.Write(ctx, fairqueue.Draft{Tenant: tenant(i), Body: body})
				return err
			})
		})},
		{Name: "stream", Goal: AtMost(goal), Measure: Waiting(func(ctx context.Context, own *connect.Instance, n int) error {
			body := strings.Repeat("x", size)
			return Deal(ctx, n, func(ctx context.Context, _ int) error {
				return own.Client.Do(ctx, own.Client.B().Xadd().Key("bench").Id("*").FieldValue().FieldValue("b", body).Build()).Error()
			})
		})},
	}}
}

// waitingMessages is how many wait where their memory is measured.
const waitingMessages = 20_000

// Waiting returns how many bytes of the memory of a server that has nothing else a message
// takes, of those that write writes.
func Waiting(write func(ctx context.Context, own *connect.Instance, n int) error) Measure {
	return func(ctx context.Context, at Place) (bytes float64, err error) {
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
