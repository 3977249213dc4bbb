package failover

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/members"
)

// situation is all that a decision about a partition depends on.
type situation struct {
	m     *directory.Map
	p     directory.Partition
	seen  map[string]health // the members that it depends on, by address
	now   time.Time         // by the monotonic clock of this process
	every time.Duration     // the interval of probes
	memory
}

// step returns the next thing to do in a partition: a change of the map, an action on a server, or nil for nothing. It decides
// by the situation alone and changes nothing. The caller does it, looks at the members again, and asks for the next one.
//
// No order of accidents needs a step of its own: an agent that was killed leaves a situation, and the next agent decides by
// that.
func step(s situation) action {
	if a := s.quarantine(); a != nil {
		return a
	}
	if s.copying != nil && s.copied() {
		return endCopy{}
	}
	if s.p.ReadOnly || s.needsMaster() {
		return s.replace("")
	}
	if s.copying != nil {
		return look{s.every / 5}
	}
	return cmp.Or(s.repair(), s.reorder(), s.task())
}

func (s situation) of(addr string) health { return s.seen[addr] }

// once returns an action that is tried once a round, and nil if that has been done.
func (s situation) once(a action) action {
	if s.tried[key(a)] {
		return nil
	}
	return a
}

// needsMaster reports whether the master is down, is fenced, was restarted, or lost its
// data.
func (s situation) needsMaster() bool {
	h := s.of(s.p.Master.Addr)
	switch {
	case h.missed >= misses:
		return true
	case !h.seen:
		return false
	case !h.report.Master || h.report.Identity != members.Identity(s.m.Fleet, s.p.ID) || restarted(s.p.Master, h.report):
		return true
	}
	// A directory that has lost its newest maps may name a former master.
	return slices.ContainsFunc(s.p.Replicas, func(replica directory.Member) bool {
		o := s.of(replica.Addr)
		return o.seen && o.before.Identity == h.report.Identity && o.before.Floor > h.report.Floor
	})
}

// quarantine isolates members that were restarted and take writes: they came back without
// their boot fence. Their data must not be used before it was examined. Replicas do not
// copy it meanwhile, since they follow one run of their master.
func (s situation) quarantine() action {
	for _, member := range voters(s.p) {
		h := s.of(member.Addr)
		if !h.seen || !h.report.Master || !restarted(member, h.report) || h.elsewhere(s.m.Fleet, s.p.ID) {
			continue
		}
		if s.fenced[member.Addr].Run == h.report.Run {
			continue // it was examined in this run, and elected
		}
		if a := s.once(isolate{member, member.Addr + " was restarted without its boot fence, and has been fenced: put replicaof on its command line"}); a != nil {
			return a
		}
	}
	return nil
}

// replace gives the partition a master: of members with equally much data the preferred one. First no client may write, by
// whatever map. Then all members that answer are fenced, one is elected and leads, and the map names it.
func (s situation) replace(prefer string) action {
	if !s.p.ReadOnly || !s.mine {
		return change{
			edit: func(p *directory.Partition) {
				p.ReadOnly, p.Prefer = true, cmp.Or(prefer, p.Prefer)
				p.Epoch++
			},
			mine: true,
			say:  []string{fmt.Sprintf("read-only: %s is to be replaced, or confirmed", s.p.Master.Addr)},
		}
	}
	if s.fenced == nil {
		return cmp.Or(s.drain(), action(fence{}))
	}
	b := ballot{s.m.Fleet, s.p, s.fenced, s.m.Settings.Effective().Confirmed, s.newest, s.m.Settings.Effective().MaxAge}
	chosen, err := b.elect()
	if err != nil {
		return stuck{err}
	}
	elected := s.fenced[chosen.Addr]
	restored := restarted(chosen, elected) || s.p.Restore != ""
	switch now := s.led; {
	case now == nil:
		return lead{chosen.Addr, elected.Run, members.Beat{Epoch: s.floor() + 1, Count: s.newest.Count + 1}, restored}
	case !now.Master || !whole(*now, s.m.Fleet, s.p.ID) || !kept(*now, elected):
		return stuck{fmt.Errorf("%s was elected and has lost its data since", chosen.Addr)}
	case restored && !s.told:
		return tell{chosen.Addr}
	}
	say := fmt.Sprintf("healthy: %s leads, in place of %s, after %v. %s",
		chosen.Addr, s.p.Master.Addr, s.now.Sub(s.since).Round(time.Millisecond), s.losses(b, chosen, restored))
	return change{edit: s.inaugurate(chosen), say: []string{say}}
}

// losses describes the data lost with a new master, and the person's next step.
func (s situation) losses(b ballot, chosen directory.Member, restored bool) string {
	lost := fmt.Sprintf("%s behind what was there, and what is missing is lost", b.age(chosen))
	if b.behind(chosen) == 0 {
		lost = "the newest that is known: lost is what it lacks of the last moments, if anything"
	}
	doubtful := fmt.Sprintf(". What its tags have is of that time: millrace fleet restore %d --doubtful lists them", s.p.ID)
	switch {
	case s.p.RestoreHistory != "":
		return "Its data is that of the chosen file, " + lost + doubtful
	case s.p.Restore != "":
		return "A person has chosen its data, " + lost + doubtful
	case restored:
		return "Its data is that of its disk, " + lost + doubtful
	case chosen.Addr == s.p.Master.Addr, !s.quiet.IsZero() && !s.loud:
		return "No data is lost"
	case b.behind(chosen) == 0:
		return "No data is lost that a replica had received"
	default:
		return fmt.Sprintf("No data is lost that a replica had confirmed; of the rest, what it had not received: it is %s behind", b.age(chosen))
	}
}

// unmet is a number of replicas that no master has.
const unmet = 1000

// drain returns nil when no client writes by a map that was replaced, nor takes a late reply for
// a success, and replicas have all data of the master.
//
// If the master serves and another member is preferred, the master is made to refuse all writes instead, and no Grace needs to
// pass: by whatever map a client writes, this master refuses it. It goes on refusing, so a look at any later time shows that
// the preferred member has everything. Only one that lacks something for the whole Grace waits for it.
func (s situation) drain() action {
	master, rest := s.of(s.p.Master.Addr), s.m.Grace()-s.now.Sub(s.since)
	if s.p.Prefer != "" && !s.loud {
		to := s.of(s.p.Prefer)
		switch {
		case !s.serves(master):
		case s.quiet.IsZero():
			return need{s.p.Master.Addr, unmet}
		case master.at.After(s.quiet) && s.follows(to.report, master.report) && to.report.Offset >= master.report.Offset:
			return nil
		}
		if rest > 0 {
			return look{min(rest, 10*time.Millisecond)}
		}
	}
	if rest > 0 {
		return look{rest}
	}
	if master.missed == 0 && rest > -time.Second && master.report.Master &&
		slices.ContainsFunc(s.p.Replicas, func(replica directory.Member) bool {
			h := s.of(replica.Addr)
			return h.seen && h.report.Linked && h.report.Offset < master.report.Offset
		}) {
		return look{20 * time.Millisecond}
	}
	return nil
}

// serves reports whether the map's master takes writes, and has all its data.
func (s situation) serves(h health) bool {
	return h.seen && h.report.Master && s.p.Master.Run != "" && !restarted(s.p.Master, h.report) && whole(h.report, s.m.Fleet, s.p.ID) && !s.p.Stale
}

func (s situation) follows(replica, master members.Report) bool {
	return replica.Linked && !replica.Copying && replica.History == master.History
}

// floor is at least the epoch of the present map. So members know about how far the map
// was, should the directory lose it, and which of them was promoted last.
func (s situation) floor() int64 {
	floor := s.m.Epoch
	for _, report := range s.fenced {
		if !elsewhere(report, s.m.Fleet, s.p.ID) {
			floor = max(floor, report.Floor)
		}
	}
	return floor
}

// kept reports whether a promoted member has all that it had when it was elected.
func kept(now, elected members.Report) bool {
	return now.History == elected.History && now.Offset >= elected.Offset ||
		now.Before == elected.History && now.Turned >= elected.Offset
}

// inaugurate makes the elected member the master in the map.
func (s situation) inaugurate(chosen directory.Member) func(p *directory.Partition) {
	now, fenced, all := *s.led, s.fenced, s.p.Members()
	return func(p *directory.Partition) {
		p.Epoch++
		p.ReadOnly, p.Stale, p.Prefer, p.Restore, p.RestoreHistory = false, false, "", "", ""
		p.History, p.Before, p.Floor = now.History, now.Before, now.Floor
		p.Replicas = nil
		for _, member := range all {
			if report, answered := fenced[member.Addr]; member.Addr != chosen.Addr {
				member.Down = !answered || elsewhere(report, s.m.Fleet, s.p.ID)
				p.Replicas = append(p.Replicas, member)
			}
		}
		if l := p.Leaving; l != nil && l.Addr == chosen.Addr {
			p.Leaving = nil
		} else if l != nil {
			_, answered := fenced[l.Addr]
			l.Down = !answered
		}
		p.Master = chosen
		p.Master.Down, p.Master.Run = false, now.Run
	}
}

// repair makes replicas follow a master that serves, and stores the results of probes in the map.
func (s situation) repair() action {
	master := s.of(s.p.Master.Addr)
	if !master.seen {
		return nil
	}
	changed := map[string]directory.Member{} // by address, as they are now
	live := 0
	for _, replica := range s.p.Replicas {
		now, h := replica, s.of(replica.Addr)
		now.Boot = cmp.Or(h.boot, now.Boot)
		linked, a := s.linked(replica)
		switch {
		case h.missed >= misses, h.elsewhere(s.m.Fleet, s.p.ID):
			now.Down = true
		case a != nil:
			return a
		case linked:
			live++
			if replica.Run != h.report.Run && h.wholeAgain(master) {
				if s.served[replica.Addr] != h.report.Run {
					if a := s.once(serve{replica.Addr, h.report.Run}); a != nil {
						return a
					}
				} else {
					now.Run = h.report.Run
				}
			}
			if h.good >= returns && master.report.InStep >= live {
				now.Down = false
			}
		}
		if now != replica {
			changed[replica.Addr] = now
		}
	}
	if a := s.record(master, changed); a != nil {
		return a
	}
	// For up to a second after a copy the master does not count the replica yet, although
	// the replica reports a link.
	if n := min(1, live, master.report.InStep); s.needs != (need{s.p.Master.Addr, n}) {
		return s.once(need{s.p.Master.Addr, n})
	}
	return nil
}

// linked reports whether a replica follows the master and has a copy. If not, it returns the action that is missing, if there
// is one.
func (s situation) linked(replica directory.Member) (bool, action) {
	master := s.of(s.p.Master.Addr)
	switch h := s.of(replica.Addr); {
	case !h.seen || h.report.Loading || h.elsewhere(s.m.Fleet, s.p.ID):
	case h.report.Master || h.report.Follows != s.p.Master.Addr || h.report.FollowsRun != master.report.Run:
		return false, s.once(follow{replica.Addr, master.report.Run})
	case h.report.Copying:
	case !h.report.Linked:
		return false, s.once(admit{replica.Addr, master.report.Run})
	default:
		return true, nil
	}
	return false, nil
}

// copyTimeout is how long a node's turn is held for one copy.
const copyTimeout = 10 * time.Second

// copied reports whether the turn of the master's node is not needed any more: the replica has its copy, or is silent, or the
// copy goes on without the turn.
func (s situation) copied() bool {
	h := s.of(s.copying.addr)
	return !h.seen || h.at.After(s.copying.since) && h.report.Linked && !h.report.Copying ||
		s.now.Sub(s.copying.since) > copyTimeout || s.of(s.p.Master.Addr).missed >= misses
}

// record stores the new facts about the master and replicas in the map.
func (s situation) record(h health, changed map[string]directory.Member) action {
	master, boot := h.report, cmp.Or(h.boot, s.p.Master.Boot)
	if len(changed) == 0 && boot == s.p.Master.Boot && s.p.History == master.History && s.p.Master.Run == master.Run && s.p.Floor == master.Floor {
		return nil
	}
	var say []string
	for _, replica := range s.p.Replicas {
		if now, ok := changed[replica.Addr]; ok && now.Down != replica.Down {
			say = append(say, replica.Addr+map[bool]string{true: " is down", false: " is back"}[now.Down])
		}
	}
	return change{say: say, edit: func(p *directory.Partition) {
		if p.History != "" && p.History != master.History {
			// Its first replica made it begin a history; or an operator has promoted it, and it
			// may lack the last writes.
			p.Before = p.History
			p.Epoch++
		}
		p.History, p.Master.Run, p.Master.Boot, p.Floor = master.History, master.Run, boot, master.Floor
		for i, replica := range p.Replicas {
			if now, ok := changed[replica.Addr]; ok {
				p.Replicas[i].Down, p.Replicas[i].Run, p.Replicas[i].Boot = now.Down, now.Run, now.Boot
			}
		}
	}}
}

// reorder makes the member that a command prefers the master, if it is in step.
func (s situation) reorder() action {
	switch to := s.p.Prefer; {
	case to == "":
		return nil
	case to != s.p.Master.Addr && s.hasAll(to):
		return s.replace(to)
	default:
		edit := func(p *directory.Partition) {
			if p.Prefer == to {
				p.Prefer = ""
			}
		}
		if to == s.p.Master.Addr {
			return change{edit: edit}
		}
		return change{edit: edit, say: []string{to + " is not made the master: it is not a replica in step"}}
	}
}

// hasAll reports whether a replica is up, and has all data that the master had one probe ago.
func (s situation) hasAll(addr string) bool {
	i := index(s.p, addr)
	return i >= 0 && s.has(s.p.Replicas[i], s.of(s.p.Master.Addr).before.Offset)
}

// has reports whether a replica is up, and has the history of the map's master up to that
// offset.
func (s situation) has(replica directory.Member, offset int64) bool {
	h := s.of(replica.Addr)
	return !replica.Down && h.seen && h.report.Linked && !h.report.Copying && h.report.Follows == s.p.Master.Addr &&
		h.report.Run == replica.Run && h.report.History == s.p.History && h.report.Offset >= offset
}

// index returns the place of a replica, -1 for none.
func index(p directory.Partition, addr string) int {
	return slices.IndexFunc(p.Replicas, func(m directory.Member) bool { return m.Addr == addr })
}
