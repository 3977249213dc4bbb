package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"time"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/snapshot"
)

// fleetDoc is a fleet at one time, and what agents left word of. That is absent if
// the directory does not tell.
type fleetDoc struct {
	fleet.Status
	Snapshots []snapshotDoc     `json:"snapshots,omitzero"` // of the partitions that were ever to be saved
	Events    []directory.Event `json:"events,omitzero"`    // the newest first
}

// look asks all members of a fleet how they are, and the directory what agents did. A
// directory that does not tell is no reason to show nothing.
func (a *app) look(ctx context.Context, f *fleet.Fleet) (fleetDoc, error) {
	s, err := f.Show(ctx)
	if err != nil {
		return fleetDoc{}, err
	}
	doc := fleetDoc{Status: s}
	if err := a.recall(ctx, &doc); err != nil {
		a.logger().WarnContext(ctx, "the directory does not tell what agents did", "error", oneLine(err))
	}
	return doc, nil
}

// recall asks the directory.
func (a *app) recall(ctx context.Context, doc *fleetDoc) error {
	_, option, err := a.fleetURL()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, directoryPatience, errSilent)
	defer cancel()
	dir, err := within(ctx, func() (*directory.Redis, error) { return directory.Dial(option) }, (*directory.Redis).Close)
	if err != nil {
		return err
	}
	defer dir.Close()
	var untold error
	doc.Events, untold = dir.Events(ctx)
	ages, err := snapshot.Look(ctx, dir)
	if err == nil {
		doc.Snapshots = newSnapshotDocs(ages)
	}
	return errors.Join(untold, err)
}

// showFleet prints a fleet.
func (a *app) showFleet(ctx context.Context, f *fleet.Fleet, title string) error {
	doc, err := a.look(ctx, f)
	if err != nil {
		return err
	}
	return a.print(doc, func(w io.Writer) {
		fmt.Fprint(w, title)
		drawFleet(w, doc, f.Map().Points)
	})
}

// newest is how many events people see.
const newest = 10

// drawEvents writes what happened, the newest first.
func drawEvents(w io.Writer, events []directory.Event) {
	if len(events) == 0 {
		return
	}
	fmt.Fprintf(w, "\nWHEN\tPARTITION\tEPOCH\tWHAT HAPPENED\n")
	for _, e := range events[:min(len(events), newest)] {
		partition := "all"
		if e.Partition >= 0 {
			partition = strconv.Itoa(e.Partition)
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\n", e.At.Local().Format(time.DateTime), partition, e.Epoch, shortened(e.What))
	}
	if more := len(events) - newest; more > 0 {
		fmt.Fprintf(w, "and %d before; --json has them\n", more)
	}
}

// histories finds replication ids.
var histories = regexp.MustCompile(`\b([0-9a-f]{7})[0-9a-f]{33}\b`)

// shortened returns what happened with replication ids as people compare them: by
// how they begin.
func shortened(what string) string { return histories.ReplaceAllString(what, "$1…") }
