// Package before is a program with asynq.
package before

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/hibiken/asynq"

	"github.com/millrace/millrace/examples/from/mail"
)

// Enqueue has a mail sent after a delay.
func Enqueue(ctx context.Context, client *asynq.Client, m mail.Mail, delay time.Duration) error {
	payload, err := json.Marshal(m)
	if err != nil {
		return err
	}
	_, err = client.EnqueueContext(ctx, asynq.NewTask("mail", payload), asynq.Queue("mails"),
		asynq.TaskID(m.Key), asynq.ProcessIn(delay), asynq.MaxRetry(9), asynq.Timeout(time.Minute))
	if errors.Is(err, asynq.ErrTaskIDConflict) {
		return nil // the request came twice
	}
	return err
}

// Mux handles each type of task.
func Mux(send mail.Send) *asynq.ServeMux {
	mux := asynq.NewServeMux()
	mux.HandleFunc("mail", func(ctx context.Context, task *asynq.Task) error {
		var m mail.Mail
		if err := json.Unmarshal(task.Payload(), &m); err != nil {
			return fmt.Errorf("%w: %w", asynq.SkipRetry, err)
		}
		err := send(ctx, m)
		if errors.Is(err, mail.ErrNoAddress) {
			return fmt.Errorf("%w: %w", asynq.SkipRetry, err)
		}
		return err
	})
	mux.HandleFunc("digest", func(ctx context.Context, _ *asynq.Task) error {
		return send(ctx, mail.Digest(time.Now()))
	})
	return mux
}

// Config is that of the server, which runs Mux.
func Config() asynq.Config {
	return asynq.Config{
		Queues: map[string]int{"mails": 1}, Concurrency: 10,
		IsFailure: func(err error) bool { return !errors.As(err, new(*mail.BusyError)) }, // it is no attempt
		RetryDelayFunc: func(n int, err error, task *asynq.Task) time.Duration {
			if busy := new(mail.BusyError); errors.As(err, &busy) {
				return busy.After
			}
			return asynq.DefaultRetryDelayFunc(n, err, task)
		},
	}
}

// Schedule sends a digest each day.
func Schedule(scheduler *asynq.Scheduler) error {
	_, err := scheduler.Register("0 7 * * *", asynq.NewTask("digest", nil), asynq.Queue("mails"), asynq.Unique(time.Hour))
	return err
}

// RetryDead tries archived tasks again.
func RetryDead(inspector *asynq.Inspector) (int, error) {
	return inspector.RunAllArchivedTasks("mails")
}
