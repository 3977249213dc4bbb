package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/jsontype"
	"github.com/millrace/millrace/internal/ops"
	"github.com/millrace/millrace/internal/readable"
)

// scheduleCommands is the noun schedule.
type scheduleCommands struct {
	Ls     scheduleLs     `cmd:""`
	Set    scheduleSet    `cmd:""`
	Show   scheduleShow   `cmd:""`
	Next   scheduleNext   `cmd:""`
	Run    scheduleRun    `cmd:""`
	Pause  schedulePause  `cmd:""`
	Resume scheduleResume `cmd:""`
	Rm     scheduleRm     `cmd:""`
}

func (*scheduleCommands) Help() string {
	return `A schedule writes one message to its queue at each of its ticks. It is stored with the queue, and the programs that read the queue keep it: there is no other process to run. A tick is a time by the server's clock.

Examples:

    millrace schedule set reports daily --cron "0 3 * * *" --zone Europe/Berlin --tenant acme --body '{"report":"daily"}'
    millrace schedule next --cron "0 3 * * *" --zone Europe/Berlin
    millrace schedule ls`
}

// onSchedule does an operation on a schedule, and prints its result as a table of the command.
func onSchedule[Out any](ctx context.Context, a *app, o ops.Operation[*fairqueue.Queue, ops.ScheduleName, Out], name ops.ScheduleName, as func(Out) table) error {
	return onQueue(ctx, a, ops.Queue{Name: name.Queue}, o, name, as)
}

func lineOfSchedule(s ops.Schedule) table { return says("%s", scheduleLine(s)) }

// scheduleLine says in a line when a schedule ticks.
func scheduleLine(s ops.Schedule) string {
	text := fmt.Sprintf("%s: %s", s.Name, when(s))
	if s.Paused {
		return text + ", paused"
	}
	if s.Next != nil {
		text += ", next " + upcoming(*s.Next, time.Now())
	}
	return text
}

// when says when a schedule ticks, with its zone.
func when(s ops.Schedule) string {
	if s.Zone == "" {
		return s.Words
	}
	return s.Words + " (" + s.Zone + ")"
}

// upcoming writes an instant, and how far away it is.
func upcoming(at, now time.Time) string {
	text := at.Local().Format(time.DateTime)
	if at.Before(now) {
		return text + ", due for " + readable.Duration(now.Sub(at).Round(time.Second))
	}
	return text + ", in " + readable.Duration(at.Sub(now).Round(time.Second))
}

type scheduleLs struct {
	watchable
	Queue jsontype.Text `placeholder:"QUEUE" doc:"Only the schedules of this queue. Defaults to all registered queues."`
}

func (*scheduleLs) Help() string {
	return `NEXT and LAST are ticks, in the time zone of this machine. MISSED counts ticks without a message of their own, because nobody read the queue. If a queue cannot be read, the schedules of the others are printed, and the command fails with the code "partial".`
}

func (c *scheduleLs) Run(ctx context.Context, a *app) error {
	if c.Queue != "" {
		name := ops.Queue{Name: c.Queue}
		return onQueue(ctx, a, name, ops.ListSchedules, name, func(doc ops.Schedules) table {
			return func(w io.Writer) { tableOfSchedules(w, doc.Schedules) }
		})
	}
	client, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	list, part, failed := allSchedules(ctx, client)
	if failed != nil && part == (ops.Incomplete{}) {
		return failed
	}
	return errors.Join(a.print(ops.Schedules{Schedules: list, Incomplete: part}, func(w io.Writer) { tableOfSchedules(w, list) }), failed)
}

// allSchedules lists the schedules of all registered queues. With an error derived from
// [millrace.ErrPartial], some are missing.
func allSchedules(ctx context.Context, client rueidis.Client) (list []ops.Schedule, part ops.Incomplete, failed error) {
	names, part, failed := ops.Names(fairqueue.List(ctx, client), nil)
	if failed != nil && part == (ops.Incomplete{}) {
		return nil, part, failed
	}
	list = []ops.Schedule{}
	for _, name := range names {
		q, err := fairqueue.New(client, string(name), fairqueue.Config{})
		if err != nil {
			return nil, part, err
		}
		of, err := ops.ListSchedules.Do(ctx, q, ops.Queue{})
		switch {
		case ctx.Err() != nil:
			return nil, ops.Incomplete{}, context.Cause(ctx)
		case err != nil:
			missing := millrace.ErrPartial.Errorf("the schedules of the queue %s could not be read: %s", name, err)
			part, failed = ops.Incomplete{Incomplete: missing.Message}, missing
		}
		list = append(list, of.Schedules...)
	}
	return list, part, failed
}

func tableOfSchedules(w io.Writer, list []ops.Schedule) {
	if len(list) == 0 {
		fmt.Fprintln(w, "there are no schedules")
		return
	}
	now := time.Now()
	fmt.Fprintln(w, "QUEUE\tNAME\tWHEN\tZONE\tNEXT\tLAST\tMISSED\tSTATE")
	for _, s := range list {
		next, last, state, zone := "-", "-", "on", "-"
		if s.Next != nil {
			next = upcoming(*s.Next, now)
		}
		if s.Last != nil {
			last = s.Last.Local().Format(time.DateTime)
		}
		if s.Paused {
			state = "paused"
		} else if s.Trouble != "" {
			state = "waits: " + s.Trouble
		}
		if s.Zone != "" {
			zone = s.Zone
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\n", s.Queue, s.Name, s.Words, zone, next, last, s.MissedTicks, state)
	}
}

type scheduleShow struct {
	watchable
	ops.ScheduleName
}

func (c *scheduleShow) Run(ctx context.Context, a *app) error {
	return onSchedule(ctx, a, ops.GetSchedule, c.ScheduleName, func(doc ops.Schedule) table {
		return func(w io.Writer) { tableOfSchedule(w, doc) }
	})
}

func tableOfSchedule(w io.Writer, s ops.Schedule) {
	fmt.Fprintln(w, scheduleLine(s))
	if s.Last != nil {
		fmt.Fprintf(w, "last\t%s, message %s\n", s.Last.Local().Format(time.DateTime), s.LastID)
	}
	fmt.Fprintf(w, "ticks\t%d\n", s.Ticks)
	fmt.Fprintf(w, "missed\t%d, and of those that are missed it writes: %s\n", s.MissedTicks, missedInWords[s.Missed])
	if s.Jitter > 0 {
		fmt.Fprintf(w, "jitter\tup to %s after the tick\n", readable.Duration(time.Duration(s.Jitter)*time.Millisecond))
	}
	fmt.Fprintf(w, "tenant\t%s\n", s.Tenant)
	if s.Priority != 0 {
		fmt.Fprintf(w, "priority\t%d\n", s.Priority)
	}
	if s.Cost != 0 {
		fmt.Fprintf(w, "cost\t%d\n", s.Cost)
	}
	if s.Deadline > 0 {
		fmt.Fprintf(w, "deadline\t%s after the write\n", readable.Duration(time.Duration(s.Deadline)*time.Millisecond))
	}
	for name, value := range sortedHeaders(s.Headers) {
		fmt.Fprintf(w, "header\t%s=%s\n", jsontype.Text(name), value)
	}
	fmt.Fprintf(w, "body\t%s\n", excerpt(s.Body))
}

var missedInWords = map[string]string{"once": "one message", "skip": "none", "all": "one message each"}

type scheduleRun struct{ ops.ScheduleName }

func (c *scheduleRun) Run(ctx context.Context, a *app) error {
	return onSchedule(ctx, a, ops.RunSchedule, c.ScheduleName, func(doc ops.RanSchedule) table { return says("%s written", doc.ID) })
}

type schedulePause struct{ ops.ScheduleName }

func (c *schedulePause) Run(ctx context.Context, a *app) error {
	return onSchedule(ctx, a, ops.PauseSchedule, c.ScheduleName, lineOfSchedule)
}

type scheduleResume struct{ ops.ScheduleName }

func (c *scheduleResume) Run(ctx context.Context, a *app) error {
	return onSchedule(ctx, a, ops.ResumeSchedule, c.ScheduleName, lineOfSchedule)
}

type scheduleRm struct {
	ops.ScheduleName
	Yes bool `help:"Do not ask."`
}

func (*scheduleRm) Help() string { return `It asks first.` }

func (c *scheduleRm) Run(ctx context.Context, a *app) error {
	return queueName{ops.Queue{Name: c.Queue}}.with(ctx, a, fairqueue.Config{}, func(q *fairqueue.Queue) (any, table, error) {
		s, err := ops.GetSchedule.Do(ctx, q, c.ScheduleName)
		if err != nil {
			return nil, nil, err
		}
		if err := a.ask(ctx, c.Yes, fmt.Sprintf("Remove %s, which ticks %s?", c.Schedule, when(s))); err != nil {
			return nil, nil, err
		}
		doc, err := ops.RemoveSchedule.Do(ctx, q, c.ScheduleName)
		return doc, says("removed"), err
	})
}
