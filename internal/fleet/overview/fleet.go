package overview

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"time"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/snapshot"
	"github.com/millrace/millrace/internal/readable"
)

// Fleet is a fleet at one time. Data of the directory is absent if it does not answer.
type Fleet struct {
	fleet.Status
	Data      []Data             `json:"data,omitempty"`     // how old the data of each member is
	Tasks     []Task             `json:"tasks,omitempty"`    // unfinished changes of members
	Spares    []directory.Member `json:"spares,omitempty"`   // servers that replace dead members
	Snapshots []Snapshot         `json:"snapshots,omitzero"` // of the partitions with an attempt
	Events    []directory.Event  `json:"events,omitzero"`    // the newest first
}

// Read asks all members of a fleet, and the directory for agents and snapshots. If the directory
// cannot be read, the log says why.
func Read(ctx context.Context, f *fleet.Fleet, log *slog.Logger) (doc Fleet, err error) {
	if doc.Status, err = f.Status(ctx); err != nil {
		return doc, err
	}
	m, dir := directory.MapOf(f.Client()), directory.Of(f.Client())
	doc.Tasks, doc.Spares = TasksOf(m), m.Spares
	bounded, cancel := directory.Bound(ctx)
	defer cancel()
	var noEvents error
	doc.Events, noEvents = dir.Events(bounded)
	doc.Data = dataOf(ctx, directory.OptionOf(f.Client()), dir, m, doc.Events)
	ages, noAges := snapshot.Read(bounded, dir)
	if noAges == nil {
		doc.Snapshots = attempts(ages)
	}
	if unread := errors.Join(noEvents, noAges); unread != nil {
		log.WarnContext(ctx, "cannot read from the directory what agents did", "error", readable.Line(unread))
	}
	return doc, nil
}

// newest is how many events people see.
const newest = 10

// drawEvents writes the events, the newest first.
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
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\n", e.At.Local().Format(time.DateTime), partition, e.Epoch, e.What)
	}
	if more := len(events) - newest; more > 0 {
		fmt.Fprintf(w, "and %d before; --json has them\n", more)
	}
}
