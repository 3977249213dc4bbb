package check

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/fleet/directory"
)

// Level says how bad a finding is.
type Level = directory.Level

// Fleetwide is the partition of a finding about the fleet as a whole.
const Fleetwide = -1

// Finding is the outcome of a check.
type Finding struct {
	Check     string `json:"check"`
	Level     Level  `json:"level"`
	Code      string `json:"code"`             // for programs
	Partition int    `json:"partition"`        // Fleetwide for none
	Member    string `json:"member,omitempty"` // the address of a server, which may be one of the directory's
	What      string `json:"what"`             // about the member or the partition, for people
	Hint      string `json:"hint,omitempty"`   // the next step; empty at the level ok
}

// Where names the subject of a finding; empty for the fleet as a whole.
func (f Finding) Where() string {
	switch {
	case f.Member != "" && f.Partition != Fleetwide:
		return fmt.Sprintf("%s (partition %d)", f.Member, f.Partition)
	case f.Member != "":
		return f.Member
	case f.Partition != Fleetwide:
		return fmt.Sprintf("partition %d", f.Partition)
	}
	return ""
}

// String returns a line for people.
func (f Finding) String() string {
	if where := f.Where(); where != "" {
		return where + ": " + f.What
	}
	return f.What
}

// Config sets the scope of a check. The zero value works.
type Config struct {
	// Sample is how many tags are looked up. Defaults to none.
	Sample int

	// All looks up all tags instead, with one pass over the keys of all partitions.
	All bool

	// MaxSnapshotAge is the age from which a snapshot is too old. Defaults to 24 hours.
	MaxSnapshotAge time.Duration

	// Progress is called during a pass over all keys, with how many were visited and how many
	// there are, from one goroutine at a time. Defaults to none.
	Progress func(visited, keys int64)
}

// checks are all checks, in the order of their findings.
var checks = []struct {
	name string
	run  func(*facts) findings
}{
	{"state", checkState},
	{"members", func(f *facts) findings { return checkMembers(f.status) }},
	{"boot-fence", checkBootFence},
	{"settings", checkSettings},
	{"replication", checkReplication},
	{"directory", checkDirectory},
	{"nodes", checkNodes},
	{"spares", checkSpares},
	{"snapshots", checkSnapshots},
	{"versions", checkVersions},
	{"agents", checkAgents},
	{"clocks", checkClocks},
	{"tags", func(f *facts) findings { return f.tags }},
}

// Run checks a fleet. Each check has at least one finding; the worst findings come first. A
// server that does not answer within two seconds makes its checks unknown. The error is the
// cause of ctx's end.
func Run(ctx context.Context, f *fleet.Fleet, cfg Config) ([]Finding, error) {
	cfg.MaxSnapshotAge = cmp.Or(cfg.MaxSnapshotAge, 24*time.Hour)
	facts, err := gather(ctx, f, cfg)
	if err != nil {
		return nil, err
	}
	var all []Finding
	for _, c := range checks {
		for _, finding := range c.run(facts) {
			finding.Check = c.name
			all = append(all, finding)
		}
	}
	slices.SortStableFunc(all, func(a, b Finding) int { return cmp.Compare(severity(a.Level), severity(b.Level)) })
	return all, nil
}

// Levels are the levels of findings, the worst first.
var Levels = []Level{directory.Fail, directory.Warn, directory.Unknown, directory.OK}

func severity(l Level) int { return slices.Index(Levels, l) }

// Count returns how many findings have a level.
func Count(all []Finding, level Level) (n int) {
	for _, f := range all {
		if f.Level == level {
			n++
		}
	}
	return n
}

// Group has findings that say the same of several members or partitions.
type Group struct {
	Finding

	Places []string // where it holds; empty for the fleet as a whole
}

// mostPlaces is how many places String names.
const mostPlaces = 3

// String returns a line for people, with the first places.
func (g *Group) String() string {
	places := strings.Join(g.Places[:min(len(g.Places), mostPlaces)], ", ")
	if more := len(g.Places) - mostPlaces; more > 0 {
		places += fmt.Sprintf(" and %d more", more)
	}
	if places == "" {
		return g.What
	}
	return places + ": " + g.What
}

// Groups joins findings that say the same, in the order of the first ones.
func Groups(all []Finding) (groups []*Group) {
	type key struct {
		check, what, hint string
		level             Level
	}
	known := map[key]*Group{}
	for _, f := range all {
		k := key{f.Check, f.What, f.Hint, f.Level}
		g := known[k]
		if g == nil {
			g = &Group{Finding: f}
			known[k] = g
			groups = append(groups, g)
		}
		if where := f.Where(); where != "" {
			g.Places = append(g.Places, where)
		}
	}
	return groups
}

// findings are those of one check.
type findings []Finding

// add adds one about a member of a partition, about the partition if the member is empty, or
// about the fleet if the partition is Fleetwide.
func (l *findings) add(level Level, code string, partition int, member, what, hint string) {
	*l = append(*l, Finding{Level: level, Code: code, Partition: partition, Member: member, What: what, Hint: hint})
}

// orOK returns the findings, with one that all is well if there are none.
func (l findings) orOK(format string, args ...any) findings {
	if len(l) == 0 {
		l.add(directory.OK, "ok", Fleetwide, "", fmt.Sprintf(format, args...), "")
	}
	return l
}
