package main

import (
	"context"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/document"
)

// timing are the flags that say when a schedule ticks.
type timing struct {
	Every time.Duration `placeholder:"DURATION" help:"Tick every so often, at least 1s, such as 15m or 24h."`
	Cron  string        `placeholder:"EXPR" help:"Tick by a cron expression of five fields: minute, hour, day of month, month, day of week. In quotes. Or @hourly, @daily, @weekly, @monthly."`
	Zone  string        `placeholder:"ZONE" help:"The time zone of --cron, such as Europe/Berlin. Defaults to UTC."`
}

// doc returns the flags as a document, which checks them.
func (t timing) doc() document.Timing {
	return document.Timing{Every: document.Duration{Duration: t.Every}, Cron: t.Cron, Zone: t.Zone}
}

type scheduleSet struct {
	scheduleName
	timing
	Tenant   document.Text            `placeholder:"T" required:"" help:"The tenant of its messages."`
	Body     document.Text            `placeholder:"TEXT" help:"The body of each message. Defaults to nothing."`
	File     string                   `placeholder:"PATH" help:"Read the body from a file; - for standard input."`
	Headers  map[string]document.Text `name:"header" placeholder:"K=V" help:"What travels with the body, as text; may be repeated."`
	Priority int                      `placeholder:"P" help:"Its place among the messages of its tenant, from -4 for last to 4 for first. Defaults to 0."`
	Cost     int                      `placeholder:"N" help:"What each message costs, such as tokens of a model, up to 1,000,000: tenants get the same sum of costs delivered, and rates count costs. Defaults to 1."`
	Deadline time.Duration            `placeholder:"DURATION" help:"How long after its write a message expires. Defaults to never."`
	Jitter   time.Duration            `placeholder:"DURATION" help:"Write each message up to so long after its tick, to spread the messages of many schedules."`
	Missed   string                   `default:"once" enum:"once,skip,all" help:"What to do about ticks that were missed because nobody read the queue: once writes one message for all of them, skip none, all one for each."`
}

func (*scheduleSet) Help() string {
	return `Creates the queue if there is none. A schedule of that name is replaced as a whole; if it ticks at the same times as before, its next tick stays.

A day has 23 or 25 hours when daylight saving begins or ends: millrace schedule next shows what becomes of the ticks.

Examples:

    millrace schedule set reports daily --cron "0 3 * * *" --zone Europe/Berlin --tenant acme --body '{"report":"daily"}'
    millrace schedule set feeds poll --every 15m --jitter 1m --missed skip --tenant acme
    millrace schedule set reports weekly --cron "30 6 * * mon" --tenant acme --file report.json`
}

func (c *scheduleSet) Run(ctx context.Context, a *app) error {
	s, err := c.schedule(ctx, a)
	if err != nil {
		return err
	}
	return c.with(ctx, a, func(q *fairqueue.Queue) (any, table, error) {
		return c.show(ctx, q, q.Schedules().Set(ctx, s))
	})
}

// schedule returns the schedule that the flags describe.
func (c *scheduleSet) schedule(ctx context.Context, a *app) (s fairqueue.Schedule, err error) {
	doc := document.ScheduleDraft{
		Timing: c.doc(), Jitter: document.Duration{Duration: c.Jitter}, Missed: c.Missed,
	}
	if s, err = doc.Schedule(string(c.Name)); err != nil {
		return s, err
	}
	if a.given("body") && c.File != "" {
		return s, errUsage.Errorf("the body is given by --body and by --file").WithHint("Leave one of them out.")
	}
	draft := document.Draft{Tenant: c.Tenant, Body: c.Body, Headers: c.Headers, Priority: c.Priority, Cost: c.Cost, Deadline: document.Duration{Duration: c.Deadline}}
	s.Draft = draft.Message()
	if err := checkDraft(s.Draft); err != nil {
		return s, err
	}
	switch c.File {
	case "":
	case "-":
		s.Draft.Body, err = a.input(ctx)
	default:
		if s.Draft.Body, err = os.ReadFile(c.File); err != nil {
			err = errUsage.Errorf("the body cannot be read: %s", err).WithHint("Name a file that can be read, or - for standard input.")
		}
	}
	return s, err
}

// sortedHeaders yields headers by name.
func sortedHeaders(headers map[string]document.Text) iter.Seq2[string, document.Text] {
	return func(yield func(string, document.Text) bool) {
		for _, name := range slices.Sorted(maps.Keys(headers)) {
			if !yield(name, headers[name]) {
				return
			}
		}
	}
}

type scheduleNext struct {
	Queue document.Text `arg:"" optional:"" complete:"queue" help:"The queue of a stored schedule."`
	Name  document.Text `arg:"" optional:"" complete:"schedule" help:"The schedule's name."`
	timing
	Max int `default:"10" placeholder:"N" help:"How many runs, up to 1,000."`
}

func (*scheduleNext) Help() string {
	return `Either of a stored schedule, or of the flags, which needs no server. Times are those of the zone and UTC; a run is marked where the zone's offset from UTC changes, which is when daylight saving begins or ends. Jitter is not included.

Examples:

    millrace schedule next --cron "30 2 * * *" --zone Europe/Berlin --max 400
    millrace schedule next --every 36h
    millrace schedule next reports daily --json`
}

func (c *scheduleNext) Run(ctx context.Context, a *app) error {
	flags := c.timing != timing{}
	switch {
	case c.Max < 1 || c.Max > document.MaxTicks:
		return errUsage.Errorf("it shows 1 to %d runs, not %d", document.MaxTicks, c.Max)
	case flags && c.Queue != "":
		return errUsage.Errorf("name a stored schedule, or describe one by flags, not both")
	case !flags && c.Name == "":
		return errUsage.Errorf("of which schedule?").WithHint(`Name it by its queue and its name, or describe one: millrace schedule next --cron "0 3 * * *" --zone Europe/Berlin`)
	case flags:
		spec, err := c.doc().Spec()
		if err != nil {
			return err
		}
		doc := document.OfTicks(spec, time.Now(), time.Time{}, c.Max)
		return a.print(doc, func(w io.Writer) { tableOfTicks(w, doc) })
	}
	return scheduleName{c.Queue, c.Name}.with(ctx, a, func(q *fairqueue.Queue) (any, table, error) {
		s, err := q.Schedules().Get(ctx, string(c.Name))
		if err != nil {
			return nil, nil, err
		}
		if s.Paused {
			s.Next = time.Time{}
		}
		doc := document.OfTicks(s.Spec, time.Now(), s.Next, c.Max)
		return doc, func(w io.Writer) {
			if s.Paused {
				fmt.Fprintln(w, "it is paused; resumed now, it would tick")
			}
			tableOfTicks(w, doc)
		}, nil
	})
}

func tableOfTicks(w io.Writer, doc document.Ticks) {
	if doc.Zone == "" {
		fmt.Fprintf(w, "%s\n\nUTC\n", doc.Words)
	} else {
		fmt.Fprintf(w, "%s\n\n%s\tUTC\t\n", doc.Words, doc.Zone)
	}
	for _, tick := range doc.Ticks {
		at := tick.At.Format("Mon 2006-01-02 15:04:05")
		if doc.Zone == "" {
			fmt.Fprintln(w, at)
			continue
		}
		mark := ""
		local, err := time.Parse(time.RFC3339, tick.Local)
		if err == nil && tick.Changed {
			mark = "the offset is " + local.Format("-07:00") + " from here on"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", local.Format("Mon 2006-01-02 15:04:05 -07:00"), at, mark)
	}
}
