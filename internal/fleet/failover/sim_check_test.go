package failover_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
)

// ledger records the writes and their outcomes.
type ledger struct {
	writes []write
	epochs map[[2]int64]*server // the server that took writes of an epoch of a partition
	reigns []reign
}

type write struct {
	partition int
	client    string
	server    *server
	epoch     int64
	sent      time.Duration
	failed    bool // it is known not to become a success
	success   bool
	done      time.Duration
	conceded  bool // lost in an election, as it may be
}

// reign is a server that a map made the master.
type reign struct {
	partition int
	epoch     int64
	server    *server
}

// turn is the last change of a partition's epoch: its author and its time.
type turn struct {
	by string
	at time.Time
}

func (l *ledger) begin(w write) (id int) {
	l.writes = append(l.writes, w)
	return len(l.writes)
}

func (l *ledger) describe(id int) string {
	w := l.writes[id-1]
	return fmt.Sprintf("write %d of %s, done by %s in epoch %d, sent at %.3f, a success at %.3f", id, w.client, w.server.name, w.epoch, w.sent.Seconds(), w.done.Seconds())
}

// checkSuccess is called when a client counts a write as done: no other server may do
// writes in that epoch (I1), nor in a later one without that write (I2).
func (w *world) checkSuccess(id int) {
	l := &w.ledger
	one := &l.writes[id-1]
	one.success, one.done = true, time.Since(w.start)
	key := [2]int64{int64(one.partition), one.epoch}
	if other := l.epochs[key]; other != nil && other != one.server {
		w.fail("I1: %s and %s both take writes of epoch %d: %s", other.name, one.server.name, one.epoch, l.describe(id))
	}
	l.epochs[key] = one.server
	for _, r := range l.reigns {
		if r.partition == one.partition && r.epoch > one.epoch && r.server != one.server && !w.has(r.server.log)[id] {
			w.fail("I2: a success after %s became the master, in epoch %d: %s", r.server.name, r.epoch, l.describe(id))
		}
	}
}

// checkRead is called when a member answers a read: it was not started again since it
// was elected or had all data of its master.
func (w *world) checkRead(s *server) {
	if s.amnesic {
		w.fail("R: %s was started again, and is read", s.name)
	}
}

// has tells which writes a log has.
func (w *world) has(logs ...[]entry) []bool {
	found := make([]bool, len(w.ledger.writes)+1)
	for _, log := range logs {
		for _, e := range log {
			found[e.id] = true
		}
	}
	return found
}

// checkChange is called before the directory stores a map.
func (w *world) checkChange(by string, old, next *directory.Map) {
	l := &w.ledger
	w.checkGrowth(old, next)
	for i, p := range next.Partitions[:min(len(next.Partitions), len(old.Partitions))] {
		was := old.Partitions[i]
		if p.Epoch < was.Epoch {
			w.fail("I6: partition %d goes back from epoch %d to %d", i, was.Epoch, p.Epoch)
		}
		if p.Epoch != was.Epoch && !p.ReadOnly {
			one := reign{i, p.Epoch, w.server(p.Master.Addr)}
			for _, r := range l.reigns {
				if r.partition == i && r.epoch >= p.Epoch {
					w.fail("I6: %s makes %s the master in epoch %d, and %s was it in epoch %d", by, one.server.name, p.Epoch, r.server.name, r.epoch)
				}
			}
			l.reigns = append(l.reigns, one)
		}
		if was.ReadOnly && !p.ReadOnly {
			w.checkMaster(by, was, p)
		}
		if next.Parent.Epoch == old.Epoch { // not in place of one that went back
			w.checkTask(was, p)
		}
		if p.Epoch != was.Epoch {
			w.turned[i] = turn{by, time.Now()}
		}
	}
}

// checkMaster is called when a partition is about to get a master. One that has been
// started again since it was promoted is fenced, and decides nothing.
func (w *world) checkMaster(by string, was, p directory.Partition) {
	master := w.server(p.Master.Addr)
	if !master.master {
		return
	}
	if master.identity != master.belongs() {
		w.fail("I5: %s makes %s the master, which has no data", by, master.name)
	}
	w.concede(by, was, master)
}

// concede counts the writes that are lost by making a server the master, which an agent elected.
// Where writes are confirmed, none may be lost (I3); otherwise only those that no electable
// member had (I4), unless an agent had promoted that server before.
func (w *world) concede(by string, was directory.Partition, master *server) {
	has := w.has(master.log)
	var lost []int
	for i, one := range w.ledger.writes {
		if one.partition == was.ID && one.success && !one.conceded && !has[i+1] {
			lost = append(lost, i+1)
			w.ledger.writes[i].conceded = true
		}
	}
	if len(lost) == 0 {
		return
	}
	last := w.ledger.describe(lost[len(lost)-1])
	if w.dark[was.ID] > 0 {
		w.say("%d writes are lost with the power, the last is %s", len(lost), last)
		w.checkDark(by, was, master, lost)
		return
	}
	if w.confirmed > 0 {
		w.fail("I3: %s makes %s the master, and %d confirmed writes are lost, the last is %s", by, master.name, len(lost), last)
		return
	}
	w.say("%d writes are lost, the last is %s", len(lost), last)
	for _, s := range w.servers {
		if s == master || !isVoter(was, s) || s.floor < master.floor || !w.wasThere(s, was, by) {
			continue
		}
		has := w.has(s.log)
		for _, id := range lost {
			if has[id] {
				w.fail("I4: %s makes %s the master, and %s was there and has %s", by, master.name, s.name, w.ledger.describe(id))
				break
			}
		}
	}
}

// wasThere reports whether a member could be elected by an agent, all the time since
// the partition became read-only.
func (w *world) wasThere(s *server, was directory.Partition, by string) bool {
	if s.down || s.paused || s.amnesic || s.slow > 0 || s.forgot || s.identity != s.belongs() || !s.trouble.Before(w.turned[was.ID].at) {
		return false
	}
	for _, a := range w.agents {
		if a.now.name == by && w.isCut(&a.now.host, &s.host) {
			return false
		}
	}
	return was.History != "" && (s.history == was.History || s.before == was.History)
}

// checkCopy is called before a server replaces its data by another server's.
func (w *world) checkCopy(s, y *server) {
	if y.identity != y.belongs() && s.identity == s.belongs() {
		w.fail("I5: %s replaces its data by that of %s, which has none", s.name, y.name)
	}
	kept := w.has(y.log, s.copied.log)
	for _, e := range s.log {
		if e.id > 0 && !kept[e.id] && w.ledger.writes[e.id-1].success && !w.ledger.writes[e.id-1].conceded {
			w.fail("I4: %s replaces its data by that of %s, which has not %s", s.name, y.name, w.ledger.describe(e.id))
			return
		}
	}
}

// well describes the first fault that remains when no faults are made any more, or "". The
// members that never come back are marked.
func (w *world) well() string {
	if w.dir.m.Adding() {
		return "a partition is being added"
	}
	for _, p := range w.dir.m.Partitions {
		if p.Task != nil || p.Leaving != nil {
			return fmt.Sprintf("partition %d has the task %+v, and %v leaves", p.ID, p.Task, p.Leaving)
		}
		master := w.server(p.Master.Addr)
		if p.ReadOnly || master.down || !master.master || p.Master.Down || p.History != master.history {
			return fmt.Sprintf("partition %d has no master in %s, read-only %v", p.ID, master.name, p.ReadOnly)
		}
		for _, r := range p.Replicas {
			s := w.server(r.Addr)
			switch {
			case r.Down != s.down:
				return fmt.Sprintf("%s is marked as down: %v", s.name, r.Down)
			case s.down && w.replaceable():
				return fmt.Sprintf("%s is dead, and no spare replaces it", s.name)
			case !s.down && (s.target != master || s.link != linked || s.history != master.history):
				return fmt.Sprintf("%s does not follow %s", s.name, master.name)
			}
		}
		for _, c := range w.clients {
			if c.wrote[p.ID].Before(w.calmed) {
				return fmt.Sprintf("%s cannot write to partition %d", c.name, p.ID)
			}
		}
	}
	return ""
}

// checkEnd is called when all is well and no client writes any more: every member has
// all writes that were not conceded.
func (w *world) checkEnd() {
	for _, p := range w.dir.m.Partitions {
		has := w.has(w.server(p.Master.Addr).log)
		for i, one := range w.ledger.writes {
			if one.partition == p.ID && one.success && !one.conceded && !has[i+1] {
				w.fail("%s is lost at the end", w.ledger.describe(i+1))
				break
			}
		}
		for _, r := range p.Replicas {
			s := w.server(r.Addr)
			s.lag = 0
			s.receive()
			if !s.down && !slices.Equal(s.log, w.server(p.Master.Addr).log) {
				w.fail("%s has not what %s has", s.name, p.Master.Addr)
			}
		}
	}
}
