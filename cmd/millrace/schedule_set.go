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

	"github.com/millrace/millrace/internal/jsontype"
	"github.com/millrace/millrace/internal/ops"
)

type scheduleSet struct {
	ops.ScheduleToSet
	File string `placeholder:"PATH" doc:"Read the body from a file; - for standard input."`
}

func (*scheduleSet) Help() string {
	return `A day has 23 or 25 hours when daylight saving begins or ends: millrace schedule next shows what becomes of the ticks.`
}

func (c *scheduleSet) Run(ctx context.Context, a *app) error {
	if err := c.complete(ctx, a); err != nil {
		return err
	}
	return onQueue(ctx, a, ops.Queue{Name: c.Queue}, ops.SetSchedule, c.ScheduleToSet, lineOfSchedule)
}

// complete checks the schedule before a server is asked, and reads its body.
func (c *scheduleSet) complete(ctx context.Context, a *app) error {
	if a.given("body") && c.File != "" {
		return errUsage.Errorf("the body is given by --body and by --file").WithHint("Leave one of them out.")
	}
	s, err := c.ScheduleDraft.Schedule(string(c.ScheduleName.Schedule))
	if err != nil {
		return err
	}
	if err := checkDraft(s.Draft); err != nil {
		return err
	}
	var body []byte
	switch c.File {
	case "":
		return nil
	case "-":
		body, err = a.input(ctx)
	default:
		if body, err = os.ReadFile(c.File); err != nil {
			err = errUsage.Errorf("the body cannot be read: %s", err).WithHint("Name a file that can be read, or - for standard input.")
		}
	}
	c.Body = jsontype.Text(body)
	return err
}

// sortedHeaders yields headers by name.
func sortedHeaders(headers map[string]jsontype.Text) iter.Seq2[string, jsontype.Text] {
	return func(yield func(string, jsontype.Text) bool) {
		for _, name := range slices.Sorted(maps.Keys(headers)) {
			if !yield(name, headers[name]) {
				return
			}
		}
	}
}

type scheduleNext struct {
	Queue jsontype.Text `arg:"" optional:"" complete:"queue" doc:"The queue of a stored schedule."`
	Name  jsontype.Text `arg:"" optional:"" complete:"schedule" doc:"The schedule's name."`
	ops.TicksPreview
}

func (*scheduleNext) Help() string {
	return `Either of a stored schedule, or of the flags, which needs no server. A tick is marked where the zone's offset from UTC changes, which is when daylight saving begins or ends. Jitter is not included.`
}

func (c *scheduleNext) row() ops.Row {
	if c.Queue == "" {
		return ops.PreviewTicks.Row
	}
	return ops.NextTicks.Row
}

func (c *scheduleNext) Run(ctx context.Context, a *app) error {
	flags := c.Timing != ops.Timing{}
	switch {
	case c.Max < 1 || c.Max > ops.MaxTicks:
		return errUsage.Errorf("it shows 1 to %d runs, not %d", ops.MaxTicks, c.Max)
	case flags && c.Queue != "":
		return errUsage.Errorf("name a stored schedule, or describe one by flags, not both")
	case !flags && c.Name == "":
		return errUsage.Errorf("of which schedule?").WithHint(`Name it by its queue and its name, or describe one: millrace schedule next --cron "0 3 * * *" --zone Europe/Berlin`)
	case flags:
		doc, err := ops.PreviewTicks.Do(ctx, ops.Nothing{}, c.TicksPreview)
		if err != nil {
			return err
		}
		return a.print(doc, func(w io.Writer) { tableOfTicks(w, doc) })
	}
	in := ops.ScheduleTicks{ScheduleName: ops.ScheduleName{Queue: c.Queue, Schedule: c.Name}, TicksMax: c.TicksMax}
	return onQueue(ctx, a, ops.Queue{Name: c.Queue}, ops.NextTicks, in, func(doc ops.Ticks) table {
		return func(w io.Writer) { tableOfTicks(w, doc) }
	})
}

func tableOfTicks(w io.Writer, doc ops.Ticks) {
	if doc.Paused {
		fmt.Fprintln(w, "it is paused; resumed now, it would tick")
	}
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
