package ops

import (
	"context"
	"net/http"
	"time"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/document"
)

// NextTicks shows the next ticks of a schedule.
var NextTicks = Operation[*fairqueue.Queue, ScheduleTicks, document.Ticks]{
	Row: Row{
		ID: "nextTicks", Words: "schedule next", Method: http.MethodGet, Path: schedulePath + "/next", Statuses: []int{http.StatusNotFound},
		Class:   Look,
		Summary: "Show the next ticks of a schedule",
		Detail:  "In UTC and in its time zone. If the schedule is paused, those that it would have if it were resumed now.",
		Examples: []string{
			`schedule next --cron "30 2 * * *" --zone Europe/Berlin --max 400`,
			"schedule next --every 36h",
			"schedule next reports daily --json",
		},
	},
	Do: func(ctx context.Context, q *fairqueue.Queue, in ScheduleTicks) (doc document.Ticks, err error) {
		s, err := q.Schedules().Get(ctx, string(in.ScheduleName.Schedule))
		if err != nil {
			return doc, err
		}
		if s.Paused {
			s.Next = time.Time{}
		}
		doc = document.OfTicks(s.Spec, time.Now(), s.Next, in.Max)
		doc.Paused = s.Paused
		return doc, nil
	},
}

// ScheduleTicks is the In of [NextTicks].
type ScheduleTicks struct {
	ScheduleName
	TicksMax
}

// TicksMax limits the ticks of an answer.
type TicksMax struct {
	Max int `query:"max" placeholder:"N" default:"10" minimum:"1" maximum:"1000" doc:"How many ticks."`
}

// PreviewTicks shows the next ticks of a schedule that is not stored.
var PreviewTicks = Operation[Nothing, TicksPreview, document.Ticks]{
	Row: Row{
		ID: "previewTicks", Method: http.MethodGet, Path: "/v1/schedules/preview",
		Only:    "schedule next shows them",
		Class:   Look,
		Summary: "Show the next ticks of a schedule that is not stored",
		Detail:  "To check an interval or a cron expression. Nothing is stored, and Redis is not asked.",
	},
	Do: func(_ context.Context, _ Nothing, in TicksPreview) (doc document.Ticks, err error) {
		spec, err := in.Spec()
		if err != nil {
			return doc, err
		}
		return document.OfTicks(spec, time.Now(), time.Time{}, in.Max), nil
	},
}

// TicksPreview is the In of [PreviewTicks].
type TicksPreview struct {
	document.Timing
	TicksMax
}
