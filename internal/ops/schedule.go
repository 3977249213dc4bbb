package ops

import (
	"context"
	"net/http"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/jsontype"
)

const (
	schedulesPath = queuePath + "/schedules"
	schedulePath  = schedulesPath + "/{schedule}"
)

// ScheduleName names a schedule of a queue.
type ScheduleName struct {
	Queue    jsontype.Text `arg:"" path:"name" complete:"queue" doc:"The queue's name, 1 to 512 bytes." example:"\"reports\""`
	Schedule jsontype.Text `arg:"" name:"name" path:"schedule" complete:"schedule" doc:"The schedule's name, 1 to 512 bytes." example:"\"daily\""`
}

// Structure returns the name of the queue.
func (s ScheduleName) Structure() string { return string(s.Queue) }

// state returns the schedule with its state.
func (s ScheduleName) state(ctx context.Context, q *fairqueue.Queue) (Schedule, error) {
	state, err := q.Schedules().Get(ctx, string(s.Schedule))
	return OfSchedule(q.Name(), state), err
}

// ListSchedules lists the schedules of a queue.
var ListSchedules = operation(Row{
	ID: "listSchedules", Words: "schedule ls", Method: http.MethodGet, Path: schedulesPath,
	Class:    Look,
	Summary:  "List schedules",
	Detail:   "By name, with their state. A queue that does not exist has none.",
	Examples: []string{"schedule ls", "schedule ls --queue reports --json"},
}, func(ctx context.Context, q *fairqueue.Queue, _ Queue) (Schedules, error) {
	list, err := OfSchedules(q.Name(), q.Schedules().All(ctx))
	return Schedules{Schedules: list}, err
})

// GetSchedule shows a schedule.
var GetSchedule = operation(Row{
	ID: "getSchedule", Words: "schedule show", Method: http.MethodGet, Path: schedulePath, Statuses: []int{http.StatusNotFound},
	Class:    Look,
	Summary:  "Show a schedule",
	Detail:   "What it writes, when, and its state.",
	Examples: []string{"schedule show reports daily", "schedule show reports daily --json | jq .next_at"},
}, func(ctx context.Context, q *fairqueue.Queue, in ScheduleName) (Schedule, error) {
	return in.state(ctx, q)
})

// SetSchedule stores a schedule.
var SetSchedule = operation(Row{
	ID: "setSchedule", Words: "schedule set", Method: http.MethodPut, Path: schedulePath, Statuses: []int{http.StatusInsufficientStorage},
	Class: Change, Action: "schedule.set", Form: "schedules/new",
	Summary: "Create a schedule, or replace it",
	Detail:  "Creates the queue if there is none. The schedule is replaced as a whole; if it ticks at the same times as before, its next tick stays. The answer is the schedule with its next tick.",
	Examples: []string{
		`schedule set reports daily --cron "0 3 * * *" --zone Europe/Berlin --tenant acme --body '{"report":"daily"}'`,
		"schedule set feeds poll --every 15m --jitter 1m --missed skip --tenant acme",
		`schedule set reports weekly --cron "30 6 * * mon" --tenant acme --file report.json`,
	},
}, func(ctx context.Context, q *fairqueue.Queue, in ScheduleToSet) (doc Schedule, err error) {
	s, err := in.ScheduleDraft.Schedule(string(in.ScheduleName.Schedule))
	if err != nil {
		return doc, err
	}
	if err := q.Schedules().Set(ctx, s); err != nil {
		return doc, err
	}
	return in.state(ctx, q)
})

// ScheduleToSet is the In of [SetSchedule].
type ScheduleToSet struct {
	ScheduleName
	ScheduleDraft
}

// RemoveSchedule removes a schedule.
var RemoveSchedule = operation(Row{
	ID: "removeSchedule", Words: "schedule rm", Method: http.MethodDelete, Path: schedulePath, Statuses: []int{http.StatusNotFound},
	Class: Change, Action: "schedule.remove", Form: "schedules/remove",
	Summary:  "Remove a schedule",
	Detail:   "Messages that it has written stay.",
	Examples: []string{"schedule rm reports daily", "schedule rm reports daily --yes"},
}, func(ctx context.Context, q *fairqueue.Queue, in ScheduleName) (Removed, error) {
	return Removed{Removed: true}, q.Schedules().Remove(ctx, string(in.Schedule))
})

// PauseSchedule pauses a schedule.
var PauseSchedule = operation(Row{
	ID: "pauseSchedule", Words: "schedule pause", Method: http.MethodPost, Path: schedulePath + "/pause", Statuses: []int{http.StatusNotFound},
	Class: Change, Action: "schedule.pause", Form: "schedules/pause",
	Summary:  "Pause a schedule",
	Detail:   "Ticks during the pause write no message, also after it.",
	Examples: []string{"schedule pause reports daily"},
}, func(ctx context.Context, q *fairqueue.Queue, in ScheduleName) (doc Schedule, err error) {
	if err := q.Schedules().Pause(ctx, string(in.Schedule)); err != nil {
		return doc, err
	}
	return in.state(ctx, q)
})

// ResumeSchedule ends a pause of a schedule.
var ResumeSchedule = operation(Row{
	ID: "resumeSchedule", Words: "schedule resume", Method: http.MethodPost, Path: schedulePath + "/resume", Statuses: []int{http.StatusNotFound},
	Class: Change, Action: "schedule.resume", Form: "schedules/resume",
	Summary:  "Resume a schedule",
	Detail:   "The next tick is the first one from now on.",
	Examples: []string{"schedule resume reports daily"},
}, func(ctx context.Context, q *fairqueue.Queue, in ScheduleName) (doc Schedule, err error) {
	if err := q.Schedules().Resume(ctx, string(in.Schedule)); err != nil {
		return doc, err
	}
	return in.state(ctx, q)
})

// RunSchedule writes the message of a schedule.
var RunSchedule = operation(Row{
	ID: "runSchedule", Words: "schedule run", Method: http.MethodPost, Path: schedulePath + "/run",
	Statuses: []int{http.StatusCreated, http.StatusNotFound, http.StatusInsufficientStorage},
	Class:    Change, Action: "schedule.run", Form: "schedules/run",
	Summary:  "Write the message of a schedule once, now",
	Detail:   "The ticks stay as they are. A paused schedule can be run, too. A run that is repeated after a lost answer may write a second message, unless it has an Idempotency-Key.",
	Examples: []string{"schedule run reports daily"},
}, func(ctx context.Context, q *fairqueue.Queue, in ScheduleName) (doc RanSchedule, err error) {
	doc.ID, err = q.Schedules().Run(ctx, string(in.Schedule))
	return doc, err
})
