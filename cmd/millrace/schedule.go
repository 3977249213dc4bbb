package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/document"
	"github.com/millrace/millrace/internal/ops"
	"github.com/millrace/millrace/internal/readable"
)

// scheduleCommands is the noun schedule.
type scheduleCommands struct {
	Ls     scheduleLs     `cmd:"" help:"List the schedules of all queues, or of one."`
	Set    scheduleSet    `cmd:"" help:"Create a schedule, or replace it."`
	Show   scheduleShow   `cmd:"" help:"Show a schedule, its message and its state."`
	Next   scheduleNext   `cmd:"" help:"Show the next runs of a schedule, or of an expression that is not stored."`
	Run    scheduleRun    `cmd:"" help:"Write its message once, now."`
	Pause  schedulePause  `cmd:"" help:"Let a schedule rest."`
	Resume scheduleResume `cmd:"" help:"Let a schedule tick again."`
	Rm     scheduleRm     `cmd:"" help:"Remove a schedule."`
}

func (*scheduleCommands) Help() string {
	return `A schedule writes one message to its queue at each of its ticks. It is stored with the queue, and the programs that read the queue keep it: there is no other process to run. A tick is a time by the server's clock.

Examples:

    millrace schedule set reports daily --cron "0 3 * * *" --zone Europe/Berlin --tenant acme --body '{"report":"daily"}'
    millrace schedule next --cron "0 3 * * *" --zone Europe/Berlin
    millrace schedule ls`
}

// scheduleName are the arguments that name a schedule.
type scheduleName struct {
	Queue document.Text `arg:"" complete:"queue" help:"The queue's name."`
	Name  document.Text `arg:"" complete:"schedule" help:"The schedule's name."`
}

// with opens the queue for do.
func (n scheduleName) with(ctx context.Context, a *app, do func(*fairqueue.Queue) (any, table, error)) error {
	return queueName{ops.Queue{Name: n.Queue}}.with(ctx, a, fairqueue.Config{}, do)
}

// show prints the state of the schedule after a change.
func (n scheduleName) show(ctx context.Context, q *fairqueue.Queue, err error) (any, table, error) {
	if err != nil {
		return nil, nil, err
	}
	s, err := q.Schedules().Get(ctx, string(n.Name))
	doc := document.OfSchedule(string(n.Queue), s)
	return doc, says("%s", scheduleLine(doc)), err
}

// scheduleLine says in a line when a schedule ticks.
func scheduleLine(s document.Schedule) string {
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
func when(s document.Schedule) string {
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
	Queue document.Text `placeholder:"QUEUE" help:"Only the schedules of this queue. Defaults to all registered queues."`
}

func (*scheduleLs) Help() string {
	return `NEXT and LAST are ticks, in the time zone of this machine. MISSED counts ticks without a message of their own, because nobody read the queue. If a queue cannot be read, the schedules of the others are printed, and the command fails with the code "partial".

Examples:

    millrace schedule ls
    millrace schedule ls --queue reports --json`
}

func (c *scheduleLs) Run(ctx context.Context, a *app) error {
	if c.Queue != "" {
		return queueName{ops.Queue{Name: c.Queue}}.with(ctx, a, fairqueue.Config{}, func(q *fairqueue.Queue) (any, table, error) {
			list, err := document.OfSchedules(q.Name(), q.Schedules().All(ctx))
			return document.Schedules{Schedules: list}, func(w io.Writer) { tableOfSchedules(w, list) }, err
		})
	}
	client, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	list, part, failed := allSchedules(ctx, client)
	if failed != nil && part == (document.Incomplete{}) {
		return failed
	}
	return errors.Join(a.print(document.Schedules{Schedules: list, Incomplete: part}, func(w io.Writer) { tableOfSchedules(w, list) }), failed)
}

// allSchedules lists the schedules of all registered queues. With an error derived from
// [millrace.ErrPartial], some are missing.
func allSchedules(ctx context.Context, client rueidis.Client) (list []document.Schedule, part document.Incomplete, failed error) {
	var names []string
	for name, err := range fairqueue.List(ctx, client) {
		if err != nil {
			failed = err
			continue
		}
		names = append(names, name)
	}
	part, ok := document.OfList(failed)
	if !ok {
		return nil, part, failed
	}
	slices.Sort(names)
	list = []document.Schedule{}
	for _, name := range names {
		q, err := fairqueue.New(client, name, fairqueue.Config{})
		if err != nil {
			return nil, part, err
		}
		of, err := document.OfSchedules(name, q.Schedules().All(ctx))
		switch {
		case ctx.Err() != nil:
			return nil, document.Incomplete{}, context.Cause(ctx)
		case err != nil:
			missing := millrace.ErrPartial.Errorf("the schedules of the queue %s could not be read: %s", document.Text(name), err)
			part, failed = document.Incomplete{Incomplete: missing.Message}, missing
		}
		list = append(list, of...)
	}
	return list, part, failed
}

func tableOfSchedules(w io.Writer, list []document.Schedule) {
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
	scheduleName
}

func (*scheduleShow) Help() string {
	return `Examples:

    millrace schedule show reports daily
    millrace schedule show reports daily --json | jq .next_at`
}

func (c *scheduleShow) Run(ctx context.Context, a *app) error {
	return c.with(ctx, a, func(q *fairqueue.Queue) (any, table, error) {
		s, err := q.Schedules().Get(ctx, string(c.Name))
		doc := document.OfSchedule(string(c.Queue), s)
		return doc, func(w io.Writer) { tableOfSchedule(w, doc) }, err
	})
}

func tableOfSchedule(w io.Writer, s document.Schedule) {
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
		fmt.Fprintf(w, "header\t%s=%s\n", document.Text(name), value)
	}
	fmt.Fprintf(w, "body\t%s\n", excerpt(s.Body))
}

var missedInWords = map[string]string{"once": "one message", "skip": "none", "all": "one message each"}

type scheduleRun struct {
	scheduleName
}

func (*scheduleRun) Help() string {
	return `The ticks stay as they are. A schedule that is paused can be run, too. If you run it again after a lost answer, it may write a second message.

Examples:

    millrace schedule run reports daily`
}

func (c *scheduleRun) Run(ctx context.Context, a *app) error {
	return c.with(ctx, a, func(q *fairqueue.Queue) (any, table, error) {
		id, err := q.Schedules().Run(ctx, string(c.Name))
		return document.RanSchedule{ID: id}, says("%s written", id), err
	})
}

type schedulePause struct {
	scheduleName
}

func (*schedulePause) Help() string {
	return `Ticks during the pause write no message, also after it.

Examples:

    millrace schedule pause reports daily`
}

func (c *schedulePause) Run(ctx context.Context, a *app) error {
	return c.with(ctx, a, func(q *fairqueue.Queue) (any, table, error) {
		return c.show(ctx, q, q.Schedules().Pause(ctx, string(c.Name)))
	})
}

type scheduleResume struct {
	scheduleName
}

func (*scheduleResume) Help() string {
	return `The next tick is the first one from now on.

Examples:

    millrace schedule resume reports daily`
}

func (c *scheduleResume) Run(ctx context.Context, a *app) error {
	return c.with(ctx, a, func(q *fairqueue.Queue) (any, table, error) {
		return c.show(ctx, q, q.Schedules().Resume(ctx, string(c.Name)))
	})
}

type scheduleRm struct {
	scheduleName
	Yes bool `help:"Do not ask."`
}

func (*scheduleRm) Help() string {
	return `It asks first. Messages that it has written stay.

Examples:

    millrace schedule rm reports daily --yes`
}

func (c *scheduleRm) Run(ctx context.Context, a *app) error {
	return c.with(ctx, a, func(q *fairqueue.Queue) (any, table, error) {
		s, err := q.Schedules().Get(ctx, string(c.Name))
		if err != nil {
			return nil, nil, err
		}
		question := fmt.Sprintf("Remove %s, which ticks %s?", c.Name, when(document.OfSchedule(string(c.Queue), s)))
		if err := a.ask(ctx, c.Yes, question); err != nil {
			return nil, nil, err
		}
		return document.Removed{Removed: true}, says("removed"), q.Schedules().Remove(ctx, string(c.Name))
	})
}
