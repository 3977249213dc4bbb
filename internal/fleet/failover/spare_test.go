package failover

import (
	"slices"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/members"
)

// TestReplaceDead tests the decision alone: the simulation shows the rest.
func TestReplaceDead(t *testing.T) {
	t.Parallel()
	const every = time.Second
	type fleet struct {
		m    *directory.Map
		seen map[string]health
	}
	for name, tc := range map[string]struct {
		change func(f fleet)
		want   string // the new task of partition 0: the spare; "" for none, "waits", "again" if the spare of the task is one again
	}{
		"a dead replica":             {func(fleet) {}, "s1:1"},
		"it is off":                  {func(f fleet) { f.m.Settings.ReplaceAfter = 0 }, ""},
		"not for long enough":        {func(f fleet) { f.seen["b:1"] = health{missed: 9} }, ""},
		"the map has it up":          {func(f fleet) { f.m.Partitions[0].Replicas[0].Down = false }, ""},
		"partitions are being added": {func(f fleet) { f.m.Partitions[1].Phase = directory.LookUp }, ""},
		"no master":                  {func(f fleet) { f.m.Partitions[0].ReadOnly = true }, ""},
		"a command changes members":  {func(f fleet) { f.m.Partitions[0].Task = &directory.Task{Plan: "add"} }, ""},
		"a member leaves":            {func(f fleet) { f.m.Partitions[0].Leaving = &directory.Member{Addr: "x:1"} }, ""},
		"another one is replaced": {func(f fleet) {
			f.m.Partitions[1].Task = &directory.Task{Plan: "spare-1", Add: &directory.Member{Addr: "s9:1"}}
		}, ""},
		"another command elsewhere": {func(f fleet) { f.m.Partitions[1].Task = &directory.Task{Plan: "add"} }, "s1:1"},
		"the spare is dead":         {func(f fleet) { f.seen["s1:1"] = health{missed: 1} }, "s2:1"},
		"it has no fence":           {func(f fleet) { f.seen["s1:1"] = health{seen: true, report: members.Report{Master: true}} }, "s2:1"},
		"it belongs elsewhere": {func(f fleet) {
			f.seen["s1:1"] = health{seen: true, report: members.Report{Identity: members.Identity("f", 1)}}
		}, "s2:1"},
		"it began to copy the same partition once": {func(f fleet) {
			f.seen["s1:1"] = health{seen: true, report: members.Report{Identity: members.Identity("f", 0)}}
		}, "s1:1"},
		"it is on the master's machine":   {func(f fleet) { f.m.Spares[0].Node = "a" }, "s2:1"},
		"it is on the dead one's machine": {func(f fleet) { f.m.Spares[0].Node = "b" }, "s1:1"},
		"its machine has more members":    {func(f fleet) { f.m.Spares[0].Node = "c" }, "s2:1"},
		"no spare":                        {func(f fleet) { f.m.Spares = nil }, "waits"},
		"no spare that fits":              {func(f fleet) { f.m.Spares = f.m.Spares[:1]; f.m.Spares[0].Node = "a" }, "waits"},
		"a spare dies before it has joined": {func(f fleet) {
			f.m.Partitions[0].Task = &directory.Task{Plan: "spare-0", Add: &directory.Member{Addr: "s0:1"}, Remove: "b:1"}
			f.seen["s0:1"] = health{missed: 10}
		}, "again"},
	} {
		f := fleet{
			&directory.Map{Fleet: "f", Settings: directory.Settings{ReplaceAfter: 10 * time.Second}, Partitions: []directory.Partition{
				{ID: 0, Phase: directory.Open, Master: directory.Member{Addr: "a:1", Node: "a"}, Replicas: []directory.Member{{Addr: "b:1", Node: "b", Down: true}}},
				{ID: 1, Phase: directory.Open, Master: directory.Member{Addr: "c:1", Node: "c"}, Replicas: []directory.Member{{Addr: "a:2", Node: "a"}}},
			}, Spares: []directory.Member{{Addr: "s1:1", Node: "s1"}, {Addr: "s2:1", Node: "s2"}}},
			map[string]health{"a:1": {seen: true}, "b:1": {missed: 10}, "c:1": {seen: true}, "a:2": {seen: true}, "s1:1": {seen: true}, "s2:1": {seen: true}},
		}
		tc.change(f)
		got := ""
		switch a := replaceDead(f.m, func(addr string) health { return f.seen[addr] }, every).(type) {
		case waits:
			got = "waits"
		case changeMap:
			next := f.m.Clone()
			a.edit(next)
			if task := next.Partitions[0].Task; task != nil {
				if got = task.Add.Addr; task.Remove != "b:1" || find(next.Spares, got) {
					t.Errorf("%s: task %+v, spares %v: want the dead member to leave, and one spare less", name, task, next.Spares)
				}
			} else if find(next.Spares, "s0:1") {
				got = "again"
			}
		}
		if got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

func find(all []directory.Member, addr string) bool {
	return slices.ContainsFunc(all, func(m directory.Member) bool { return m.Addr == addr })
}
