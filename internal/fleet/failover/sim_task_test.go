package failover_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
)

// spare is a server of a partition that is no member yet: it runs, empty and fenced.
func (w *world) spare(partition, number int) *server {
	s := &server{host: w.newHost(fmt.Sprintf("s%d-%d:6379", number, partition)), w: w, partition: partition, amnesic: true}
	s.history = s.newHistory()
	s.lag = w.quickly(s)
	return s
}

// voters are the members that count in elections.
func voters(p directory.Partition) []directory.Member {
	all := p.Members()
	if p.Leaving != nil {
		all = append(all, *p.Leaving)
	}
	return all
}

func isVoter(p directory.Partition, s *server) bool {
	return slices.ContainsFunc(voters(p), func(m directory.Member) bool { return m.Addr == s.name })
}

// needed reports whether a task cannot end without a server.
func (w *world) needed(s *server) bool {
	for _, p := range w.dir.m.Partitions {
		if p.Task != nil && len(p.Task.Restart) > 0 {
			return true
		}
	}
	p := w.dir.m.Partitions[s.partition]
	return p.Task != nil && p.Task.Remove != s.name || p.Leaving != nil && p.Leaving.Addr != s.name
}

func addOne(w *world)    { w.begin1(w.anyTask(true, false)) }
func removeOne(w *world) { w.begin1(w.anyTask(false, true)) }
func moveOne(w *world)   { w.begin1(w.anyTask(true, true)) }
func leadOther(w *world) { w.begin1(w.anyTask(false, false)) }

func restartSome(w *world) {
	p := pick(w, w.dir.m.Partitions)
	t := directory.Task{Plan: fmt.Sprint("plan ", len(w.dir.stored))}
	for _, m := range p.Members() {
		if w.rng.IntN(3) > 0 {
			t.Restart = append(t.Restart, directory.Restart{Addr: m.Addr, Run: m.Run})
		}
	}
	if w.rng.IntN(2) == 0 {
		t.Master = p.Master.Addr
	}
	w.begin1(p.ID, t)
}

// tasks are the faults that begin a task.
func tasks() []fault {
	return []fault{addOne, removeOne, moveOne, moveOne, leadOther, restartSome, restartSome, preferOne, preferOne}
}

// begin1 stores a task, as a command does, if the partition has none. On a directory that
// went back it waits for the agents: a change there may be one of two with its epoch.
func (w *world) begin1(id int, t directory.Task) {
	p := w.dir.m.Partitions[id]
	if p.Task == nil && p.Leaving == nil {
		w.command(id, func(p *directory.Partition) { p.Task = &t })
	}
}

// preferOne is a planned switch: to a replica in step or not, to the master, or to a member that has left.
func preferOne(w *world) {
	p := pick(w, w.dir.m.Partitions)
	w.command(p.ID, func(p *directory.Partition) { p.Prefer = pick(w, w.servers).name })
}

// command changes the map as a command does, if the directory answers.
func (w *world) command(id int, edit func(p *directory.Partition)) {
	m, k := w.dir.m, w.dir.etcd.primary
	if k.down || k.paused || w.dir.behind() || w.dir.decides(k) != nil {
		return
	}
	next := m.Next()
	edit(&next.Partitions[id])
	w.say("a command changes partition %d: task %+v, prefers %q", id, next.Partitions[id].Task, next.Partitions[id].Prefer)
	if err := w.dir.change(m.Epoch, next); err != nil {
		w.fail("the simulation is broken: %v", err)
	}
}

// anyTask returns a task that adds a spare server, or removes a member, or both. A member
// is only removed if enough are left.
func (w *world) anyTask(add, remove bool) (id int, t directory.Task) {
	p := pick(w, w.dir.m.Partitions)
	var free []*server
	for _, s := range w.servers {
		if s.partition == p.ID && !isVoter(p, s) && !s.gone {
			free = append(free, s)
		}
	}
	all := p.Members()
	t.Plan = fmt.Sprint("plan ", len(w.dir.stored))
	if add && len(free) > 0 {
		s := pick(w, free)
		t.Add = &directory.Member{Addr: s.name, Node: fmt.Sprint("node", w.rng.IntN(3))}
	}
	if remove && (t.Add != nil || len(all) > max(2, w.confirmed+1)) {
		t.Remove = pick(w, all).Addr
		if t.Remove == p.Master.Addr && t.Add != nil && w.rng.IntN(2) == 0 {
			t.Master = t.Add.Addr
		}
	}
	if !add && !remove || t.Master == "" && w.rng.IntN(3) == 0 {
		if to := pick(w, all).Addr; to != t.Remove {
			t.Master = to
		}
	}
	return p.ID, t
}

// restart shuts a server down for an agent, and starts it again a moment later. No other
// member may be missing that an agent has shut down.
func (w *world) restart(by string, s *server) {
	for _, o := range w.servers {
		if o.planned = o.planned && (o.down || o.amnesic); o.planned && isVoter(w.dir.m.Partitions[o.partition], o) {
			w.fail("T: %s restarts %s, and %s is not whole since its restart", by, s.name, o.name)
		}
	}
	w.say("%s shuts %s down", by, s.name)
	keeps, how := !w.mayForget(s), w.rng.IntN(3)
	s.die(false)
	if s.planned, s.saved = true, keeps; keeps {
		s.disk = s.data
	}
	w.later(50*time.Millisecond+time.Duration(w.draw(&s.host, &s.host, int64(2*time.Second))), func() { s.rise(how, true) })
}

// TestEveryStepOfATask kills and stops the leading agent at each of its calls while it
// carries out a task. Another agent goes on.
func TestEveryStepOfATask(t *testing.T) {
	t.Parallel()
	for name, task := range map[string]func(w *world) directory.Task{
		"the master is moved": func(w *world) directory.Task {
			joins := directory.Member{Addr: w.servers[3].name, Node: "node2"}
			return directory.Task{Add: &joins, Remove: w.servers[0].name, Master: joins.Addr}
		},
		"all members are restarted": func(w *world) directory.Task {
			t := directory.Task{Master: w.servers[0].name}
			for _, s := range w.servers[:3] {
				t.Restart = append(t.Restart, directory.Restart{Addr: s.name, Run: s.run()})
			}
			return t
		},
	} {
		for _, store := range stores {
			t.Run(fmt.Sprintf("%s, %s", name, store), func(t *testing.T) {
				t.Parallel()
				do := func(w *world) {
					w.with(func() {
						w.servers[2].lag = w.quickly(w.servers[2])
						w.begin1(0, task(w))
					})
					time.Sleep(12 * time.Second)
				}
				everyStep(t, do, 32, schedule{
					seed: 2, store: store, replicas: 2, spares: 1, parts: 1, every: 300 * time.Millisecond, confirmed: 1,
					settings: directory.Settings{ViewTTL: 400 * time.Millisecond, ReplyTimeout: 300 * time.Millisecond},
				})
			})
		}
	}
}

// checkTask is called before the directory stores a map: members come and go one at a
// time, and every write that replicas confirmed is on enough of those that stay.
func (w *world) checkTask(was, p directory.Partition) {
	if n, old := len(p.Members()), len(was.Members()); n < old-1 || n > old+1 {
		w.fail("T: partition %d has %d members, and had %d", p.ID, n, old)
	}
	seen := map[string]bool{}
	for _, m := range voters(p) {
		if seen[m.Addr] {
			w.fail("T: partition %d has %s twice", p.ID, m.Addr)
		}
		seen[m.Addr] = true
	}
	if was.Leaving == nil || p.Leaving != nil || p.ReadOnly || isVoter(p, w.server(was.Leaving.Addr)) || w.confirmed == 0 {
		return
	}
	missing := map[int]int{} // writes by how many replicas do not have them
	for _, m := range p.Replicas {
		s := w.server(m.Addr)
		if s.down || s.amnesic || s.paused {
			return // its loss is another accident
		}
		has := w.has(s.log)
		for i, one := range w.ledger.writes {
			if one.partition == p.ID && one.success && !one.conceded && !has[i+1] {
				missing[i+1]++
			}
		}
	}
	for id, n := range missing {
		if len(p.Replicas)-n < min(w.confirmed, len(p.Replicas)) {
			w.fail("T: %s has left, and %d replicas have not %s", was.Leaving.Addr, n, w.ledger.describe(id))
			return
		}
	}
}

// TestTasks has commands begin tasks at any time, while all that can goes wrong.
func TestTasks(t *testing.T) {
	t.Parallel()
	forSeeds(t, 150, func(seed uint64) schedule {
		s := random(seed)
		s.spares, s.faults = 2, 2*s.faults
		s.only = slices.Concat(faults(), tasks(), tasks(), tasks())
		s.leaders = seed%5 == 0
		return s
	})
}
