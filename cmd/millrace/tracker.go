package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/jsontype"
	"github.com/millrace/millrace/internal/ops"
	"github.com/millrace/millrace/internal/readable"
	"github.com/millrace/millrace/tracker"
)

// trackerCommands is the noun tracker.
type trackerCommands struct {
	Queued trackerQueued `cmd:""`
	Add    trackerAdd    `cmd:""`
	Stats  trackerStats  `cmd:""`
	Ls     trackerLs     `cmd:""`
	Rm     trackerRm     `cmd:""`
}

func (*trackerCommands) Help() string {
	return `A tracker answers from memory which identifiers have work queued in a table of SQL. millrace serve --trackers keeps it in step with the table, or a program with the library.

Examples:

    millrace tracker queued tasks item-17 item-18
    millrace tracker stats tasks`
}

// openTracker makes a tracker, which needs no source to answer.
func openTracker(name ops.Tracker) opener[*tracker.Tracker] {
	return func(c rueidis.Client) (*tracker.Tracker, error) {
		return tracker.New(c, string(name.Name), tracker.Config{})
	}
}

type trackerQueued struct {
	ops.Tracker
	ID []jsontype.Text `arg:"" help:"The identifiers."`
}

func (c *trackerQueued) Run(ctx context.Context, a *app) error {
	in := ops.TrackerQuery{IDs: jsontype.Strings(c.ID)}
	return perform(ctx, a, openTracker(c.Tracker), ops.AskTracker, in, func(doc ops.TrackerAnswers) table {
		return func(w io.Writer) {
			fmt.Fprintln(w, "ID\tSTATE\tSEEN")
			for _, answer := range doc.Answers {
				seen := "-"
				if answer.State != string(tracker.Unknown) {
					seen = ago(answer.Age)
				}
				fmt.Fprintf(w, "%s\t%s\t%s\n", answer.ID, strings.ReplaceAll(answer.State, "_", " "), seen)
			}
		}
	})
}

// ago writes an age in milliseconds for people.
func ago(ms int64) string { return readable.Duration(time.Duration(ms)*time.Millisecond) + " ago" }

type trackerAdd struct {
	ops.Tracker
	ops.TrackerIDs
}

func (c *trackerAdd) Run(ctx context.Context, a *app) error {
	return perform(ctx, a, openTracker(c.Tracker), ops.AddToTracker, c.TrackerIDs, func(ops.Nothing) table {
		return says("added %s", readable.Count(len(c.IDs), "identifier"))
	})
}

type trackerStats struct {
	watchable
	ops.Tracker
}

func (c *trackerStats) Run(ctx context.Context, a *app) error {
	return perform(ctx, a, openTracker(c.Tracker), ops.GetTrackerStats, c.Tracker, func(doc ops.TrackerStats) table {
		return func(w io.Writer) {
			fmt.Fprintf(w, "%s tracked, the oldest was seen %s\n", readable.Count(doc.Tracked, "identifier"), ago(doc.OldestCheck))
			if doc.Passes == 0 {
				fmt.Fprintln(w, "no pass over the table is complete: answers are unknown")
				return
			}
			fmt.Fprintf(w, "%s over the table, the last one began %s and took %s\n", readable.Count(int(doc.Passes), "pass"), ago(doc.PassAge),
				readable.Duration(time.Duration(doc.PassTime)*time.Millisecond))
		}
	})
}

type trackerLs struct{ watchable }

func (*trackerLs) Run(ctx context.Context, a *app) error {
	return a.list(ctx, "trackers", tracker.List, func(names []jsontype.Text, part ops.Incomplete) any {
		return ops.Trackers{Trackers: names, Incomplete: part}
	})
}

type trackerRm struct{ ops.Tracker }

func (c *trackerRm) Run(ctx context.Context, a *app) error {
	return perform(ctx, a, openTracker(c.Tracker), ops.DeleteTracker, c.Tracker, tableOfDeleted)
}
