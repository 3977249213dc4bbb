package failover_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/failover"
	"github.com/millrace/millrace/internal/fleet/members"
)

// TestPowerLoss has several members, or all, lose power at one moment. Each comes back with a file
// of its own: an append-only file, a dump of any age, or nothing. If fewer were lost than have a
// confirmed write, nothing that was confirmed is lost. If all were, the partition goes on with the
// newest of the files, or waits for a person if that is too old.
func TestPowerLoss(t *testing.T) {
	t.Parallel()
	forSeeds(t, 200, func(seed uint64) schedule {
		s := random(seed)
		s.settings.MaxAge, s.person, s.script, s.every = 3*time.Second, true, losePower, 200*time.Millisecond
		return s
	})
}

// losePower saves members at times of chance, and has some or all of a partition lose power.
func losePower(w *world) {
	for range 3 + w.rng.IntN(10) {
		time.Sleep(w.between())
		w.with(func() { w.anyServer().save() })
		if w.rng.IntN(3) == 0 {
			w.with(func() { w.lagSome(w.anyServer()) })
		}
	}
	time.Sleep(time.Duration(w.rng.IntN(12)) * time.Second) // dumps may be too old by then
	w.with(func() {
		p := w.dir.m.Partitions[w.rng.IntN(w.parts)]
		all := p.Members()
		w.rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		if w.rng.IntN(3) == 0 {
			all = all[:1+w.rng.IntN(len(all))]
		}
		if len(all) > w.confirmed {
			w.dark[p.ID] = time.Since(w.start)
		}
		w.say("%d of %d members of partition %d lose power", len(all), len(p.Members()), p.ID)
		for _, m := range all {
			s := w.server(m.Addr)
			s.die(true)
			how, fenced := w.rng.IntN(3), w.rng.IntN(4) > 0
			w.later(w.while()/4, func() { s.rise(how, fenced) })
		}
		if w.forgets = w.rng.IntN(3) == 0; w.forgets {
			w.anyAgent().now.strike(0)
		}
	})
	time.Sleep(8 * time.Second)
}

// decide acts for the person, when the faults are over, in a partition that waits for a decision:
// it chooses the member with the newest data.
func (w *world) decide() {
	if !w.person || !w.calm || time.Since(w.calmed) < 10*time.Second {
		return
	}
	events, err := directory.New(w.dir).Events(context.Background())
	if err != nil {
		w.fail("the simulation is broken: %v", err)
	}
	for id, p := range w.dir.m.Partitions {
		at := slices.IndexFunc(events, func(e directory.Event) bool { return e.Partition == id })
		if !p.ReadOnly || p.Restore != "" || at < 0 {
			continue
		}
		if what := events[at].What; !strings.HasPrefix(what, failover.NoMaster) || !strings.Contains(what, "millrace fleet restore") {
			continue
		}
		var best *server
		for _, m := range voters(p) {
			if s := w.server(m.Addr); !s.down && s.identity == s.belongs() && (best == nil || best.beat.Less(s.beat)) {
				best = s
			}
		}
		if best == nil {
			continue
		}
		next := w.dir.m.Clone()
		next.Epoch++
		now := &next.Partitions[id]
		now.Epoch, now.Restore = next.Epoch, best.name
		if w.rng.IntN(2) == 0 {
			w.say("a person chooses %s, with beat %v", best.name, best.beat)
		} else {
			w.files++
			into := w.server(voters(p)[w.rng.IntN(len(voters(p)))].Addr)
			now.Restore, now.RestoreHistory = into.name, fmt.Sprintf("file#%d", w.files)
			w.say("a person chooses a file with the data of %s, with beat %v, for %s", best.name, best.beat, into.name)
			file := best.data
			file.log, file.history = slices.Clip(best.log), now.RestoreHistory
			w.load(id, into, file)
		}
		if err := w.dir.change(w.dir.m.Epoch, next); err != nil {
			w.fail("the simulation is broken: %v", err)
		}
	}
}

// load is the command that has a server load a file. It begins again for as long as the map waits for
// that: the server may be down, or be told something else meanwhile.
func (w *world) load(partition int, s *server, file data) {
	w.later(time.Duration(w.rng.IntN(int(time.Second))), func() {
		switch p := w.dir.m.Partitions[partition]; {
		case p.RestoreHistory != file.history:
			return
		case s.down || s.paused || s.master:
		case s.loads == nil:
			s.target, s.link, s.loads, s.began = nil, apart, &file, time.Since(w.start)
			w.say("%s begins to load %s", s.name, file.history)
		case time.Since(w.start)-s.began > 2*time.Second:
			s.data, s.loads, s.forgot, s.before, s.branch = file, nil, false, "", 0
			w.say("%s has loaded %s", s.name, file.history)
			return
		}
		w.load(partition, s, file)
	})
}

// checkDark is called when a partition whose members lost power gets a master that lacks writes:
// unless a person chose it, no lost write is older than the limit, and no member that is up has a
// lost write from before the master's newest beat.
func (w *world) checkDark(by string, was directory.Partition, master *server, lost []int) {
	if was.Restore != "" {
		if was.Restore != master.name {
			w.fail("P: %s makes %s the master, and a person has chosen %s", by, master.name, was.Restore)
		}
		return
	}
	// The files lack a second at most that was not synced, data may be three beats old, and the
	// newest beat that the agents know may be one older than the last write.
	const slack = 500 * time.Millisecond
	var unknown time.Duration
	if w.forgets {
		unknown = 10 * members.BeatInterval // the directory learns beats every ten seconds
	}
	oldest := w.dark[was.ID] - unknown - w.settings.MaxAge - time.Second - members.BeatInterval - slack - w.lateBeats()
	has := w.has(master.log)
	for _, id := range lost {
		if one := w.ledger.writes[id-1]; one.done < oldest {
			w.fail("P: %s makes %s the master, which has beat %v, and it has not %s, %v before the power was lost", by, master.name, master.beat, w.ledger.describe(id), w.dark[was.ID]-one.done)
			return
		}
	}
	from := slices.IndexFunc(master.log, func(e entry) bool { return e.beat == master.beat })
	for _, m := range voters(was) {
		s := w.server(m.Addr)
		if s == master || s.down || s.paused || s.forgot || s.loose || from < 0 || master.beat.Less(s.beat) && w.missedIn(s, by, was) {
			continue
		}
		for _, e := range s.log {
			if e.id > 0 && !has[e.id] && w.ledger.writes[e.id-1].success && e.at < master.log[from].at && s.beat != (members.Beat{}) {
				w.fail("P: %s makes %s the master with beat %v, and %s has %s, which is older", by, master.name, master.beat, s.name, w.ledger.describe(e.id))
				return
			}
		}
	}
}

// lateBeats is for how long beats may have been late: while the first agent was not well.
func (w *world) lateBeats() time.Duration { return 10 * w.every }

// missedIn reports whether an election could not see a member.
func (w *world) missedIn(s *server, _ string, was directory.Partition) bool {
	return !s.trouble.Before(w.turned[was.ID].at)
}

// TestPowerProtections takes out the protections of elections of restarted members.
func TestPowerProtections(t *testing.T) {
	t.Parallel()
	for name, out := range map[string]sabotage{
		"beats say how new a file is":        {look: func(_ *server, l *members.Report) { l.Beat = members.Beat{Epoch: 1 << 50} }},
		"data that is too old is not served": {aged: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			protects(t, schedule{
				store: inEtcd, replicas: 2, parts: 1, every: 200 * time.Millisecond, person: true, script: losePower,
				settings: directory.Settings{ViewTTL: 500 * time.Millisecond, ReplyTimeout: 300 * time.Millisecond, Confirmed: lenient, MaxAge: 3 * time.Second},
			}, out, "P")
		})
	}
}
