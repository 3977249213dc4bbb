package overview

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/snapshot"
	"github.com/millrace/millrace/internal/readable"
)

// Snapshot is the newest snapshots of a partition. Absent fields: there is none. Ages
// are by the directory's clock.
type Snapshot struct {
	Partition int       `json:"partition"`
	Saved     *Saved    `json:"saved,omitempty"`
	Archived  *Archived `json:"archived,omitempty"`
	Failed    *Failed   `json:"failed,omitempty"` // the last attempt
}

// Saved is a snapshot on a member's disk.
type Saved struct {
	Age  int64  `json:"age_ms"`
	Addr string `json:"addr"` // of the member that has it on its disk
	Node string `json:"node"`
	Took int64  `json:"took_ms"`
}

// Archived is a snapshot in the archive.
type Archived struct {
	Age   int64  `json:"age_ms"`
	File  string `json:"file"`
	Bytes int64  `json:"bytes"`
}

// Failed is an attempt that failed.
type Failed struct {
	Age  int64  `json:"age_ms"`
	Addr string `json:"addr"` // empty if there was no member to ask
	Why  string `json:"why"`
}

// attempts describes snapshots. It omits partitions without any attempt.
func attempts(ages snapshot.Ages) []Snapshot {
	docs := []Snapshot{}
	for _, s := range ages.Partitions {
		if s == (directory.Snapshot{Partition: s.Partition}) {
			continue
		}
		age := func(at time.Time) int64 { return ages.Now.Sub(at).Milliseconds() }
		doc := Snapshot{Partition: s.Partition}
		if !s.Saved.At.IsZero() {
			doc.Saved = &Saved{age(s.Saved.At), s.Saved.Addr, s.Saved.Node, s.Saved.Took.Milliseconds()}
		}
		if !s.Archived.At.IsZero() {
			doc.Archived = &Archived{age(s.Archived.At), s.Archived.File, s.Archived.Bytes}
		}
		if !s.Failed.At.IsZero() {
			doc.Failed = &Failed{age(s.Failed.At), s.Failed.Addr, s.Failed.Why}
		}
		docs = append(docs, doc)
	}
	return docs
}

// snapshotOf returns the entry of a partition's snapshots.
func snapshotOf(known []Snapshot, id int) Snapshot {
	if i := slices.IndexFunc(known, func(s Snapshot) bool { return s.Partition == id }); i >= 0 {
		return known[i]
	}
	return Snapshot{Partition: id}
}

// Snapshots are those of some partitions.
type Snapshots struct {
	Snapshots []Snapshot `json:"snapshots"`
}

// SnapshotsOf returns the snapshots of the named partitions, or of all.
func SnapshotsOf(ages snapshot.Ages, partitions ...int) Snapshots {
	doc := Snapshots{[]Snapshot{}}
	known := attempts(ages)
	for _, p := range ages.Partitions {
		if len(partitions) == 0 || slices.Contains(partitions, p.Partition) {
			doc.Snapshots = append(doc.Snapshots, snapshotOf(known, p.Partition))
		}
	}
	return doc
}

// Table writes them for people.
func (doc Snapshots) Table(w io.Writer) {
	fmt.Fprintln(w, "PARTITION\tAGE\tTOOK\tON\tARCHIVED\tFILE")
	for _, s := range doc.Snapshots {
		var took, on, archived, file string
		if s.Saved != nil {
			took, on = (time.Duration(s.Saved.Took) * time.Millisecond).String(), s.Saved.Addr
		}
		if s.Archived != nil {
			archived, file = ageOf(s.Archived.Age), s.Archived.File
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\n", s.Partition, s.age(), took, on, archived, file)
	}
	drawFailures(w, doc.Snapshots)
}

// column returns a cell of the column of snapshots, which is omitted without snapshots.
func (doc *Fleet) column(cell string) string {
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
func (s Snapshot) age() string {
	if s.Saved == nil {
		return "NONE"
	}
	return ageOf(s.Saved.Age)
}

// drawExposure writes how much would be lost with the memory of all members, and which
// snapshots failed.
func drawExposure(w io.Writer, doc Fleet) {
	if len(doc.Snapshots) == 0 {
		return
	}
	var oldest Snapshot
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
func drawFailures(w io.Writer, known []Snapshot) {
	for _, s := range known {
		if s.Failed != nil {
			fmt.Fprintf(w, "Saving partition %d failed %s ago: %s\n", s.Partition, ageOf(s.Failed.Age), s.Failed.Why)
		}
	}
}
