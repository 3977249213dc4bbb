// Package before is a program with River.
package before

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
	"github.com/robfig/cron/v3"

	"github.com/millrace/millrace/examples/from/mail"
)

// MailArgs are the arguments of a job.
type MailArgs struct {
	mail.Mail
}

// Kind is the kind of the job.
func (MailArgs) Kind() string { return "mail" }

// InsertOpts apply to each job of the kind.
func (MailArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{MaxAttempts: 10, UniqueOpts: river.UniqueOpts{ByArgs: true, ByPeriod: 24 * time.Hour}}
}

// Enqueue has a mail sent after a delay, if the transaction commits.
func Enqueue(ctx context.Context, client *river.Client[pgx.Tx], tx pgx.Tx, m mail.Mail, delay time.Duration) error {
	var opts river.InsertOpts
	if delay > 0 {
		opts.ScheduledAt = time.Now().Add(delay)
	}
	_, err := client.InsertTx(ctx, tx, MailArgs{m}, &opts)
	return err
}

// Worker works on jobs.
type Worker struct {
	river.WorkerDefaults[MailArgs]

	Send mail.Send
}

// Work works on one job.
func (w *Worker) Work(ctx context.Context, job *river.Job[MailArgs]) error {
	err := w.Send(ctx, job.Args.Mail)
	if errors.Is(err, mail.ErrNoAddress) {
		return river.JobCancel(err)
	}
	if busy := new(mail.BusyError); errors.As(err, &busy) {
		return river.JobSnooze(busy.After)
	}
	return err
}

// Config is that of the client.
func Config(send mail.Send) (*river.Config, error) {
	daily, err := cron.ParseStandard("CRON_TZ=UTC 0 7 * * *")
	if err != nil {
		return nil, err
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, &Worker{Send: send})
	return &river.Config{
		Workers: workers,
		Queues:  map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 10}},
		PeriodicJobs: []*river.PeriodicJob{river.NewPeriodicJob(daily, func() (river.JobArgs, *river.InsertOpts) {
			return MailArgs{mail.Digest(time.Now())}, nil
		}, nil)},
	}, nil
}

// RetryDead tries discarded jobs again, 100 at a time.
func RetryDead(ctx context.Context, client *river.Client[pgx.Tx]) error {
	dead, err := client.JobList(ctx, river.NewJobListParams().States(rivertype.JobStateDiscarded))
	if err != nil {
		return err
	}
	for _, job := range dead.Jobs {
		if _, err := client.JobRetry(ctx, job.ID); err != nil {
			return err
		}
	}
	return nil
}
