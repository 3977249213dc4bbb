// Package after is the program of package before with Millrace.
package after

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"
	"github.com/riverqueue/river"

	"github.com/millrace/millrace/examples/from/mail"
	"github.com/millrace/millrace/examples/from/river/before"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/schedule/cron"
)

// Mails is a queue whose bodies are JSON, as River's arguments are.
type Mails = fairqueue.Typed[mail.Mail]

// Open returns the queue of the mails.
func Open(client rueidis.Client) (Mails, error) {
	q, err := fairqueue.New(client, "mails", fairqueue.Config{MaxAttempts: 10, DedupeWindow: 24 * time.Hour})
	return Mails{Queue: q}, err
}

// Forwarder is a worker of River that sends each job on. So a mail is still enqueued in the transaction.
type Forwarder struct {
	river.WorkerDefaults[before.MailArgs]

	Mails Mails
}

// Work sends one job on.
func (f *Forwarder) Work(ctx context.Context, job *river.Job[before.MailArgs]) error {
	return Enqueue(ctx, f.Mails, job.Args.Mail, 0)
}

// Enqueue has a mail sent after a delay. It is for mails that belong to no transaction.
func Enqueue(ctx context.Context, mails Mails, m mail.Mail, delay time.Duration) error {
	_, err := mails.Write(ctx, m, fairqueue.Draft{Tenant: m.Customer, DedupeID: m.Key, Delay: delay})
	return err
}

// Serve handles messages until the context ends.
func Serve(ctx context.Context, mails Mails, send mail.Send) error {
	return mails.Consume(ctx, fairqueue.ConsumeConfig{Concurrency: 10, Timeout: time.Minute},
		func(ctx context.Context, message fairqueue.Message, m mail.Mail) error {
			if tick, ok := message.Headers[fairqueue.HeaderTick]; ok {
				day, err := time.Parse(time.RFC3339, tick)
				if err != nil {
					return fairqueue.NoRetry(fmt.Errorf("the tick of a schedule: %w", err))
				}
				m = mail.Digest(day)
			}
			err := send(ctx, m)
			if errors.Is(err, mail.ErrNoAddress) {
				return fairqueue.NoRetry(err)
			}
			if busy := new(mail.BusyError); errors.As(err, &busy) {
				return fairqueue.Throttle(busy.After, err) // the customer's mails wait, and no others
			}
			return err
		})
}

// Schedule sends a digest each day. Each process may call it.
func Schedule(ctx context.Context, mails Mails) error {
	daily, err := cron.Parse("0 7 * * *", "UTC")
	if err != nil {
		return err
	}
	return mails.Queue.Schedules().Set(ctx, fairqueue.Schedule{
		Name: "digest", Spec: daily, Draft: fairqueue.Draft{Tenant: "us", Body: []byte("{}")},
	})
}

// RetryDead tries dead letters again.
func RetryDead(ctx context.Context, mails Mails) (int, error) {
	n, _, err := mails.Queue.Retry(ctx, fairqueue.SearchConfig{State: fairqueue.Dead})
	return n, err
}
