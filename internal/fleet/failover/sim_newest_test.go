package failover_test

import (
	"slices"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
)

// TestTheNewestMapWins: the directory goes back to its first map after a member has joined. That
// is a member at the end.
func TestTheNewestMapWins(t *testing.T) {
	t.Parallel()
	restartAll := func(w *world, _ held) {
		for _, a := range w.agents {
			a.now.strike(0)
		}
	}
	forget := func(_ *world, servers ...*server) {
		for _, s := range servers {
			s.held = nil
		}
	}
	for _, tc := range []struct {
		name string
		with func(w *world, leader held) // happens at the same time
	}{
		{"the leader remembers it", func(w *world, leader held) {
			w.dir.holds["agent"] = leader
			forget(w, w.servers...)
		}},
		{"members hold it", restartAll},
		{"one member holds it", func(w *world, _ held) {
			restartAll(w, held{})
			forget(w, w.servers[1:]...)
		}},
		{"a member holds it whose copy another one must name", func(w *world, _ held) {
			// Of the first map's members only one answers, and its copy names the new member alone.
			restartAll(w, held{})
			forget(w, w.servers[1:4]...)
		}},
		{"most members are silent at first", func(w *world, _ held) {
			restartAll(w, held{})
			forget(w, w.servers[0])
			for _, s := range w.servers[1:4] {
				w.pause(&s.host)
				w.later(15*time.Second, func() { w.resume(&s.host) })
			}
		}},
	} {
		for _, store := range stores {
			t.Run(tc.name+", "+string(store), func(t *testing.T) {
				t.Parallel()
				s := schedule{
					seed: 3, store: store, replicas: 1, parts: 2, spares: 1, every: 200 * time.Millisecond, confirmed: 1,
					settings: directory.Settings{ViewTTL: 400 * time.Millisecond, ReplyTimeout: 300 * time.Millisecond},
				}
				s.script = func(w *world) {
					spare := w.servers[4]
					w.with(func() {
						w.begin1(0, directory.Task{Add: &directory.Member{Addr: spare.name, Node: "node2"}})
					})
					w.eventually(func() bool {
						return w.dir.m.Partitions[0].Task == nil && spare.held != nil && spare.held.Epoch == w.dir.m.Epoch
					})
					w.with(func() {
						leader := w.dir.holds["agent"]
						w.dir.restore(len(w.dir.stored))
						tc.with(w, leader)
					})
					time.Sleep(20 * time.Second)
				}
				w := run(t, s)
				if !isVoter(w.dir.m.Partitions[0], w.servers[4]) {
					w.fail("%s is no member by the map of epoch %d", w.servers[4].name, w.dir.m.Epoch)
				}
				if len(w.wrong) > 0 {
					t.Errorf("%s\n%s", w.wrong[0], w.history())
				}
			})
		}
	}
}

// TestAMapThatOnlyClientsKnow: a command has stored it, and the directory comes back without it. Clients write again.
func TestAMapThatOnlyClientsKnow(t *testing.T) {
	t.Parallel()
	s := schedule{
		seed: 3, store: inRedis, replicas: 1, parts: 1, every: 500 * time.Millisecond,
		settings: directory.Settings{ViewTTL: 400 * time.Millisecond, ReplyTimeout: 300 * time.Millisecond, Confirmed: lenient},
	}
	s.script = func(w *world) {
		w.with(func() {
			for _, a := range w.agents {
				a.now.freeze()
			}
			w.begin1(0, directory.Task{})
		})
		w.eventually(func() bool { return w.clients[0].m.Epoch == w.dir.m.Epoch })
		w.with(func() {
			w.dir.everyKeeper(w.pause)
			for _, a := range w.agents {
				a.now.goOn()
			}
		})
		time.Sleep(5 * time.Second)
		w.with(func() {
			w.dir.restore(1)
			w.dir.everyKeeper(w.resume)
		})
	}
	if w := run(t, s); len(w.wrong) > 0 {
		t.Errorf("%s\n%s", w.wrong[0], w.history())
	}
}

// TestTheLeaderSeesANewerCopy in a probe: it has neither seen that map nor asked that member when
// it began to lead.
func TestTheLeaderSeesANewerCopy(t *testing.T) {
	t.Parallel()
	s := schedule{
		seed: 3, store: inEtcd, replicas: 1, parts: 1, every: 200 * time.Millisecond,
		settings: directory.Settings{ViewTTL: 400 * time.Millisecond, ReplyTimeout: 300 * time.Millisecond, Confirmed: lenient},
	}
	s.script = func(w *world) {
		w.with(func() {
			newer := w.dir.m.Next()
			newer.Epoch += 1000
			newer.Partitions[0].Task = &directory.Task{Plan: "newer"}
			w.servers[0].append(entry{size: 900, held: newer})
		})
		time.Sleep(5 * time.Second)
	}
	w := run(t, s)
	if !slices.ContainsFunc(w.dir.stored, func(m *directory.Map) bool {
		return m.Partitions[0].Task != nil && m.Partitions[0].Task.Plan == "newer"
	}) {
		w.fail("the directory never had the newer map")
	}
	if len(w.wrong) > 0 {
		t.Errorf("%s\n%s", w.wrong[0], w.history())
	}
}

// TestAForkStopsAgents until an operator has stored a map that has no parent. A master dies
// meanwhile, and is replaced then.
func TestAForkStopsAgents(t *testing.T) {
	t.Parallel()
	for _, store := range stores {
		t.Run(string(store), func(t *testing.T) {
			t.Parallel()
			s := schedule{
				seed: 3, store: store, replicas: 1, parts: 2, every: 200 * time.Millisecond, confirmed: 1,
				settings: directory.Settings{ViewTTL: 400 * time.Millisecond, ReplyTimeout: 300 * time.Millisecond},
			}
			s.script = func(w *world) {
				var forked *directory.Map
				w.with(func() {
					forked = w.dir.stored[len(w.dir.stored)-2].Next()
					forked.Epoch = w.dir.m.Epoch
					forked.Partitions[0].Task = &directory.Task{Plan: "a command's"}
					w.dir.restore(1)
					if err := w.dir.change(w.dir.m.Epoch, forked); err != nil {
						w.fail("the simulation is broken: %v", err)
					}
				})
				time.Sleep(8 * time.Second)
				w.with(func() { w.servers[0].die(false) })
				time.Sleep(8 * time.Second)
				w.with(func() {
					if w.dir.m.ID() != forked.ID() {
						w.fail("agents have changed the map to %+v", w.dir.m)
					}
					decided := forked.Next().ElectAnew(time.Now().UnixMilli())
					decided.Parent = directory.ID{}
					if err := w.dir.change(forked.Epoch, decided); err != nil {
						w.fail("the simulation is broken: %v", err)
					}
				})
			}
			if w := run(t, s); len(w.wrong) > 0 {
				t.Errorf("%s\n%s", w.wrong[0], w.history())
			}
		})
	}
}
