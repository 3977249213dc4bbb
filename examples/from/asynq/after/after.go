// Package after is the program of package before with Millrace.
package after

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/examples/from/mail"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/schedule/cron"
)

// Open returns the queue of the mails.
func Open(client rueidis.Client) (*fairqueue.Queue, error) {
	return fairqueue.New(client, "mails", fairqueue.Config{MaxAttempts: 10, DedupeWindow: 24 * time.Hour})
}

// Enqueue has a mail sent after a delay.
func Enqueue(ctx context.Context, q *fairqueue.Queue, m mail.Mail, delay time.Duration) error {
	body, err := json.Marshal(m)
	if err != nil {
		return err
	}
	_, err = q.Write(ctx, fairqueue.Draft{
		Tenant: m.Customer, Headers: map[string]string{"type": "mail"}, Body: body, DedupeID: m.Key, Delay: delay,
	})
	return err
}

// Mux handles each type of message.
func Mux(send mail.Send) fairqueue.Handler {
	handlers := map[string]fairqueue.Handler{
		"mail": func(ctx context.Context, message fairqueue.Message) error {
			var m mail.Mail
			if err := json.Unmarshal(message.Body, &m); err != nil {
				return fairqueue.NoRetry(err)
			}
			err := send(ctx, m)
			if errors.Is(err, mail.ErrNoAddress) {
				return fairqueue.NoRetry(err)
			}
			if busy := new(mail.BusyError); errors.As(err, &busy) {
				return fairqueue.Throttle(busy.After, err) // the customer's mails wait, and no others
			}
			return err
		},
		"digest": func(ctx context.Context, message fairqueue.Message) error {
			day := message.Written // of a task that was moved
			if tick, err := time.Parse(time.RFC3339, message.Headers[fairqueue.HeaderTick]); err == nil {
				day = tick
			}
			return send(ctx, mail.Digest(day))
		},
	}
	return func(ctx context.Context, message fairqueue.Message) error {
		handle, ok := handlers[message.Headers["type"]]
		if !ok {
			return fmt.Errorf("no handler for %q", message.Headers["type"]) // a newer program may have one
		}
		return handle(ctx, message)
	}
}

// Serve handles messages until the context ends.
func Serve(ctx context.Context, q *fairqueue.Queue, send mail.Send) error {
	return q.Consume(ctx, fairqueue.ConsumeConfig{Concurrency: 10, Timeout: time.Minute}, Mux(send))
}

// Schedule sends a digest each day. Each process may call it.
func Schedule(ctx context.Context, q *fairqueue.Queue) error {
	daily, err := cron.Parse("0 7 * * *", "UTC")
	if err != nil {
		return err
	}
	return q.Schedules().Set(ctx, fairqueue.Schedule{
		Name: "digest", Spec: daily, Draft: fairqueue.Draft{Tenant: "us", Headers: map[string]string{"type": "digest"}},
	})
}

// RetryDead tries dead letters again.
func RetryDead(ctx context.Context, q *fairqueue.Queue) (int, error) {
	n, _, err := q.Retry(ctx, fairqueue.SearchConfig{State: fairqueue.Dead})
	return n, err
}
