package dashboard

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/finding"
	"github.com/millrace/millrace/internal/fleet/check"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/snapshot"
	"github.com/millrace/millrace/internal/readable"
	"github.com/millrace/millrace/internal/survey"
)

// fleetPage is the page of a fleet.
type fleetPage struct {
	heading

	Has         bool   // there is a fleet
	Wrong       string // why there is nothing to see of it
	Hint        string
	Unread      map[string]string // errors of events and snapshots
	State       fleet.State
	Epoch       int64
	Tags        int64
	Memory      string
	Servers     int
	Nodes       int
	Partitions  []partitionRow
	Events      []directory.Event
	Saved       []savedRow
	Findings    []*check.Group
	Checked     time.Time
	Verdict     string // how many findings have each severity
	Exposure    string // the loss if all memory is lost
	ArchiveLoss string // and with all disks
}

// partitionRow is one partition.
type partitionRow struct {
	fleet.PartitionStatus

	Memory gauge
	Thread gauge
}

// Members returns the master and then the replicas.
func (r partitionRow) Members() []fleet.MemberStatus { return members(r.PartitionStatus) }

func members(p fleet.PartitionStatus) []fleet.MemberStatus {
	return append([]fleet.MemberStatus{p.Master}, p.Replicas...)
}

// gauge is how much of a limit is used.
type gauge struct {
	Width string // of 100
	Tone  string // used or full
	Words string
	None  bool // there is no limit, or it is not known
}

// savedRow is the newest snapshot of a partition.
type savedRow struct {
	Partition int
	Age       string
	At        time.Time
	Took      time.Duration
	On        string
	Archived  string
	File      string
	Failed    string
}

const maxEvents = 25

func (d *Dashboard) fleet(*asked) (scene, error) {
	return func(v *survey.View) body {
		p := fleetPage{heading: heading{Title: "Fleet"}, Unread: map[string]string{}}
		for _, t := range v.Troubles {
			switch {
			case t.Kind == survey.Fleet && t.Name == "":
				p.Wrong, p.Hint = sentence(t.Err.Error()), millrace.Hint(t.Err)
			case t.Kind == survey.Fleet:
				p.Unread[t.Name] = stop(t.Err.Error())
			}
		}
		if v.Fleet != nil && len(v.Fleet.Partitions) > 0 {
			p.fill(v.Fleet)
		}
		return p
	}, nil
}

func (p *fleetPage) fill(f *survey.FleetView) {
	p.Has, p.State, p.Epoch, p.Events = true, f.State, f.Epoch, f.Events[:min(len(f.Events), maxEvents)]
	var memory int64
	nodes := map[string]bool{}
	for _, partition := range f.Partitions {
		p.Partitions = append(p.Partitions, newPartitionRow(partition))
		p.Tags, memory = p.Tags+partition.Tags, memory+partition.Memory
		for _, m := range members(partition) {
			p.Servers++
			nodes[m.Node] = true
		}
	}
	delete(nodes, "")
	p.Memory, p.Nodes = readable.Bytes(memory), len(nodes)
	p.fillSnapshots(f.Snapshots)
	p.Findings, p.Checked = check.Groups(f.Findings), f.Checked
	var words []string
	n := check.Count(f.Findings)
	for s := finding.Critical; s > finding.OK; s-- {
		if n[s] > 0 {
			words = append(words, fmt.Sprintf("%d %s", n[s], s))
		}
	}
	p.Verdict = strings.Join(words, ", ")
}

func newPartitionRow(s fleet.PartitionStatus) partitionRow {
	if s.Master.State == fleet.Down {
		unknown := gauge{None: true, Words: "–"}
		return partitionRow{s, unknown, unknown}
	}
	r := partitionRow{s, gauge{None: true, Words: readable.Bytes(s.Memory) + ", no limit"}, newGauge(s.Busy, finding.FullShare, percent(s.Busy))}
	if s.MaxMemory > 0 {
		r.Memory = newGauge(float64(s.Memory)/float64(s.MaxMemory), finding.MemberFullShare, readable.Bytes(s.Memory)+" of "+readable.Bytes(s.MaxMemory))
	}
	return r
}

// severityOf says how bad the state of a fleet, a partition or a member is.
func severityOf[S ~string](state S) finding.Severity {
	switch string(state) {
	case string(fleet.Healthy), string(fleet.Up):
		return finding.OK
	case string(fleet.Partial), string(fleet.Copying), string(fleet.Loading), string(fleet.Fenced):
		return finding.Warning
	}
	return finding.Critical
}

func newGauge(part, full float64, words string) gauge {
	g := gauge{Width: strconv.FormatFloat(100*min(max(part, 0), 1), 'f', 1, 64), Tone: "used", Words: words}
	if part >= full {
		g.Tone = "full"
	}
	return g
}

// fillSnapshots adds the age of snapshots, if known.
func (p *fleetPage) fillSnapshots(a snapshot.Ages) {
	if a.Now.IsZero() {
		return
	}
	some := false
	for _, s := range a.Partitions {
		row := savedRow{Partition: s.Partition, At: s.Saved.At, Took: s.Saved.Took, On: s.Saved.Addr, File: s.Archived.File,
			Age: since(a.Now, s.Saved.At), Archived: since(a.Now, s.Archived.At)}
		if !s.Failed.At.IsZero() {
			row.Failed = since(a.Now, s.Failed.At) + " ago: " + s.Failed.Why
		}
		some = some || row.Age != "" || row.Archived != "" || row.Failed != ""
		p.Saved = append(p.Saved, row)
	}
	if !some {
		p.Saved = nil
		return
	}
	p.Exposure, p.ArchiveLoss = exposure(a.Saved), exposure(a.Archived)
}

// exposure describes how many writes would be lost.
func exposure(e snapshot.Exposure) string {
	none := slices.Sorted(slices.Values(e.None))
	words := make([]string, len(none))
	for i, id := range none {
		words[i] = strconv.Itoa(id)
	}
	switch {
	case e.Partition < 0:
		return "everything"
	case len(none) > 5:
		return fmt.Sprintf("all of %s, and up to %s of the others", readable.Count(len(none), "partition"), ago(e.Longest))
	case len(none) > 0:
		return fmt.Sprintf("all of partition %s, and up to %s of the others", english.WordSeries(words, "and"), ago(e.Longest))
	}
	return fmt.Sprintf("up to %s, of partition %d", ago(e.Longest), e.Partition)
}
