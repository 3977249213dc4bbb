package ops

import (
	"context"
	"net/http"
	"time"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/schedule"
)

// NextTicks shows the next ticks of a schedule.
var NextTicks = operation(Row{
	ID: "nextTicks", Words: "schedule next", Method: http.MethodGet, Path: schedulePath + "/next", Statuses: []int{http.StatusNotFound},
	Class:   Look,
	Summary: "Show the next ticks of a schedule",
	Detail:  "In UTC and in its time zone. If the schedule is paused, those that it would have if it were resumed now.",
	Examples: []string{
		`schedule next --cron "30 2 * * *" --zone Europe/Berlin --max 400`,
		"schedule next --every 36h",
		"schedule next reports daily --json",
	},
}, func(ctx context.Context, q *fairqueue.Queue, in ScheduleTicks) (doc Ticks, err error) {
	s, err := q.Schedules().Get(ctx, string(in.Schedule))
	if err != nil {
		return doc, err
	}
	if s.Paused {
		s.Next = time.Time{}
	}
	doc = OfTicks(s.Spec, time.Now(), s.Next, in.Max)
	doc.Paused = s.Paused
	return doc, nil
})

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
var PreviewTicks = operation(Row{
	ID: "previewTicks", Method: http.MethodGet, Path: "/v1/schedules/preview",
	Only:    "schedule next shows them",
	Class:   Look,
	Summary: "Show the next ticks of a schedule that is not stored",
	Detail:  "To check an interval or a cron expression. Nothing is stored, and Redis is not asked.",
}, func(_ context.Context, _ Nothing, in TicksPreview) (doc Ticks, err error) {
	spec, err := in.Spec()
	if err != nil {
		return doc, err
	}
	return OfTicks(spec, time.Now(), time.Time{}, in.Max), nil
})

// TicksPreview is the In of [PreviewTicks].
type TicksPreview struct {
	Timing
	TicksMax
}

// Ticks are the next ticks of a schedule, or of one that is not stored.
type Ticks struct {
	Spec  string `json:"spec" doc:"When it ticks, in the form in which it is stored." example:"every 15m0s"`
	Words string `json:"words" doc:"When it ticks, for people." example:"every 15m"`
	Zone  string `json:"zone,omitempty" doc:"The time zone of its clock times. Absent for an interval." example:"Europe/Berlin"`
	Ticks []Tick `json:"ticks"`

	Paused bool `json:"-"` // the ticks are those that it would have if it were resumed
}

// Tick is one instant.
type Tick struct {
	At      time.Time `json:"at" doc:"In UTC."`
	Local   string    `json:"local" doc:"The same instant in the zone." example:"2026-03-29T03:00:00+02:00"`
	Changed bool      `json:"offset_changed,omitempty" doc:"The zone's offset from UTC is another one than at the tick before, or now for the first: daylight saving began or ended. Absent if not."`
}

// MaxTicks is how many ticks one request may ask for.
const MaxTicks = 1000

// OfTicks returns the next n ticks from first on; zero for the first after now.
func OfTicks(s schedule.Spec, now, first time.Time, n int) Ticks {
	doc := Ticks{Spec: s.String(), Words: InWords(s), Zone: Zone(s), Ticks: make([]Tick, 0, n)}
	in := location(s)
	_, offset := now.In(in).Zone()
	if first.IsZero() {
		first = s.Next(now)
	}
	for at := first; len(doc.Ticks) < n && !at.IsZero(); at = s.Next(at) {
		local := at.In(in)
		_, then := local.Zone()
		doc.Ticks = append(doc.Ticks, Tick{At: at.UTC(), Local: local.Format(time.RFC3339), Changed: then != offset})
		offset = then
	}
	return doc
}
