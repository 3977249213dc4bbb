package dashboard

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fleet"
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
	Tone        string
	Epoch       int64
	Tags        int64
	Memory      string
	Servers     int
	Nodes       int
	Ring        ring
	Partitions  []partitionRow
	Events      []eventRow
	Saved       []savedRow
	Exposure    string // what is lost with all memory
	ArchiveLoss string // and with all disks
}

// partitionRow is one partition.
type partitionRow struct {
	ID         int
	Generation int
	Epoch      int64
	State      fleet.State
	Phase      string // empty unless it is unusual
	Tone       string
	Share      string
	Tags       int64
	Memory     gauge
	Thread     gauge
	Members    []memberRow
}

// memberRow is one server of a partition.
type memberRow struct {
	Role  string
	Addr  string
	Node  string
	State fleet.MemberState
	Tone  string
	Lag   string
	Error string
}

// gauge is how much of a limit is used.
type gauge struct {
	Width string // of 100
	Tone  string // used, high or full
	Words string
	None  bool // there is no limit, or it is not known
}

// eventRow is an event of an agent.
type eventRow struct {
	directory.Event

	About string
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
	p.Has, p.State, p.Tone, p.Epoch = true, f.State, stateTone(f.State), f.Epoch
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
	p.Ring = newRing(f.Points, f.Partitions)
	for _, e := range f.Events[:min(len(f.Events), maxEvents)] {
		row := eventRow{Event: e, About: "fleet"}
		if e.Partition >= 0 {
			row.About = "partition " + strconv.Itoa(e.Partition)
		}
		p.Events = append(p.Events, row)
	}
	p.fillSnapshots(f.Snapshots)
}

func newPartitionRow(s fleet.PartitionStatus) partitionRow {
	r := partitionRow{
		ID: s.ID, Generation: s.Generation, Epoch: s.Epoch, State: s.State, Tone: stateTone(s.State), Share: percent(s.Share), Tags: s.Tags,
	}
	if s.Phase != directory.Open {
		r.Phase = s.Phase
	}
	r.Memory = gauge{None: true, Words: readable.Bytes(s.Memory) + ", no limit"}
	if s.MaxMemory > 0 {
		r.Memory = newGauge(float64(s.Memory)/float64(s.MaxMemory), readable.Bytes(s.Memory)+" of "+readable.Bytes(s.MaxMemory))
	}
	r.Thread = newGauge(s.Busy, percent(s.Busy))
	if s.Master.State == fleet.Down {
		r.Memory, r.Thread = gauge{None: true, Words: "–"}, gauge{None: true, Words: "–"}
	}
	for i, m := range members(s) {
		row := memberRow{Role: "replica", Addr: m.Addr, Node: m.Node, State: m.State, Error: m.Error}
		if i == 0 {
			row.Role = "master"
		}
		switch m.State {
		case fleet.Up:
			row.Tone = "good"
		case fleet.Copying, fleet.Loading, fleet.Fenced:
			row.Tone = "warn"
		case fleet.Behind, fleet.Unknown, fleet.Down:
			row.Tone = "bad"
		}
		switch {
		case m.Lag > 0:
			row.Lag = readable.Bytes(m.Lag) + " behind"
		case i > 0 && m.State == fleet.Up:
			row.Lag = "in step"
		}
		r.Members = append(r.Members, row)
	}
	return r
}

func newGauge(part float64, words string) gauge {
	g := gauge{Width: strconv.FormatFloat(100*min(max(part, 0), 1), 'f', 1, 64), Tone: "used", Words: words}
	switch {
	case part >= 0.9:
		g.Tone = "full"
	case part >= 0.7:
		g.Tone = "high"
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
