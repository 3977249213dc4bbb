package ops

import (
	"cmp"
	"iter"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/jsontype"
	"github.com/millrace/millrace/schedule"
	"github.com/millrace/millrace/schedule/cron"
)

// Timing says when a schedule ticks: either every so often, or by a cron expression.
type Timing struct {
	Every jsontype.Duration `json:"every,omitzero" query:"every" placeholder:"DURATION" doc:"The interval, at least 1s. Either this or cron." example:"15m"`
	Cron  string            `json:"cron,omitempty" query:"cron" placeholder:"EXPR" doc:"A cron expression of five fields: minute, hour, day of month, month, day of week; or a name such as @daily." example:"0 3 * * *"`
	Zone  string            `json:"zone,omitempty" query:"zone" placeholder:"ZONE" doc:"The time zone of cron, by its IANA name. Defaults to UTC." example:"Europe/Berlin"`
}

// Spec returns when it ticks. Its errors are for the people who wrote the timing.
func (t Timing) Spec() (schedule.Spec, error) {
	var none schedule.Spec
	switch bad := millrace.ErrBadArgument; {
	case t.Every.Duration != 0 && t.Cron != "":
		return none, bad.Errorf("a schedule has an interval or a cron expression, not both").
			WithHint("Leave out every or cron.")
	case t.Every.Duration != 0 && t.Zone != "":
		return none, bad.Errorf("an interval has no time zone").
			WithHint(`Leave out the zone, or give a cron expression: "0 3 * * *" is 3 o'clock every day.`)
	case t.Every.Duration != 0:
		return schedule.Every(t.Every.Duration)
	case t.Cron == "":
		return none, bad.Errorf("a schedule needs an interval or a cron expression").
			WithHint(`Give every, such as 15m, or cron, such as "0 3 * * *" for 3 o'clock every day.`)
	}
	return cron.Parse(t.Cron, t.Zone)
}

// ScheduleDraft is a schedule to store: when it ticks, and the message of each tick.
type ScheduleDraft struct {
	Timing

	Tenant   jsontype.Text            `json:"tenant" placeholder:"T" required:"true" doc:"The tenant of the messages; 1 to 512 bytes." example:"\"acme\""`
	Body     jsontype.Text            `json:"body,omitempty" placeholder:"TEXT" doc:"The content of each message. Defaults to nothing." example:"\"{\\\"report\\\":\\\"daily\\\"}\""`
	Headers  map[string]jsontype.Text `json:"headers,omitempty" name:"header" placeholder:"K=V" doc:"Metadata beside the body, as UTF-8 text. Defaults to none."`
	Priority int                      `json:"priority,omitempty" placeholder:"P" minimum:"-4" maximum:"4" doc:"Its rank among the messages of its tenant, from -4 for last to 4 for first. Defaults to 0." example:"1"`
	Cost     int                      `json:"cost,omitempty" placeholder:"N" minimum:"1" maximum:"1000000" doc:"What each costs, such as tokens of a model: tenants with messages get the same sum of costs delivered, and rates count costs. Defaults to 1." example:"350"`
	Deadline jsontype.Duration        `json:"deadline,omitzero" placeholder:"DURATION" doc:"How long after its write a message expires. Defaults to never." example:"1h"`
	Jitter   jsontype.Duration        `json:"jitter,omitzero" placeholder:"DURATION" doc:"Spreads messages: each is written up to so long after its tick. Defaults to 0s." example:"30s"`
	Missed   string                   `json:"missed,omitempty" default:"once" enum:"once,skip,all" doc:"What happens to ticks that nobody noticed for more than a minute: once writes one message for all of them, skip none, all one for each." example:"once"`
}

// Schedule converts the draft. The queue validates the rest of it.
func (d ScheduleDraft) Schedule(name string) (s fairqueue.Schedule, err error) {
	s.Name, s.Jitter, s.Missed = name, d.Jitter.Duration, schedule.Missed(d.Missed)
	s.Draft = Draft{
		Tenant: d.Tenant, Body: d.Body, Headers: d.Headers, Priority: d.Priority, Cost: d.Cost, Deadline: d.Deadline,
	}.Message()
	s.Spec, err = d.Spec()
	return s, err
}

// Schedule is a schedule of a queue and its state.
type Schedule struct {
	Queue       jsontype.Text            `json:"queue" example:"\"reports\""`
	Name        jsontype.Text            `json:"name" example:"\"daily\""`
	Spec        string                   `json:"spec" doc:"When it ticks, in the form in which it is stored." example:"every 15m0s"`
	Words       string                   `json:"words" doc:"When it ticks, for people." example:"every 15m"`
	Zone        string                   `json:"zone,omitempty" doc:"The time zone of its clock times. Absent for an interval." example:"Europe/Berlin"`
	Tenant      jsontype.Text            `json:"tenant" example:"\"acme\""`
	Body        jsontype.Text            `json:"body" example:"\"{\\\"report\\\":\\\"daily\\\"}\""`
	Headers     map[string]jsontype.Text `json:"headers" doc:"Empty when there are none."`
	Priority    int                      `json:"priority,omitempty" doc:"Absent if it is 0." example:"1"`
	Cost        int                      `json:"cost,omitempty" doc:"What a delivery costs. Absent if it is 1." example:"350"`
	Deadline    int64                    `json:"deadline_ms,omitempty" doc:"How long after its write a message expires. Absent for never." example:"3600000"`
	Jitter      int64                    `json:"jitter_ms" doc:"Each message is written up to so long after its tick." example:"30000"`
	Missed      string                   `json:"missed" enum:"once,skip,all" doc:"What happens to ticks that nobody noticed for more than a minute." example:"once"`
	Paused      bool                     `json:"paused" doc:"It does not tick."`
	Next        *time.Time               `json:"next_at,omitempty" doc:"The next tick, in UTC. Absent while it is paused."`
	Last        *time.Time               `json:"last_at,omitempty" doc:"The last tick that wrote a message, in UTC. Absent before the first."`
	LastID      string                   `json:"last_id,omitempty" doc:"The message of the last tick. Absent before the first." example:"1795226400100321"`
	Ticks       int64                    `json:"ticks" doc:"Ticks that wrote a message." example:"17"`
	Trouble     string                   `json:"trouble,omitempty" doc:"The code of the error because of which a tick that is due waits, or because of which this process cannot read the schedule. Absent for none." example:"full"`
	MissedTicks int64                    `json:"missed_ticks" doc:"Ticks without a message, because nobody noticed them in time." example:"0"`
}

// OfSchedule converts a schedule of a queue.
func OfSchedule(queue string, s fairqueue.ScheduleState) Schedule {
	doc := Schedule{
		Queue: jsontype.Text(queue), Name: jsontype.Text(s.Name), Spec: s.Spec.String(), Words: InWords(s.Spec), Zone: Zone(s.Spec),
		Tenant: jsontype.Text(s.Draft.Tenant), Body: jsontype.Text(s.Draft.Body), Headers: OfHeaders(s.Draft.Headers), Priority: s.Draft.Priority, Cost: OfCost(s.Draft.Cost),
		Deadline: s.Draft.TTL.Milliseconds(), Jitter: s.Jitter.Milliseconds(), Missed: string(cmp.Or(s.Missed, schedule.Once)),
		Paused: s.Paused, Last: jsontype.Time(s.Last), LastID: s.LastID, Trouble: s.Trouble, Ticks: s.Ticks, MissedTicks: s.MissedTicks,
	}
	if !s.Paused {
		doc.Next = jsontype.Time(s.Next)
	}
	return doc
}

// Schedules are the schedules of one queue, or of all.
type Schedules struct {
	Schedules []Schedule `json:"schedules" doc:"By queue and name."`
	Incomplete
}

// OfSchedules converts the schedules of a queue. One that this process cannot read, because it
// does not know the time zone, has the error as its words.
func OfSchedules(queue string, all iter.Seq2[fairqueue.ScheduleState, error]) ([]Schedule, error) {
	list := []Schedule{}
	for s, err := range all {
		if err != nil && s.Name == "" {
			return nil, err
		}
		doc := OfSchedule(queue, s)
		if err != nil {
			doc.Words, doc.Trouble = err.Error(), millrace.Code(err)
		}
		list = append(list, doc)
	}
	return list, nil
}

// RanSchedule is the result of a run outside of the ticks.
type RanSchedule struct {
	ID string `json:"id" doc:"The message." example:"1795226400100321"`
}

// Removed reports that a schedule is gone.
type Removed struct {
	Removed bool `json:"removed" doc:"It existed." example:"true"`
}
