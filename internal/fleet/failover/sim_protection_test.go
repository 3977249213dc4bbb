package failover_test

import (
	"cmp"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/test/redistest"
)

// TestProtections takes out one protection after the other, where it is needed. With
// it, nothing goes wrong there; without it, something must. The danger is a race, which
// not every seed loses: seeds are tried until one does.
func TestProtections(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name      string
		only      store // empty for both
		confirmed int
		script    func(w *world)
		out       sabotage
		wants     string // the invariant that must be broken
	}{
		{"agents wait a grace", "", 0, splitClient, sabotage{hasty: true}, "I2"},
		{"clients know new partitions before they are opened", "", 0, func(w *world) {
			w.with(func() {
				w.dir.everyKeeper(func(k *host) { w.cut(&w.clients[0].host, k) })
				growOnce(w)
			})
			time.Sleep(10 * time.Second)
		}, sabotage{hasty: true}, "G"},
		{"masters have the floor before partitions are opened", "", 0, func(w *world) {
			w.with(func() { growOnce(w) })
			time.Sleep(10 * time.Second)
		}, sabotage{floorless: true}, "G"},
		{"all copies of the map name partitions before they are opened", "", 0, func(w *world) {
			w.with(func() {
				w.servers[0].copyless = true
				growOnce(w)
			})
			time.Sleep(10 * time.Second)
			w.with(func() { w.servers[0].copyless = false })
		}, sabotage{look: func(s *server, l *members.Report) { l.Copy = s.w.dir.m.Epoch }}, "G"},
		{"clients write by fresh maps", "", 0, splitClient, sabotage{stale: true}, "I2"},
		{"clients take no late reply", "", 0, splitClient, sabotage{late: true}, "I2"},
		{"a majority confirms", inEtcd, 0, func(w *world) {
			// A client reaches only a server of etcd that is cut off from the others.
			alone := &w.dir.servers[2].host
			w.with(func() {
				w.cutAgents(w.servers[0])
				for _, k := range w.dir.servers[:2] {
					w.cut(&k.host, alone)
					w.cut(&k.host, &w.clients[0].host)
				}
			})
			time.Sleep(10 * time.Second)
		}, sabotage{local: true}, "I2"},
		{"the epoch decides about the last change", "", 0, func(w *world) {
			// An agent stops before its last change, and another one, which cannot reach the
			// member that was promoted, has the old master go on.
			w.with(func() { w.cutAgents(w.servers[0]) })
			w.eventually(func() bool { return len(w.promoters) > 0 })
			w.with(func() {
				w.agents[0].now.freeze()
				w.mendAgents(w.servers[0])
				for _, s := range w.servers[1:3] {
					for _, a := range w.agents[1:] {
						if s.master {
							w.cut(&a.now.host, &s.host)
						}
					}
				}
			})
			w.eventually(func() bool { return len(w.promoters) > 1 && !w.dir.m.Partitions[0].ReadOnly })
			time.Sleep(time.Second)
			w.with(func() { w.agents[0].now.goOn() })
			time.Sleep(time.Second)
		}, sabotage{blind: true}, "I1 I2 I6"},
		{"members are fenced", "", 0, func(w *world) {
			// The replica that is behind overtakes the other one after it was looked at.
			w.with(func() { w.servers[1].lag, w.servers[2].lag = 20*time.Second, 8*time.Second })
			time.Sleep(5 * time.Second)
			w.with(func() { w.cutAgents(w.servers[0]) })
			w.eventually(func() bool { return len(w.agents[0].now.fenced) == 2 })
			time.Sleep(10 * time.Millisecond)
			w.with(func() { w.servers[1].lag = 0 })
			time.Sleep(2 * time.Second)
		}, sabotage{soft: true}, "I4"},
		{"offsets of another history mean nothing", "", 1, func(w *world) {
			w.with(func() {
				w.servers[0].die(false)
				w.servers[0].rise(fromLog, true)
				w.servers[0].offset = 1 << 40
			})
			time.Sleep(8 * time.Second)
		}, sabotage{look: func(s *server, l *members.Report) { l.History = s.w.dir.m.Partitions[0].History }}, "I3"},
		{"what a member did after it was promoted does not count", "", 1, func(w *world) {
			// A replica is promoted by hand, and misses the writes of that time.
			w.with(func() {
				for _, a := range w.agents {
					a.now.freeze()
				}
				w.servers[1].lead(members.Beat{Epoch: 1})
				w.servers[1].append(entry{size: 1 << 20})
			})
			time.Sleep(500 * time.Millisecond)
			w.with(func() {
				w.pause(&w.servers[0].host)
				for _, a := range w.agents {
					a.now.goOn()
				}
			})
			time.Sleep(8 * time.Second)
		}, sabotage{look: func(_ *server, l *members.Report) { l.Turned = l.Offset }}, "I3"},
		{"a member that was promoted, and not named, can be elected", "", 0, func(w *world) {
			w.with(func() { w.servers[0].die(false); w.servers[0].gone = true })
			w.eventually(func() bool { return w.servers[1].master || w.servers[2].master })
			w.with(func() {
				w.agents[0].now.strike(0)
				for _, s := range w.servers[1:] {
					if !s.master {
						s.die(false)
					}
				}
			})
		}, sabotage{look: func(_ *server, l *members.Report) { l.Before = "" }}, "I7"},
		{"a member without data is not elected", "", 0, func(w *world) {
			w.with(func() {
				w.cutAgents(w.servers[1])
				w.cutAgents(w.servers[2])
				w.servers[0].die(false)
				w.servers[0].rise(empty, true)
			})
			time.Sleep(8 * time.Second)
		}, sabotage{sameRun: true, look: func(s *server, l *members.Report) {
			// Its run and its history would tell, too.
			l.Identity, l.History = s.belongs(), s.w.dir.m.Partitions[s.partition].History
		}}, "I5"},
		{"a master that was started again is not believed", "", 1, backUnfenced, sabotage{sameRun: true}, "I3 I4"},
		{"a replica follows one run of its master", "", 1, backUnfenced, sabotage{anyRun: true}, "I3 I4"},
		{"a replica that was started again is not known to have what it confirmed", "", 1, func(w *world) {
			// Of two replicas one has confirmed, and the other one lags.
			w.with(func() { w.servers[1].save(); w.servers[2].lag = 20 * time.Second })
			time.Sleep(2 * time.Second)
			w.with(func() {
				w.pause(&w.servers[0].host)
				w.servers[1].die(false)
				w.servers[1].rise(fromSnapshot, true)
			})
			time.Sleep(8 * time.Second)
		}, sabotage{sameRun: true}, "I3"},
		{"a member that was started again is not read", "", 0, func(w *world) {
			w.with(func() {
				w.servers[0].die(false)
				w.servers[0].rise(fromSnapshot, true)
			})
			time.Sleep(8 * time.Second)
		}, sabotage{serve: true}, "R"},
		{"a master with older data leaves word of that", "", 0, func(w *world) {
			w.with(func() { w.servers[0].save() })
			time.Sleep(time.Second)
			w.with(func() {
				for _, s := range w.servers[:3] {
					s.die(false)
				}
			})
			time.Sleep(time.Second)
			w.with(func() {
				w.servers[0].rise(fromSnapshot, true)
				for _, s := range w.servers[1:3] {
					s.rise(empty, true)
				}
			})
			time.Sleep(8 * time.Second)
		}, sabotage{sameRun: true}, "O"},
		{"so many replicas must answer that one has all", "", 1, func(w *world) {
			w.with(func() { w.servers[2].lag = 20 * time.Second })
			time.Sleep(time.Second)
			w.with(func() {
				w.pause(&w.servers[0].host)
				w.pause(&w.servers[1].host)
			})
			time.Sleep(8 * time.Second)
		}, sabotage{few: true}, "I3"},
		{"a member joins when it has all data", "", 1, func(w *world) {
			// It takes the place of the only other member that has all.
			w.with(func() {
				w.servers[6].lag, w.servers[2].lag = 20*time.Second, 20*time.Second
				w.pause(&w.servers[2].host)
			})
			time.Sleep(2 * time.Second)
			w.with(func() {
				joins := directory.Member{Addr: w.servers[6].name, Node: "node2"}
				w.begin1(0, directory.Task{Add: &joins, Remove: w.servers[1].name})
			})
			time.Sleep(9 * time.Second)
			w.with(func() {
				w.resume(&w.servers[2].host)
				w.servers[0].die(true)
			})
			time.Sleep(8 * time.Second)
		}, sabotage{look: hasAll}, "I3"},
		{"a member leaves when others have all data", "", 1, func(w *world) {
			w.with(func() {
				w.servers[2].lag = 20 * time.Second
				w.begin1(0, directory.Task{Remove: w.servers[1].name})
			})
			time.Sleep(9 * time.Second)
			w.with(func() { w.servers[0].die(true) })
			time.Sleep(8 * time.Second)
		}, sabotage{look: hasAll}, "I3"},
		{"a member that leaves waits for a grace", "", 1, oldMap, sabotage{hasty: true}, "I3"},
		{"elections count the member that leaves", "", 1, oldMap, sabotage{forgotten: true}, "I3"},
	} {
		for i, store := range stores {
			if tc.only != "" && tc.only != store || tc.only == "" && i > 0 && !redistest.More() {
				continue
			}
			t.Run(tc.name+", "+string(store), func(t *testing.T) {
				t.Parallel()
				s := schedule{
					free: true, store: store, confirmed: tc.confirmed, replicas: 2, parts: 2, spares: 1, every: 200 * time.Millisecond, script: tc.script,
					settings: directory.Settings{ViewTTL: 3 * time.Second, ReplyTimeout: time.Second, Confirmed: cmp.Or(tc.confirmed, lenient)},
				}
				if tc.out.late {
					s.settings.ViewTTL, s.settings.ReplyTimeout, s.busy = time.Second, 300*time.Millisecond, true
				}
				protects(t, s, tc.out, tc.wants)
			})
		}
	}
}

// protects runs a schedule with protections, and without some, until one of the wanted
// invariants breaks.
func protects(t *testing.T, s schedule, out sabotage, wants string) {
	t.Helper()
	for s.seed = 1; s.seed <= 100; s.seed++ {
		if w := run(t, s); len(w.wrong) > 0 {
			t.Fatalf("with the protection: seed %d: %s\n%s", s.seed, w.wrong[0], w.history())
		}
		without := s
		without.sabotage = out
		for _, wrong := range run(t, without).wrong {
			if id, _, _ := strings.Cut(wrong, ":"); strings.Contains(wants, id) {
				t.Log(wrong)
				return
			}
		}
	}
	t.Errorf("without the protection nothing goes wrong, want %s", wants)
}

// backUnfenced has a master come back within a moment, with older data and without its
// boot fence.
func backUnfenced(w *world) {
	w.with(func() { w.servers[0].save() })
	time.Sleep(2 * time.Second)
	w.with(func() { w.servers[0].die(false) })
	time.Sleep(50 * time.Millisecond)
	w.with(func() { w.servers[0].rise(fromSnapshot, false) })
	time.Sleep(8 * time.Second)
}

// oldMap has a client that does not know that a replica leaves: only that one confirms its
// writes, and the agents cannot reach it for a while. Then the master is lost.
func oldMap(w *world) {
	w.with(func() {
		w.dir.everyKeeper(func(h *host) { w.cut(&w.clients[0].host, h) })
		w.begin1(0, directory.Task{Remove: w.servers[1].name})
	})
	w.eventually(func() bool { return len(w.dir.m.Partitions[0].Replicas) == 1 })
	w.with(func() { w.cutAgents(w.servers[1]) })
	time.Sleep(600 * time.Millisecond)
	w.with(func() { w.servers[2].lag = 20 * time.Second })
	time.Sleep(600 * time.Millisecond)
	w.with(func() {
		w.servers[0].die(true)
		w.mendAgents(w.servers[1])
	})
	time.Sleep(8 * time.Second)
}

// hasAll has a linked replica say that it has all that its master has.
func hasAll(s *server, l *members.Report) {
	if l.Linked {
		l.Offset = s.target.offset
	}
}

// splitClient cuts the agents off from the master, and a client from the directory.
func splitClient(w *world) {
	w.with(func() { w.cutAgents(w.servers[0]) })
	w.eventually(func() bool { return w.dir.m.Partitions[0].ReadOnly })
	w.with(func() { w.dir.everyKeeper(func(h *host) { w.cut(&w.clients[0].host, h) }) })
	time.Sleep(10 * time.Second)
}

// eventually waits until something has happened.
func (w *world) eventually(happened func() bool) {
	for range 10_000 {
		yes := false
		if w.with(func() { yes = happened() }); yes {
			return
		}
		time.Sleep(time.Millisecond + time.Nanosecond)
	}
	w.with(func() { w.fail("what was waited for did not happen") })
}

// cutAgents cuts all agents off from a server.
func (w *world) cutAgents(s *server) {
	for _, a := range w.agents {
		w.cut(&a.now.host, &s.host)
	}
}

func (w *world) mendAgents(s *server) {
	for _, a := range w.agents {
		w.mend(&a.now.host, &s.host)
	}
}
