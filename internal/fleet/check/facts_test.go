package check

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/finding"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/failover"
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/fleet/snapshot"
	"github.com/millrace/millrace/internal/redis/info"
)

// made is a fleet of one partition whose servers report facts that a test cannot get from real
// ones: other times, other versions, events of long ago.
func made(change func(f *facts, master, replica *member)) *facts {
	m := &directory.Map{Version: directory.Version, Partitions: []directory.Partition{{
		Master: directory.Member{Addr: "10.0.0.1:1", Node: "a"}, Replicas: []directory.Member{{Addr: "10.0.0.2:1", Node: "b"}},
	}}}
	f := &facts{m: m, members: membersOf(m.Partitions[0]), leader: "x", ages: snapshot.Ages{Now: time.Unix(1e9, 0)}}
	master, replica := f.members[0], f.members[1]
	master.report = members.Report{Version: "7.0.15", Master: true, Run: "r", History: "h", End: 10 << 20, InStep: 1}
	master.info = info.Fields{"slave0": "ip=10.0.0.2,port=1,state=online,offset=10485760,lag=0", "repl_backlog_size": "1048576"}
	master.settings, replica.settings = map[string]string{"min-replicas-to-write": "1"}, map[string]string{"masteruser": "mr-replica-r"}
	replica.report = members.Report{Version: "7.0.15", Linked: true, History: "h", Follows: "10.0.0.1:1"}
	change(f, master, replica)
	return f
}

// TestFacts gives the check invented members and logs, and looks at what it says about each.
func TestFacts(t *testing.T) {
	t.Parallel()
	task := func(noted ...string) func(f *facts, _, _ *member) {
		return func(f *facts, _, _ *member) {
			f.m.Partitions[0].Task = &directory.Task{}
			f.events = append(f.events, directory.Event{Partition: Fleetwide, What: failover.TaskWaits})
			for _, what := range noted {
				f.events = append(f.events, directory.Event{What: what})
			}
		}
	}
	said := func(whats ...string) func(f *facts, _, _ *member) {
		return func(f *facts, _, _ *member) {
			for _, what := range whats {
				f.events = append(f.events, directory.Event{Partition: Fleetwide, What: what})
			}
		}
	}
	line := func(line string) func(f *facts, master, _ *member) {
		return func(_ *facts, master, _ *member) { master.info["slave0"] = line }
	}
	versions := func(master, replica string) func(f *facts, m, r *member) {
		return func(_ *facts, m, r *member) { m.report.Version, r.report.Version = master, replica }
	}
	for name, test := range map[string]struct {
		change func(f *facts, master, replica *member)
		check  string
		want   []string // severities and codes
	}{
		"replicated":         {func(*facts, *member, *member) {}, "replication", []string{"ok ok"}},
		"late in time":       {line("ip=10.0.0.2,port=1,state=online,offset=10485760,lag=6"), "replication", []string{"warning lag", "warning confirmed"}},
		"late in bytes":      {line("ip=10.0.0.2,port=1,state=online,offset=1,lag=0"), "replication", []string{"warning lag", "warning confirmed"}},
		"not yet online":     {line("ip=10.0.0.2,port=1,state=wait_bgsave,offset=0,lag=0"), "replication", []string{"warning confirmed"}},
		"two histories":      {func(_ *facts, _, r *member) { r.report.History = "other" }, "replication", []string{"critical history", "warning confirmed"}},
		"clocks":             {func(_ *facts, m, _ *member) { m.ahead, m.doubt = 5*time.Millisecond, time.Millisecond }, "clocks", []string{"ok ok"}},
		"a clock ahead":      {func(_ *facts, m, _ *member) { m.ahead = 1500 * time.Millisecond }, "clocks", []string{"warning clock"}},
		"a doubtful clock":   {func(_ *facts, m, _ *member) { m.ahead, m.doubt = 1500*time.Millisecond, time.Second }, "clocks", []string{"ok ok"}},
		"one version":        {func(*facts, *member, *member) {}, "versions", []string{"ok ok"}},
		"an older replica":   {versions("7.2.1", "7.0.15"), "versions", []string{"critical older_replica", "warning versions"}},
		"an older patch":     {versions("7.2.1", "7.2.0"), "versions", []string{"warning versions"}},
		"a newer replica":    {versions("7.0.15", "8.0.0"), "versions", []string{"warning versions"}},
		"Valkey and Redis":   {versions("7.0.15", "valkey 9.0.1"), "versions", []string{"warning mixed", "warning versions"}},
		"too old":            {versions("6.0.16", "6.2.7"), "versions", []string{"critical too_old", "warning versions"}},
		"fenced":             {func(_ *facts, m, r *member) { m.Boot, r.Boot = directory.BootFenced, directory.BootFenced }, "boot-fence", []string{"ok ok"}},
		"a new task":         {task(), "agents", []string{"ok ok"}},
		"a task in progress": {task("step", failover.TaskWaits+"a"), "agents", []string{"ok ok"}},
		"a task that waits":  {task(failover.TaskWaits+"a", "step"), "agents", []string{"warning task"}},
		"a task, and no log": {func(f *facts, m, r *member) { task()(f, m, r); f.noEvents = errors.New("no answer") }, "agents", []string{"note silent"}},
		"agents stopped":     {said(directory.Stopped + "a"), "agents", []string{"critical stopped"}},
		"agents go on":       {said("the agents go on", directory.Stopped+"a"), "agents", []string{"ok ok"}},
		"no word of agents":  {func(f *facts, _, _ *member) { f.noLeader = errors.New("no answer") }, "agents", []string{"note silent"}},
		"an old map":         {func(f *facts, _, _ *member) { f.unconfirmed = errors.New("no answer") }, "directory", []string{"critical unconfirmed"}},
		"no word of ages":    {func(f *facts, _, _ *member) { f.noAges = errors.New("no answer") }, "snapshots", []string{"note silent"}},
		"refused settings":   {func(_ *facts, m, r *member) { m.settings, r.settings = nil, nil }, "settings", []string{"note refused"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, c := range checks {
				if c.name != test.check {
					continue
				}
				for _, f := range c.run(made(test.change)) {
					if code := f.Severity.String() + " " + f.Code; !slices.Contains(got, code) {
						got = append(got, code)
					}
				}
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("%s = %q, want %q", test.check, got, test.want)
			}
		})
	}
}

// TestUnevenNodes are named in the same order each time: programs compare the findings.
func TestUnevenNodes(t *testing.T) {
	t.Parallel()
	m := &directory.Map{Version: directory.Version}
	for id, node := range []string{"a", "a", "a", "b", "b", "b", "c", "d"} {
		m.Partitions = append(m.Partitions, directory.Partition{ID: id, Master: directory.Member{Addr: fmt.Sprint("10.0.0.1:", id), Node: node}})
	}
	want := checkNodes(&facts{m: m})
	if len(want) != 2 || !strings.HasPrefix(want[0].Text, "a has 3") {
		t.Fatalf("findings = %v, want a and b", want)
	}
	for range 20 {
		if got := checkNodes(&facts{m: m}); !slices.Equal(got, want) {
			t.Fatalf("findings = %v, want %v as before", got, want)
		}
	}
}

func TestGroups(t *testing.T) {
	t.Parallel()
	same := func(partition int, what string) Finding {
		f := finding.Finding{Severity: finding.Warning, Text: what, Advice: "h"}
		return Finding{Check: "settings", Finding: f, Partition: partition, Member: "m"}
	}
	groups := Groups([]Finding{same(0, "a"), same(1, "b"), same(2, "a"), {Partition: Fleetwide, Finding: finding.Finding{Text: "c"}}})
	var got []string
	for _, g := range groups {
		got = append(got, g.Text)
		got = append(got, g.Places...)
	}
	if want := []string{"a", "m (partition 0)", "m (partition 2)", "b", "m (partition 1)", "c"}; !slices.Equal(got, want) {
		t.Errorf("Groups = %q, want %q", got, want)
	}
}
