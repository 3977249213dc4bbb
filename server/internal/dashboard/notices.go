package dashboard

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/readable"
	"github.com/millrace/millrace/internal/survey"
)

// notice is something that needs attention.
type notice struct {
	Tone string // bad, warn or note
	Kind string // what it is about: Queue
	Name string // which one; may be empty
	Path string // its page
	Text string
	Hint string
}

const (
	// staleAge is the age of the oldest message or mark that causes a notice.
	staleAge = 5 * time.Minute

	// overdueAge is how long entries may be overdue without a notice.
	overdueAge = time.Minute

	// fullMemory is the share of maxmemory that causes a notice.
	fullMemory = 0.9
)

// notices returns what needs attention: first whether the survey is complete, then the
// worst first.
func (d *Dashboard) notices(v *survey.View) []notice {
	var all []notice
	for _, t := range v.Troubles {
		if t.Kind != survey.Server || t.Name != "" { // each page shows it on top
			all = append(all, d.trouble(t))
		}
	}
	all = append(all, d.fleetNotices(v.Fleet)...)
	all = append(all, d.serverNotices(v.Server)...)
	for _, q := range v.Queues {
		all = append(all, d.queueNotices(q.Name, q.Paused, q.Waiting, q.Dead, q.OldestAge)...)
	}
	for _, k := range v.Icks {
		all = append(all, d.ickNotices("Dirty list", d.link("icks", k.Name), k.Name, k.Parked, k.OldestAge)...)
	}
	for _, c := range v.Channels {
		all = append(all, d.ickNotices("Channel", d.link("channels", c.Name), c.Name, c.Parked, c.OldestAge)...)
		if c.Consumers == 0 && c.Waiting > 0 {
			all = append(all, notice{Tone: "warn", Kind: "Channel", Name: c.Name, Path: d.link("channels", c.Name),
				Text: "has no consumer, and " + readable.Count(c.Waiting, "mark") + " waiting."})
		}
	}
	for _, h := range v.Hashes {
		all = append(all, d.overdueNotices(h.Name, h.Overdue, h.OldestOverdue)...)
	}
	for _, k := range v.Keys {
		all = append(all, d.overdueNotices(k.Name, k.Overdue, k.OldestOverdue)...)
	}
	rank := map[string]int{"bad": 0, "warn": 1, "note": 2}
	slices.SortStableFunc(all, func(a, b notice) int { return rank[a.Tone] - rank[b.Tone] })
	return append(leftOut(v), all...)
}

// leftOut reports structures that are not surveyed.
func leftOut(v *survey.View) []notice {
	var words []string
	for _, k := range []struct {
		kind  survey.Kind
		thing string
	}{
		{survey.Queue, "queue"}, {survey.Ick, "dirty list"}, {survey.Channel, "channel"},
		{survey.Hashes, "namespace of hashes"}, {survey.Keys, "namespace of pinned values"}, {survey.Lease, "lease"},
	} {
		if n := v.LeftOut[k.kind]; n > 0 {
			words = append(words, readable.Number(n)+" more of kind "+k.thing)
		}
	}
	if len(words) == 0 {
		return nil
	}
	return []notice{{Tone: "note", Text: "This is not all: " + english.WordSeries(words, "and") + " are not surveyed.",
		Hint: "These pages show the first 200 of each kind by name."}}
}

// trouble reports what could not be read.
func (d *Dashboard) trouble(t survey.Trouble) notice {
	n := notice{Tone: "bad", Text: "could not be read: " + stop(t.Err.Error()), Hint: millrace.Hint(t.Err), Name: t.Name}
	sections := map[survey.Kind]string{survey.Queue: "queues", survey.Ick: "icks", survey.Channel: "channels"}
	n.Kind = map[survey.Kind]string{
		survey.Queue: "Queue", survey.Ick: "Dirty list", survey.Channel: "Channel", survey.Hashes: "Hashes", survey.Keys: "Pinned values",
		survey.Lease: "Lease", survey.Steal: "Upkeep", survey.Fleet: "Fleet", survey.Server: "Redis",
		survey.Names: "Names",
	}[t.Kind]
	if section := sections[t.Kind]; section != "" && t.Name != "" {
		n.Path = d.link(section, t.Name)
	}
	return n
}

func (d *Dashboard) queueNotices(name string, paused bool, waiting, dead int, oldest time.Duration) []notice {
	n := notice{Tone: "warn", Kind: "Queue", Name: name, Path: d.link("queues", name)}
	var all []notice
	if paused {
		n.Text = "is paused."
		if waiting > 0 {
			n.Text = "is paused, and " + readable.Count(waiting, "message") + " waiting."
		}
		all = append(all, n)
	}
	if dead > 0 {
		n.Text, n.Path = "has "+readable.Count(dead, "dead letter")+".", query(d.link("queues", name), "place", "dead")+"#browser"
		all = append(all, n)
	}
	if oldest >= staleAge && !paused {
		n.Text, n.Path = "has a message that has been waiting for "+ago(oldest)+".", d.link("queues", name)
		n.Hint = "Check that it has enough readers."
		all = append(all, n)
	}
	return all
}

func (d *Dashboard) ickNotices(kind, path, name string, parked int, oldest time.Duration) []notice {
	n := notice{Tone: "warn", Kind: kind, Name: name, Path: path}
	var all []notice
	if parked > 0 {
		n.Text = "has " + readable.Number(parked) + " parked: members that failed and wait for a retry."
		all = append(all, n)
	}
	if oldest >= staleAge {
		n.Text = "has a mark that has been waiting for " + ago(oldest) + "."
		n.Hint = "Check that its consumer runs and keeps up."
		all = append(all, n)
	}
	return all
}

func (d *Dashboard) overdueNotices(name string, overdue int, oldest time.Duration) []notice {
	if oldest < overdueAge {
		return nil
	}
	return []notice{{
		Tone: "note", Kind: "Namespace", Name: name, Path: d.link("namespaces"),
		Text: fmt.Sprintf("has %s overdue for up to %s. Overdue entries are hidden, but use memory.", readable.Number(overdue), ago(oldest)),
		Hint: "Install its Jobs in a recruiter.",
	}}
}

func (d *Dashboard) serverNotices(s survey.ServerView) []notice {
	var all []notice
	for _, n := range s.Nodes {
		if n.MaxMemory > 0 && float64(n.Memory) >= fullMemory*float64(n.MaxMemory) {
			all = append(all, notice{Tone: "bad", Kind: "Redis", Name: n.Addr, Path: d.link("doctor"),
				Text: fmt.Sprintf("uses %s of %s. When memory is full, adds are refused, and draining works.", readable.Bytes(n.Memory), readable.Bytes(n.MaxMemory)),
				Hint: "Let consumers catch up, or raise maxmemory."})
		}
		if n.Evicted > 0 {
			all = append(all, notice{Tone: "bad", Kind: "Redis", Name: n.Addr, Path: d.link("doctor"),
				Text: "has evicted " + readable.Count(n.Evicted, "key") + " since it started. Some may have been work.",
				Hint: "Set maxmemory-policy to noeviction."})
		}
	}
	return all
}

func (d *Dashboard) fleetNotices(f *survey.FleetView) []notice {
	if f == nil {
		return nil
	}
	var all []notice
	refused := refusing(f)
	if refused {
		all = append(all, notice{Tone: "bad", Kind: "Fleet", Path: d.link("fleet"), Text: "refuses writes; reads continue.",
			Hint: "Check that its directory can be reached. Writes continue when it confirms the map, or when a failover is done."})
	}
	for _, p := range f.Partitions {
		if p.State == fleet.Healthy || refused && withheld(p) {
			continue
		}
		n := notice{Tone: stateTone(p.State), Kind: "Partition", Name: strconv.Itoa(p.ID), Path: d.link("fleet"), Text: "is " + string(p.State) + "."}
		for _, m := range members(p) {
			if m.State != fleet.Up {
				n.Hint += fmt.Sprintf("%s is %s. ", m.Addr, m.State)
			}
		}
		all = append(all, n)
	}
	for _, s := range f.Snapshots.Partitions {
		if !s.Failed.At.IsZero() {
			all = append(all, notice{Tone: "warn", Kind: "Partition", Name: strconv.Itoa(s.Partition), Path: d.link("fleet"),
				Text: "could not be saved: " + stop(s.Failed.Why)})
		}
	}
	return all
}

// refusing reports whether a fleet with live masters refuses all writes: its directory
// does not confirm the map.
func refusing(f *survey.FleetView) bool {
	up := false
	for _, p := range f.Partitions {
		if p.State != fleet.ReadOnly && p.State != fleet.Out {
			return false
		}
		up = up || withheld(p)
	}
	return up
}

// withheld reports whether a partition with a live master refuses writes.
func withheld(p fleet.PartitionStatus) bool {
	return p.State == fleet.ReadOnly && p.Master.State == fleet.Up
}

// stateTone returns the colour of a state.
func stateTone(s fleet.State) string {
	switch s {
	case fleet.Healthy:
		return "good"
	case fleet.Partial:
		return "warn"
	case fleet.ReadOnly, fleet.Out:
	}
	return "bad"
}

// members returns the servers of a partition.
func members(p fleet.PartitionStatus) []fleet.MemberStatus {
	return append([]fleet.MemberStatus{p.Master}, p.Replicas...)
}
