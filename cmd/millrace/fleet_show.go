package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/snapshot"
	"github.com/millrace/millrace/internal/readable"
)

type fleetShow struct{ watchable }

func (*fleetShow) Help() string {
	return `It asks every member; one that does not answer within 2 seconds is down. A partition has two limits: its memory, and the one thread of its master; it shows which one is nearer. The thread's use is an average since the server started. An epoch is one more with each change of the map, or of a partition's master; what agents did and could not do comes last, newest first.

Examples:

    millrace fleet show
    millrace fleet show --json | jq -r '.partitions[].master.addr'`
}

func (*fleetShow) Run(ctx context.Context, a *app) error {
	return a.withFleet(ctx, func(f *fleet.Fleet) (any, table, error) { return a.showFleet(ctx, f, "") })
}

// fleetDoc is a fleet at one time. What the directory knows is absent if it does not answer.
type fleetDoc struct {
	fleet.Status
	Data      []dataDoc         `json:"data,omitempty"`     // how old the data of each member is
	Tasks     []taskDoc         `json:"tasks,omitempty"`    // what is left of changes of members
	Snapshots []snapshotDoc     `json:"snapshots,omitzero"` // of the partitions with an attempt
	Events    []directory.Event `json:"events,omitzero"`    // the newest first
}

// showFleet prints the state of all members, and what the directory knows about agents and
// snapshots unless it does not answer.
func (a *app) showFleet(ctx context.Context, f *fleet.Fleet, title string) (any, table, error) {
	status, err := f.Status(ctx)
	if err != nil {
		return nil, nil, err
	}
	doc, dir := fleetDoc{Status: status, Tasks: tasksOf(directory.MapOf(f.Client()))}, directory.Of(f.Client())
	bounded, cancel := context.WithTimeoutCause(ctx, directoryTimeout, errNoAnswer)
	defer cancel()
	var noEvents error
	doc.Events, noEvents = dir.Events(bounded)
	doc.Data = dataOf(ctx, directory.OptionOf(f.Client()), dir, directory.MapOf(f.Client()), doc.Events)
	ages, err := snapshot.Read(bounded, dir)
	if err == nil {
		doc.Snapshots = newSnapshotDocs(ages)
	}
	if err := errors.Join(noEvents, err); err != nil {
		a.logger().WarnContext(ctx, "cannot read from the directory what agents did", "error", oneLine(err))
	}
	return doc, func(w io.Writer) {
		fmt.Fprint(w, title)
		doc.table(w)
	}, nil
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

// shortened returns a text with the first digits of replication ids only.
func shortened(what string) string { return histories.ReplaceAllString(what, "$1…") }

// snapshotDoc is the newest snapshots of a partition. Absent fields: there is none. Ages
// are by the directory's clock.
type snapshotDoc struct {
	Partition int          `json:"partition"`
	Saved     *savedDoc    `json:"saved,omitempty"`
	Archived  *archivedDoc `json:"archived,omitempty"`
	Failed    *failedDoc   `json:"failed,omitempty"` // the last attempt
}

type savedDoc struct {
	Age  int64  `json:"age_ms"`
	Addr string `json:"addr"` // of the member that has it on its disk
	Node string `json:"node"`
	Took int64  `json:"took_ms"`
}

type archivedDoc struct {
	Age   int64  `json:"age_ms"`
	File  string `json:"file"`
	Bytes int64  `json:"bytes"`
}

type failedDoc struct {
	Age  int64  `json:"age_ms"`
	Addr string `json:"addr"` // empty if there was no member to ask
	Why  string `json:"why"`
}

// newSnapshotDocs omits partitions without any attempt.
func newSnapshotDocs(ages snapshot.Ages) []snapshotDoc {
	docs := []snapshotDoc{}
	for _, s := range ages.Partitions {
		if s == (directory.Snapshot{Partition: s.Partition}) {
			continue
		}
		age := func(at time.Time) int64 { return ages.Now.Sub(at).Milliseconds() }
		doc := snapshotDoc{Partition: s.Partition}
		if !s.Saved.At.IsZero() {
			doc.Saved = &savedDoc{age(s.Saved.At), s.Saved.Addr, s.Saved.Node, s.Saved.Took.Milliseconds()}
		}
		if !s.Archived.At.IsZero() {
			doc.Archived = &archivedDoc{age(s.Archived.At), s.Archived.File, s.Archived.Bytes}
		}
		if !s.Failed.At.IsZero() {
			doc.Failed = &failedDoc{age(s.Failed.At), s.Failed.Addr, s.Failed.Why}
		}
		docs = append(docs, doc)
	}
	return docs
}

// snapshotOf returns what is known of a partition's snapshots.
func snapshotOf(known []snapshotDoc, id int) snapshotDoc {
	if i := slices.IndexFunc(known, func(s snapshotDoc) bool { return s.Partition == id }); i >= 0 {
		return known[i]
	}
	return snapshotDoc{Partition: id}
}

// column returns a cell of the column of snapshots, which is omitted without snapshots.
func (doc *fleetDoc) column(cell string) string {
	if len(doc.Snapshots) == 0 {
		return ""
	}
	return cell + "\t"
}

// ageOf writes an age in milliseconds.
func ageOf(ms int64) string {
	return readable.Duration(max(time.Second, time.Duration(ms)*time.Millisecond))
}

// age returns how old the newest snapshot is.
func (s snapshotDoc) age() string {
	if s.Saved == nil {
		return "NONE"
	}
	return ageOf(s.Saved.Age)
}

// drawExposure writes how much would be lost with the memory of all members, and which
// snapshots failed.
func drawExposure(w io.Writer, doc fleetDoc) {
	if len(doc.Snapshots) == 0 {
		return
	}
	var oldest snapshotDoc
	var none []string
	for _, p := range doc.Partitions {
		s := snapshotOf(doc.Snapshots, p.ID)
		switch {
		case s.Saved == nil:
			none = append(none, strconv.Itoa(p.ID))
		case oldest.Saved == nil || s.Saved.Age > oldest.Saved.Age:
			oldest = s
		}
	}
	var lines []string
	if oldest.Saved != nil {
		lines = append(lines, fmt.Sprintf("The oldest snapshot is that of partition %d, %s old.", oldest.Partition, ageOf(oldest.Saved.Age)))
	}
	switch {
	case len(none) > 10:
		lines = append(lines, fmt.Sprintf("There is none of %d partitions.", len(none)))
	case len(none) > 0:
		lines = append(lines, "There is none of "+strings.Join(none, ", ")+".")
	}
	fmt.Fprintln(w, strings.Join(lines, " "))
	drawFailures(w, doc.Snapshots)
}

// drawFailures writes which snapshots failed.
func drawFailures(w io.Writer, known []snapshotDoc) {
	for _, s := range known {
		if s.Failed != nil {
			fmt.Fprintf(w, "Saving partition %d failed %s ago: %s\n", s.Partition, ageOf(s.Failed.Age), s.Failed.Why)
		}
	}
}
