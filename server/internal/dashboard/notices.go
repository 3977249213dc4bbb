package dashboard

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/finding"
	"github.com/millrace/millrace/internal/readable"
	"github.com/millrace/millrace/internal/survey"
)

// notice is something that needs attention.
type notice struct {
	finding.Finding

	Kind string // of its structure: Queue
	Name string // which one; may be empty
	Path string // its page
}

func newNotice(severity finding.Severity, kind, name, path, text, advice string) notice {
	return notice{finding.New(severity, "", text, advice), kind, name, path}
}

// kinds are all kinds, with their names in a notice, in a sentence, and in paths of pages.
var kinds = []struct {
	kind                  survey.Kind
	title, thing, section string
}{
	{survey.Queue, "Queue", "queue", "queues"},
	{survey.Ick, "Dirty list", "dirty list", "icks"},
	{survey.Channel, "Channel", "channel", "channels"},
	{survey.Hashes, "Hashes", "namespace of hashes", ""},
	{survey.Keys, "Pinned values", "namespace of pinned values", ""},
	{survey.Lease, "Lease", "lease", ""},
	{survey.Steal, "Upkeep", "", ""},
	{survey.Fleet, "Fleet", "", ""},
	{survey.Server, "Redis", "", ""},
	{survey.Names, "Names", "", ""},
}

// notices returns the problems that need attention: first whether the survey is complete, then
// the worst first.
func (d *Dashboard) notices(v *survey.View) []notice {
	var all []notice
	for _, t := range v.Troubles {
		if t.Kind != survey.Server || t.Name != "" { // each page shows it on top
			all = append(all, d.trouble(t))
		}
	}
	all = slices.Concat(all, d.fleetNotices(v.Fleet), d.serverNotices(v.Server, v.Fleet != nil), d.queueNotices(v), d.ickNotices(v))
	for _, h := range v.Hashes {
		all = append(all, d.overdueNotices(h.Name, h.Overdue, h.OldestOverdue)...)
	}
	for _, k := range v.Keys {
		all = append(all, d.overdueNotices(k.Name, k.Overdue, k.OldestOverdue)...)
	}
	slices.SortStableFunc(all, func(a, b notice) int { return cmp.Compare(b.Severity, a.Severity) })
	return append(leftOut(v), all...)
}

// leftOut reports structures that are not surveyed.
func leftOut(v *survey.View) []notice {
	var words []string
	for _, k := range kinds {
		if n := v.LeftOut[k.kind]; n > 0 {
			words = append(words, readable.Number(n)+" more of kind "+k.thing)
		}
	}
	if len(words) == 0 {
		return nil
	}
	return []notice{newNotice(finding.Note, "", "", "", "This is not all: "+english.WordSeries(words, "and")+" are not surveyed.",
		"These pages show the first 200 of each kind by name.")}
}

// trouble reports a structure that could not be read.
func (d *Dashboard) trouble(t survey.Trouble) notice {
	n := newNotice(finding.Critical, "", t.Name, "", "could not be read: "+stop(t.Err.Error()), millrace.Hint(t.Err))
	for _, k := range kinds {
		if k.kind == t.Kind {
			n.Kind = k.title
			if k.section != "" && t.Name != "" {
				n.Path = d.link(k.section, t.Name)
			}
		}
	}
	return n
}

func (d *Dashboard) queueNotices(v *survey.View) (all []notice) {
	for _, q := range v.Queues {
		add := func(path, text, hint string) {
			all = append(all, newNotice(finding.Warning, "Queue", q.Name, path, text, hint))
		}
		page := d.link("queues", q.Name)
		all = append(all, d.findings(q)...)
		if q.Paused && q.Waiting == 0 {
			add(page, "is paused.", "")
		}
		if q.Dead > 0 {
			add(query(page, "place", "dead")+"#browser", "has "+readable.Count(q.Dead, "dead letter")+".", "")
		}
	}
	return all
}

// findings returns the problems of a queue, each with its cause.
func (d *Dashboard) findings(s fairqueue.Stats) (all []notice) {
	for _, f := range diagnosis.OfQueue(s) {
		all = append(all, d.finding(s.Name, f))
	}
	return all
}

// finding leads to the page of the tenant that is the cause, where it is paused or limited.
func (d *Dashboard) finding(queue string, f diagnosis.Finding) notice {
	n := newNotice(f.Severity, "Queue", queue, d.link("queues", queue), f.Text+".", f.Advised())
	switch {
	case f.Tenant != "":
		n.Path = d.tenantPath(queue, f.Tenant)
	case f.Code == diagnosis.ScheduleLate:
		n.Path = query(d.link("schedules"), "queue", queue)
	}
	return n
}

func (d *Dashboard) ickNotices(v *survey.View) (all []notice) {
	add := func(kind, path, name string, parked int, oldest time.Duration) {
		if parked > 0 {
			all = append(all, newNotice(finding.Warning, kind, name, path, "has "+readable.Number(parked)+" parked: members that failed and wait for a retry.", ""))
		}
		if oldest >= finding.OldAge {
			all = append(all, newNotice(finding.Warning, kind, name, path, "has a mark that has been waiting for "+ago(oldest)+".", "Check that its consumer runs and keeps up."))
		}
	}
	for _, k := range v.Icks {
		add("Dirty list", d.link("icks", k.Name), k.Name, k.Parked, k.OldestAge)
	}
	for _, c := range v.Channels {
		path := d.link("channels", c.Name)
		add("Channel", path, c.Name, c.Parked, c.OldestAge)
		if c.Consumers == 0 && c.Waiting > 0 {
			all = append(all, newNotice(finding.Warning, "Channel", c.Name, path, "has no consumer, and "+readable.Count(c.Waiting, "mark")+" waiting.", ""))
		}
	}
	return all
}

func (d *Dashboard) overdueNotices(name string, overdue int, oldest time.Duration) []notice {
	if oldest < finding.OverdueAge {
		return nil
	}
	return []notice{newNotice(finding.Note, "Namespace", name, d.link("namespaces"),
		fmt.Sprintf("has %s overdue for up to %s. Overdue entries are hidden, but use memory.", readable.Number(overdue), ago(oldest)),
		"Install its Jobs in a recruiter.")}
}

func (d *Dashboard) serverNotices(s survey.ServerView, members bool) (all []notice) {
	for _, n := range s.Nodes {
		if finding.NearlyFull(n.Memory, n.MaxMemory, members) {
			all = append(all, newNotice(finding.Warning, "Redis", n.Addr, d.link("doctor"),
				fmt.Sprintf("uses %s of %s. When memory is full, adds are refused, and draining works.", readable.Bytes(n.Memory), readable.Bytes(n.MaxMemory)),
				"Let consumers catch up, or raise maxmemory."))
		}
		if unsaved := n.Unsaved(); unsaved != "" {
			all = append(all, newNotice(finding.Critical, "Redis", n.Addr, d.link("doctor"), unsaved+".", "Look at its log, and at the space on its disk."))
		}
		if n.Evicted > 0 {
			all = append(all, newNotice(finding.Critical, "Redis", n.Addr, d.link("doctor"),
				"has evicted "+readable.Count(n.Evicted, "key")+" since it started. Some may have been work.",
				"Set maxmemory-policy to noeviction."))
		}
	}
	return all
}

func (d *Dashboard) fleetNotices(f *survey.FleetView) (all []notice) {
	if f == nil {
		return nil
	}
	page := d.link("fleet")
	refused := refusing(f)
	if refused {
		all = append(all, newNotice(finding.Critical, "Fleet", "", page, "refuses writes; reads continue.",
			"Check that its directory can be reached. Writes continue when it confirms the map, or when a failover is done."))
	}
	for _, p := range f.Partitions {
		if p.State == fleet.Healthy || refused && withheld(p) {
			continue
		}
		n := newNotice(severityOf(p.State), "Partition", strconv.Itoa(p.ID), page, "is "+string(p.State)+".", "")
		for _, m := range members(p) {
			if m.State != fleet.Up {
				n.Advice += fmt.Sprintf("%s is %s. ", m.Addr, m.State)
			}
		}
		all = append(all, n)
	}
	for _, s := range f.Snapshots.Partitions {
		if !s.Failed.At.IsZero() {
			all = append(all, newNotice(finding.Warning, "Partition", strconv.Itoa(s.Partition), page, "could not be saved: "+stop(s.Failed.Why), ""))
		}
	}
	var failed []string
	for _, c := range f.Findings {
		if c.Severity == finding.Critical && c.Check != "state" && c.Check != "members" && !slices.Contains(failed, c.Check) { // partitions have notices of their own
			failed = append(failed, c.Check)
		}
	}
	if len(failed) > 0 {
		all = append(all, newNotice(finding.Critical, "Fleet", "", page, "fails "+english.PluralWord(len(failed), "a check", "checks")+": "+english.WordSeries(failed, "and")+".", "Its page says what to do."))
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
