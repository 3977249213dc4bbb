package api

import (
	"context"
	"net/http"
	"time"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/document"
	"github.com/millrace/millrace/internal/ops"
)

const (
	schedulesPath = queuePath + "/schedules"
	schedulePath  = schedulesPath + "/{schedule}"
)

// routeSchedules adds schedules: messages that a queue writes by the clock.
func (a *API) routeSchedules() {
	onQueue(a, op(http.MethodGet, schedulesPath, "listSchedules", "List the schedules of a queue",
		"By name, with their state. A queue that does not exist has none."), listSchedules)
	onQueue(a, op(http.MethodGet, schedulePath, "getSchedule", "Show a schedule",
		"What it writes, when, and its state.", http.StatusNotFound), getSchedule)
	onQueue(a, op(http.MethodPut, schedulePath, "setSchedule", "Create a schedule, or replace it",
		"Creates the queue if there is none. The schedule is replaced as a whole; if it ticks at the same times as before, its next tick stays. The answer is the schedule with its next tick.",
		http.StatusInsufficientStorage), setSchedule)
	onQueue(a, op(http.MethodDelete, schedulePath, "removeSchedule", "Remove a schedule",
		"Messages that it has written stay.", http.StatusNotFound),
		func(ctx context.Context, q *fairqueue.Queue, in *ScheduleNamed) (document.Removed, error) {
			return document.Removed{Removed: true}, q.Schedules().Remove(ctx, in.Schedule)
		})
	onQueue(a, op(http.MethodPost, schedulePath+"/pause", "pauseSchedule", "Pause a schedule",
		"Ticks during the pause write no message, also after it.", http.StatusNotFound),
		changeSchedule(fairqueue.Schedules.Pause))
	onQueue(a, op(http.MethodPost, schedulePath+"/resume", "resumeSchedule", "Resume a schedule",
		"The next tick is the first one from now on.", http.StatusNotFound),
		changeSchedule(fairqueue.Schedules.Resume))
	onQueue(a, op(http.MethodPost, schedulePath+"/run", "runSchedule", "Write the message of a schedule once, now",
		"The ticks stay as they are. A paused schedule can be run, too.", http.StatusCreated, http.StatusNotFound, http.StatusInsufficientStorage),
		func(ctx context.Context, q *fairqueue.Queue, in *scheduleWith[*ops.Nothing]) (doc document.RanSchedule, err error) {
			doc.ID, err = q.Schedules().Run(ctx, in.Schedule)
			return doc, err
		})
	onQueue(a, op(http.MethodGet, schedulePath+"/next", "nextTicks", "Show the next ticks of a schedule",
		"In UTC and in its time zone. If the schedule is paused, those that it would have if it were resumed now.", http.StatusNotFound), nextTicks)
	register(a, op(http.MethodGet, "/v1/schedules/preview", "previewTicks", "Show the next ticks of a schedule that is not stored",
		"To check an interval or a cron expression. Nothing is stored, and Redis is not asked."), previewTicks)
}

// ScheduleNamed is a request about a schedule of a queue.
type ScheduleNamed struct {
	Named

	Schedule string `path:"schedule" doc:"The schedule's name: 1 to 512 bytes, percent-encoded." example:"daily"`
}

type scheduleWith[B any] struct {
	ScheduleNamed

	Body B
}

func listSchedules(ctx context.Context, q *fairqueue.Queue, _ *Named) (document.Schedules, error) {
	list, err := document.OfSchedules(q.Name(), q.Schedules().All(ctx))
	return document.Schedules{Schedules: list}, err
}

func getSchedule(ctx context.Context, q *fairqueue.Queue, in *ScheduleNamed) (document.Schedule, error) {
	s, err := q.Schedules().Get(ctx, in.Schedule)
	return document.OfSchedule(q.Name(), s), err
}

func setSchedule(ctx context.Context, q *fairqueue.Queue, in *scheduleWith[document.ScheduleDraft]) (doc document.Schedule, err error) {
	s, err := in.Body.Schedule(in.Schedule)
	if err != nil {
		return doc, err
	}
	if err := q.Schedules().Set(ctx, s); err != nil {
		return doc, err
	}
	return getSchedule(ctx, q, &in.ScheduleNamed)
}

// changeSchedule returns an operation that answers with the schedule after a change.
func changeSchedule(change func(fairqueue.Schedules, context.Context, string) error) func(context.Context, *fairqueue.Queue, *scheduleWith[*ops.Nothing]) (document.Schedule, error) {
	return func(ctx context.Context, q *fairqueue.Queue, in *scheduleWith[*ops.Nothing]) (doc document.Schedule, err error) {
		if err := change(q.Schedules(), ctx, in.Schedule); err != nil {
			return doc, err
		}
		return getSchedule(ctx, q, &in.ScheduleNamed)
	}
}

// MaxTicks limits the ticks of an answer.
type MaxTicks struct {
	Max int `query:"max" default:"10" minimum:"1" maximum:"1000" doc:"How many ticks."`
}

type nextRequest struct {
	ScheduleNamed
	MaxTicks
}

func nextTicks(ctx context.Context, q *fairqueue.Queue, in *nextRequest) (doc document.Ticks, err error) {
	s, err := q.Schedules().Get(ctx, in.Schedule)
	if err != nil {
		return doc, err
	}
	if s.Paused {
		s.Next = time.Time{}
	}
	return document.OfTicks(s.Spec, time.Now(), s.Next, in.Max), nil
}

type previewRequest struct {
	MaxTicks

	Every document.Duration `query:"every" doc:"The interval, at least 1s. Either this or cron." example:"15m"`
	Cron  string            `query:"cron" doc:"A cron expression of five fields." example:"0 3 * * *"`
	Zone  string            `query:"zone" doc:"The time zone of cron, by its IANA name. Defaults to UTC." example:"Europe/Berlin"`
}

func previewTicks(_ context.Context, in *previewRequest) (doc document.Ticks, err error) {
	spec, err := document.Timing{Every: in.Every, Cron: in.Cron, Zone: in.Zone}.Spec()
	if err != nil {
		return doc, err
	}
	return document.OfTicks(spec, time.Now(), time.Time{}, in.Max), nil
}
