package membership

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/devfleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/grow"
	"github.com/millrace/millrace/internal/test/redistest"
)

// TestChangesUnderLoad replaces and restarts every server of a fleet while writers wait for
// replicas: no confirmed write is lost, and each read finds the last write.
func TestChangesUnderLoad(t *testing.T) {
	t.Parallel()
	w := start(t, devfleet.Config{Nodes: 2, Partitions: 2})
	l := w.load()
	l.goesOn(t)
	w.done(ReplaceNode{"node-0", []directory.Member{w.spare("a"), w.spare("a")}})
	w.expect(map[string]int{"a": 1, "node-1": 1})
	l.goesOn(t)
	w.done(DrainNode{"node-1", []directory.Member{w.spare("b"), w.spare("c")}})
	w.expect(map[string]int{"a": 1, "b": 1, "c": 0})
	l.goesOn(t)
	before := runs(w.mapNow())
	w.done(Restart{})
	for addr, run := range runs(w.mapNow()) {
		if before[addr] == run || before[addr] == "" {
			t.Errorf("%s is in run %q, and was in %q", addr, run, before[addr])
		}
	}
	l.check(t)
}

// expect checks how many masters each node has, up to exchanges of nodes.
func (w *world) expect(masters map[string]int) {
	w.t.Helper()
	got := map[string]int{}
	for _, p := range w.mapNow().Partitions {
		for _, m := range p.Members() {
			got[m.Node] += 0
		}
		got[p.Master.Node]++
	}
	counts := func(m map[string]int) []int {
		var all []int
		for _, n := range m {
			all = append(all, n)
		}
		slices.Sort(all)
		return all
	}
	if !slices.Equal(sortedKeys(got), sortedKeys(masters)) || !slices.Equal(counts(got), counts(masters)) {
		w.t.Errorf("masters by node: %v, want %v", got, masters)
	}
}

func runs(m *directory.Map) map[string]string {
	all := map[string]string{}
	for _, p := range m.Partitions {
		for _, member := range p.Members() {
			all[member.Addr] = member.Run
		}
	}
	return all
}

// TestReplicas joins, leaves, and moves.
func TestReplicas(t *testing.T) {
	t.Parallel()
	w := start(t, devfleet.Config{Nodes: 2, Partitions: 1})
	l := w.load()
	l.goesOn(t)
	added, moved := w.spare("c"), w.spare("d")
	w.done(AddReplica{0, added})
	p := w.mapNow().Partitions[0]
	if len(p.Members()) != 3 || directory.Find(p.Replicas, added.Addr) == nil {
		t.Errorf("after the addition the members are %v", p.Members())
	}
	left, switches := p.Master.Addr, 0
	_, err := w.do(t.Context(), MoveReplica{0, left, moved}, func(step string) { switches += strings.Count(step, " leads") })
	must(t, err)
	if switches != 1 {
		t.Errorf("the master was switched %d times, want once", switches)
	}
	if p = w.mapNow().Partitions[0]; p.Master.Addr != moved.Addr || directory.Find(p.Members(), left) != nil {
		t.Errorf("after the move of %s to %s the members are %v", left, moved.Addr, p.Members())
	}
	w.done(RemoveReplica{0, p.Master.Addr, false})
	if p = w.mapNow().Partitions[0]; len(p.Members()) != 2 || directory.Find(p.Members(), moved.Addr) != nil {
		t.Errorf("after the removal of %s the members are %v", moved.Addr, p.Members())
	}
	l.check(t)
	for _, nothing := range []Request{AddReplica{0, added}, MoveReplica{0, left, added}} {
		if plan, err := w.do(t.Context(), nothing, func(string) {}); err != nil || len(plan.Tasks) > 0 {
			t.Errorf("%+v once more = %+v, %v, want nothing to do", nothing, plan, err)
		}
	}
}

// TestADeadNodeIsReplaced: its members do not answer, and agents have made others masters.
func TestADeadNodeIsReplaced(t *testing.T) {
	t.Parallel()
	w := start(t, devfleet.Config{Nodes: 3, Partitions: 3})
	w.agent()
	l := w.load()
	w.settled(l.f)
	for _, s := range w.servers.Servers() {
		if s.Node == "node-0" {
			must(t, s.Proc.Kill())
		}
	}
	redistest.Eventually(t, "agents have replaced the masters of the node", func() bool {
		return !slices.ContainsFunc(w.mapNow().Partitions, func(p directory.Partition) bool {
			return p.ReadOnly || p.Master.Node == "node-0" || slices.ContainsFunc(p.Replicas, func(m directory.Member) bool { return m.Node == "node-0" && !m.Down })
		})
	})
	w.done(ReplaceNode{"node-0", []directory.Member{w.spare("new"), w.spare("new")}})
	w.expect(map[string]int{"new": 1, "node-1": 1, "node-2": 1})
	w.settled(l.f)
	l.check(t)
}

// TestCutOffAtEachStep cuts commands off after each step that they report. An agent or the same
// command completes the rest.
func TestCutOffAtEachStep(t *testing.T) {
	t.Parallel()
	requests := map[string]func(w *world, m directory.Member) Request{
		"move": func(w *world, m directory.Member) Request { return MoveReplica{0, m.Addr, w.spareOnNewNode()} },
		"replace": func(w *world, m directory.Member) Request {
			return ReplaceNode{m.Node, []directory.Member{w.spareOnNewNode()}}
		},
		"drain": func(w *world, m directory.Member) Request {
			return DrainNode{m.Node, []directory.Member{w.spareOnNewNode()}}
		},
		"restart": func(*world, directory.Member) Request { return Restart{} },
	}
	for kind, request := range requests {
		for _, by := range []string{"an agent", "a repeat"} {
			if short := kind == "move" && by == "an agent" || kind == "restart" && by == "a repeat"; !short && !soak() {
				continue
			}
			t.Run(kind+" finished by "+by, func(t *testing.T) {
				t.Parallel()
				w := start(t, devfleet.Config{Nodes: 2, Partitions: 1, RestartAfter: 20 * time.Millisecond})
				l := w.load()
				if by == "an agent" {
					w.agent()
				}
				step, stride := 1, 1
				switch {
				case soak():
				case redistest.More():
					step, stride = 2, 2
				default:
					step, stride = 2, 4
				}
				for w.cutOff(l, by, step, request) {
					step += stride
				}
				if least := 5; step < least {
					t.Errorf("it had no step %d, want at least %d", step, least)
				}
				l.check(t)
			})
		}
	}
}

// cutOff cuts a command off after a step, has the rest done, and checks the result. It
// reports whether the command had so many steps.
func (w *world) cutOff(l *load, by string, step int, request func(*world, directory.Member) Request) bool {
	w.t.Helper()
	l.goesOn(w.t)
	before := w.mapNow()
	r := request(w, before.Partitions[0].Master)
	want, err := Make(before, r)
	must(w.t, err)
	ctx, cancel := context.WithCancel(w.t.Context())
	defer cancel()
	said, published := 0, false
	_, err = w.do(ctx, r, func(text string) {
		published = published || strings.Contains(text, "is in the map")
		if said++; said == step {
			cancel()
		}
	})
	why := context.Canceled
	if published {
		why = ErrBegun
	}
	if err != nil && !errors.Is(err, why) {
		w.t.Fatalf("cut off after step %d it returns %v, want %v", step, err, why)
	}
	if by == "an agent" && published {
		w.settled(l.f)
	} else {
		w.done(r)
	}
	now, task := w.mapNow().Partitions[0], want.Tasks[0]
	switch members := now.Members(); {
	case now.Task != nil || now.Leaving != nil || len(members) != 2,
		task.Master != "" && now.Master.Addr != task.Master && len(task.Restart) == 0,
		task.Add != nil && directory.Find(members, task.Add.Addr) == nil, directory.Find(members, task.Remove) != nil:
		w.t.Errorf("%+v, cut off after step %d and finished by %s, makes the partition %+v", task, step, by, now)
	}
	for _, restart := range task.Restart {
		if directory.Find(now.Members(), restart.Addr).Run == restart.Run {
			w.t.Errorf("cut off after step %d and finished by %s, %s was not restarted", step, by, restart.Addr)
		}
	}
	return said >= step
}

// TestServersThatDoNotFit are refused before anything is changed.
func TestServersThatDoNotFit(t *testing.T) {
	t.Parallel()
	w := start(t, devfleet.Config{Nodes: 2, Partitions: 2})
	used := redistest.Start(t, redistest.Options{TCP: true})
	c := used.Client(t)
	must(t, c.Do(t.Context(), c.B().Set().Key("k").Value("v").Build()).Error())
	unfenced := redistest.Start(t, redistest.Options{TCP: true})
	gone := w.spare("gone")
	m := w.mapNow()
	for name, tc := range map[string]struct {
		member directory.Member
		want   error
		says   string
	}{
		"with data":                            {directory.Member{Addr: used.Addr(), Node: "x"}, grow.ErrUnfit, "1 key"},
		"with no one":                          {directory.Member{Addr: strings.Replace(gone.Addr, "127.0.0.1", "127.0.0.2", 1), Node: "x"}, nil, ""},
		"without a fence":                      {directory.Member{Addr: unfenced.Addr(), Node: "x"}, grow.ErrUnfit, "not back"},
		"of the partition, under another name": {directory.Member{Addr: strings.Replace(m.Partitions[0].Replicas[0].Addr, "127.0.0.1", "localhost", 1), Node: "x"}, grow.ErrUnfit, "is the same as that at"},
		"of another partition":                 {directory.Member{Addr: strings.Replace(m.Partitions[1].Master.Addr, "127.0.0.1", "localhost", 1), Node: "x"}, grow.ErrUnfit, "a member of a fleet already"},
	} {
		r := AddReplica{0, tc.member}
		p, err := Make(m, r)
		must(t, err)
		cfg := &Config{RestartTimeout: 300 * time.Millisecond}
		_, err = cfg.Examine(t.Context(), m, p)
		if err == nil {
			_, err = cfg.CarryOut(t.Context(), w.dir, m, r, p)
		}
		if err == nil || tc.want != nil && !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("a server %s: %v, want %v that says %q", name, err, tc.want, tc.says)
		}
	}
	if now := w.mapNow(); now.Epoch != m.Epoch {
		t.Errorf("the map has epoch %d, and had %d", now.Epoch, m.Epoch)
	}
}

// TestPublishOnlyWhatWasAgreed: the fleet changes between the plan and its publication.
func TestPublishOnlyWhatWasAgreed(t *testing.T) {
	t.Parallel()
	w := start(t, devfleet.Config{Nodes: 2, Partitions: 2})
	m := w.mapNow()
	r := Restart{}
	p, err := Make(m, r)
	must(t, err)
	change := func(edit func(m *directory.Map)) {
		t.Helper()
		m := w.mapNow()
		next := m.Clone()
		next.Epoch++
		edit(next)
		must(t, w.dir.Change(t.Context(), m.Epoch, next))
	}
	change(func(m *directory.Map) { m.Partitions[0].Replicas[0].Run = "another" })
	if err := Publish(t.Context(), w.dir, r, p, ""); !errors.Is(err, directory.ErrConflict) {
		t.Errorf("Publish of a plan with another run = %v, want ErrConflict", err)
	}
	change(func(m *directory.Map) { m.Partitions[0].Replicas[0].Run = p.Tasks[0].Restart[0].Run })
	must(t, Publish(t.Context(), w.dir, r, p, "")) // the epoch alone does not matter
	must(t, Publish(t.Context(), w.dir, r, p, "")) // a repeat finds it
	if now := w.mapNow(); now.Epoch != m.Epoch+3 || len(tasks(now, p.ID)) != 2 {
		t.Errorf("the map has epoch %d and %d tasks, want %d and 2", now.Epoch, len(tasks(now, p.ID)), m.Epoch+3)
	}
}

// TestCancel cancels tasks that wait for a server that has died. Finished steps stay.
func TestCancel(t *testing.T) {
	t.Parallel()
	w := start(t, devfleet.Config{Nodes: 2, Partitions: 2})
	lives, dead := w.spare("c"), directory.Member{Addr: "127.0.0.1:1", Node: "c"}
	r := ReplaceNode{"node-0", []directory.Member{lives, dead}}
	p, err := Make(w.mapNow(), r)
	must(t, err)
	must(t, Publish(t.Context(), w.dir, r, p, directory.BootFenced))
	waits := make(chan error, 1)
	go func() {
		_, err := w.config(func(string) {}).Wait(t.Context(), w.dir, p.ID)
		waits <- err
	}()
	redistest.Eventually(t, "the partition whose new server lives is done", func() bool { return len(tasks(w.mapNow(), p.ID)) == 1 })
	w.done(Cancel{p.ID})
	if err := <-waits; !errors.Is(err, directory.ErrConflict) || !strings.Contains(err.Error(), dead.Addr+" did not join") {
		t.Errorf("the command that waits gets %v, want ErrConflict that names %s", err, dead.Addr)
	}
	left := 0
	for _, p := range w.mapNow().Partitions {
		if p.Task != nil || len(p.Members()) != 2 || directory.Find(p.Members(), dead.Addr) != nil {
			t.Errorf("partition %d has the task %+v and the members %v", p.ID, p.Task, p.Members())
		}
		if directory.Find(p.Members(), lives.Addr) == nil {
			left++
		}
	}
	if left != 1 {
		t.Errorf("%d partitions were left as they were, want 1", left)
	}
	if _, err := Make(w.mapNow(), Cancel{p.ID}); !errors.Is(err, millrace.ErrNotFound) {
		t.Errorf("a second cancel = %v, want ErrNotFound", err)
	}
}
