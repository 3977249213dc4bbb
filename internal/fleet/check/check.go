package check

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/finding"
)

// Fleetwide is the partition of a finding about the fleet as a whole.
const Fleetwide = -1

// Finding is the outcome of a check. Its text is about the member or the partition.
type Finding struct {
	Check string `json:"check"`
	finding.Finding

	Partition int    `json:"partition"`        // Fleetwide for none
	Member    string `json:"member,omitempty"` // the address of a server, which may be one of the directory's
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
		return where + ": " + f.Text
	}
	return f.Text
}

// Config sets the scope of a check. The zero value works.
type Config struct {
	// Sample is how many tags are looked up. Defaults to none.
	Sample int

	// All looks up all tags instead, with one pass over the keys of all partitions.
	All bool

	// MaxSnapshotAge is the age from which a snapshot is too old. Defaults to finding.SnapshotAge.
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
// server that does not answer within two seconds is a note of its checks. The error is the
// cause of ctx's end.
func Run(ctx context.Context, f *fleet.Fleet, cfg Config) ([]Finding, error) {
	cfg.MaxSnapshotAge = cmp.Or(cfg.MaxSnapshotAge, finding.SnapshotAge)
	facts, err := gather(ctx, f, cfg)
	if err != nil {
		return nil, err
	}
	var all []Finding
	for _, c := range checks {
		for _, f := range c.run(facts) {
			f.Check = c.name
			all = append(all, f)
		}
	}
	slices.SortStableFunc(all, func(a, b Finding) int { return cmp.Compare(b.Severity, a.Severity) })
	return all, nil
}

// Count counts findings.
func Count(all []Finding) (n finding.Counts) {
	for _, f := range all {
		n[f.Severity]++
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
		return g.Text
	}
	return places + ": " + g.Text
}

// Groups joins findings that say the same, in the order of the first ones.
func Groups(all []Finding) (groups []*Group) {
	type key struct {
		check, text, advice string
		severity            finding.Severity
	}
	known := map[key]*Group{}
	for _, f := range all {
		k := key{f.Check, f.Text, f.Advice, f.Severity}
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
func (l *findings) add(severity finding.Severity, code string, partition int, member, text, advice string) {
	*l = append(*l, Finding{"", finding.New(severity, code, text, advice), partition, member})
}

// orOK returns the findings, with one that all is well if there are none.
func (l findings) orOK(format string, args ...any) findings {
	if len(l) == 0 {
		l.add(finding.OK, "ok", Fleetwide, "", fmt.Sprintf(format, args...), "")
	}
	return l
}
