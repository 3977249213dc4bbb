package dashboard

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/finding"
	"github.com/millrace/millrace/internal/readable"
	"github.com/millrace/millrace/internal/survey"
)

// section is an entry of the navigation.
type section struct {
	Name    string
	Path    string
	Tally   string           // how many there are
	Worst   finding.Severity // of what is wrong there
	Why     string           // the problem
	Current bool
	Always  bool // also if nothing is there
}

// sections returns the navigation: what every service has, and what there is something of.
func (d *Dashboard) sections(v *survey.View, current string) []section {
	count := func(known int, kinds ...survey.Kind) string {
		for _, kind := range kinds {
			known += v.LeftOut[kind]
		}
		return tally(known)
	}
	sums := newSums(v)
	queues := section{Name: "Queues", Path: d.link("queues"), Always: true, Tally: count(len(v.Queues), survey.Queue)}
	if sums.dead > 0 {
		queues.Worst, queues.Why = finding.Warning, readable.Count(sums.dead, "dead letter")
	}
	schedules := section{Name: "Schedules", Path: d.link("schedules"), Tally: tally(sums.schedules)}
	if sums.overdueSchedules > 0 {
		schedules.Worst, schedules.Why = finding.Critical, readable.Number(sums.overdueSchedules)+" overdue"
	}
	lists := section{Name: "Dirty lists", Path: d.link("icks"), Tally: count(len(v.Icks)+len(v.Channels), survey.Ick, survey.Channel)}
	if sums.parked > 0 {
		lists.Worst, lists.Why = finding.Warning, readable.Number(sums.parked)+" parked"
	}
	members := section{Name: "Fleet", Path: d.link("fleet"), Always: v.Fleet != nil}
	if v.Fleet != nil {
		members.Tally = string(v.Fleet.State)
		if v.Fleet.State != fleet.Healthy {
			members.Worst, members.Why = severityOf(v.Fleet.State), "not all members serve"
		}
	}
	all := []section{
		{Name: "Overview", Path: d.link(), Always: true},
		queues,
		schedules,
		lists,
		{Name: "Upkeep", Path: d.link("stealing"), Tally: tally(v.Steal.Processes)},
		{Name: "Leases", Path: d.link("leases"), Tally: count(len(v.Leases), survey.Lease)},
		{Name: "Namespaces", Path: d.link("namespaces"), Tally: count(len(v.Hashes)+len(v.Keys), survey.Hashes, survey.Keys)},
		members,
		{Name: "Counters", Path: d.link("counters"), Always: d.cfg.Counters != nil},
		{Name: "Doctor", Path: d.link("doctor"), Always: true},
		{Name: "Audit log", Path: d.link("audit"), Always: true},
	}
	for i := range all {
		all[i].Current = all[i].Name == current
	}
	return slices.DeleteFunc(all, func(s section) bool { return !s.Always && !s.Current && s.Tally == "" && s.Why == "" })
}

// tally writes a number, or nothing for 0.
func tally(n int) string {
	if n == 0 {
		return ""
	}
	return readable.Number(n)
}

// pulse shows how fresh the numbers of a page are.
type pulse struct {
	State string // live, late or away
	At    time.Time
	Why   string // why they are not fresh
	About string // the source of the numbers
}

func newPulse(v *survey.View, now time.Time) pulse {
	p := pulse{State: "live", At: v.At, About: about(v.Server)}
	switch away := v.Away(); {
	case away != nil:
		p.State, p.Why = "away", fmt.Sprintf("Redis does not answer (%v).", away)
	case v.At.IsZero():
		p.State, p.Why = "late", "The first survey of Redis is running."
	case now.Sub(v.At) > finding.NumbersOldAge:
		p.State, p.Why = "late", "The numbers are "+since(now, v.At)+" old."
	}
	return p
}

// about describes the servers in a few words.
func about(s survey.ServerView) string {
	if len(s.Nodes) == 0 {
		return ""
	}
	text := cmp.Or(s.Nodes[0].Version, "Redis of an unknown version")
	if n := len(s.Nodes); n > 1 {
		text += ", " + readable.Count(n, "server")
	}
	return text
}
