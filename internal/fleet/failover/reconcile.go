package failover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/retry"
)

// NoMaster begins an event that says why a partition has no master.
const NoMaster = "no new master: "

// reconciler gives one partition a master, and replicas that follow it.
type reconciler struct {
	a    *Agent
	id   int
	busy sync.Mutex // held while it works

	need  int    // the last min-replicas-to-write, and the master that it was set on
	on    string // empty if it was not set
	stuck string // why no member could be elected, as last noted

	leaves   departure // of the member that leaves
	waits    wait      // of the task
	switched time.Time // when a switch for the task began
	refused  time.Time // when a member refused to be shut down
	turn     func()    // gives up the turn of a restart, nil without it
}

// reconcile elects a new master if the partition needs one. Otherwise it repairs members,
// and carries out the partition's task.
func (r *reconciler) reconcile(ctx context.Context, m *directory.Map, p directory.Partition) {
	if r.a.watch.cutOff(m) {
		return
	}
	r.quarantine(ctx, m, p)
	if p.ReadOnly || r.needsMaster(m, p) {
		err := r.replace(ctx, p, p.Prefer)
		if err != nil && ctx.Err() == nil && !errors.Is(err, errOvertaken) && err.Error() != r.stuck {
			r.stuck = err.Error()
			r.a.note(ctx, m, r.id, NoMaster+err.Error())
		}
		return
	}
	r.repair(ctx, m, p)
	r.carryOut(ctx, m, p)
}

// needsMaster reports whether the master is down, is fenced, was restarted, or lost its
// data.
func (r *reconciler) needsMaster(m *directory.Map, p directory.Partition) bool {
	h := r.a.watch.of(p.Master.Addr)
	switch {
	case h.missed >= misses:
		return true
	case !h.seen:
		return false
	case !h.report.Master || h.report.Identity != members.Identity(m.Fleet, p.ID) || restarted(p.Master, h.report):
		return true
	}
	// A directory that has lost its newest maps may name a former master.
	return slices.ContainsFunc(p.Replicas, func(replica directory.Member) bool {
		o := r.a.watch.of(replica.Addr)
		return o.seen && o.before.Identity == h.report.Identity && o.before.Floor > h.report.Floor
	})
}

// quarantine fences members that were restarted and take writes: they came back without
// their boot fence. Their data must not be used before it was examined. Replicas do not
// copy it meanwhile, since they follow one run of their master.
func (r *reconciler) quarantine(ctx context.Context, m *directory.Map, p directory.Partition) {
	for _, member := range voters(p) {
		h := r.a.watch.of(member.Addr)
		if !h.seen || !h.report.Master || !restarted(member, h.report) || h.elsewhere(m.Fleet, p.ID) {
			continue
		}
		// In a newer map it may be the elected master.
		if now, err := r.a.confirm(ctx); err != nil || r.id >= len(now.Partitions) || now.Partitions[r.id].Epoch != p.Epoch {
			return
		}
		if _, err := r.isolate(ctx, member); err == nil {
			r.a.note(ctx, m, r.id, member.Addr+" was restarted without its boot fence, and has been fenced: put replicaof on its command line")
		}
	}
}

// isolate fences a member that nobody may read, and returns its run.
func (r *reconciler) isolate(ctx context.Context, member directory.Member) (run string, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.a.cfg.Interval)
	defer cancel()
	if err := r.a.servers.Hide(ctx, member.Addr); err != nil {
		return "", err
	}
	report, err := r.a.servers.Fence(ctx, member.Addr)
	return report.Run, err
}

// replace elects a master, of members with equally much data the preferred one. The agent
// may die after any step: another one finds the partition read-only and starts over with
// a higher epoch, so the last step of this agent fails.
func (r *reconciler) replace(ctx context.Context, p directory.Partition, prefer string) error {
	began := time.Now()
	old := p.Master
	m, err := r.a.change(ctx, p, func(p *directory.Partition) {
		p.ReadOnly, p.Prefer = true, prefer
		p.Epoch++
	})
	if err != nil {
		return err
	}
	p = m.Partitions[r.id]
	if r.stuck == "" {
		r.a.note(ctx, m, r.id, fmt.Sprintf("read-only: %s is to be replaced, or confirmed", old.Addr))
	}
	if prefer == "" || !r.quieten(ctx, m, p, prefer) {
		if err := r.a.drain(ctx, m.Grace()); err != nil {
			return err
		}
		if r.a.watch.of(p.Master.Addr).missed == 0 {
			r.catchUp(ctx, p)
		}
	}
	reports := r.fence(ctx, m.Fleet, p)
	newest, err := r.a.newest(ctx, m, r.id, reports)
	if err != nil {
		return err
	}
	set := m.Settings.Effective()
	b := ballot{m.Fleet, p, reports, set.Confirmed, newest, set.MaxAge}
	chosen, err := b.elect()
	if err != nil {
		return err
	}
	elected := reports[chosen.Addr]
	// The floor is at least the epoch of the next map. So members know about how far the map
	// was, should the directory lose it, and which of them was promoted last.
	floor := m.Epoch
	for _, report := range reports {
		if !elsewhere(report, m.Fleet, r.id) {
			floor = max(floor, report.Floor)
		}
	}
	restored := restarted(chosen, elected) || p.Restore != ""
	beat := members.Beat{Epoch: floor + 1, Count: newest.Count + 1}
	if err := r.a.servers.Lead(ctx, chosen.Addr, elected.Run, beat, restored); err != nil {
		return fmt.Errorf("%s was elected and cannot lead: %w", chosen.Addr, err)
	}
	now, err := r.a.servers.Probe(ctx, chosen.Addr)
	switch {
	case err != nil:
		return err
	case !now.Master || !whole(now, m.Fleet, p.ID) || !kept(now, elected):
		return fmt.Errorf("%s was elected and has lost its data since", chosen.Addr)
	}
	if restored {
		if err := r.a.cfg.Restored(ctx, m, r.id, chosen.Addr); err != nil {
			r.a.note(ctx, m, r.id, chosen.Addr+" has the data of an earlier time: "+err.Error())
		}
	}
	all := append([]directory.Member{old}, p.Replicas...)
	m, err = r.a.change(ctx, p, func(p *directory.Partition) {
		p.Epoch++
		p.ReadOnly, p.Stale, p.Prefer, p.Restore = false, false, "", ""
		p.History, p.Before, p.Floor = now.History, now.Before, now.Floor
		p.Replicas = nil
		for _, member := range all {
			if report, answered := reports[member.Addr]; member.Addr != chosen.Addr {
				member.Down = !answered || elsewhere(report, m.Fleet, r.id)
				p.Replicas = append(p.Replicas, member)
			}
		}
		if l := p.Leaving; l != nil && l.Addr == chosen.Addr {
			p.Leaving = nil
		} else if l != nil {
			_, answered := reports[l.Addr]
			l.Down = !answered
		}
		p.Master = chosen
		p.Master.Down, p.Master.Run = false, now.Run
	})
	if err != nil {
		return err
	}
	r.a.beats.saw(r.id, beat)
	r.stuck, r.on = "", ""
	r.a.note(ctx, m, r.id, fmt.Sprintf("healthy: %s, at offset %d of %s leads, in place of %s, after %v",
		chosen.Addr, elected.Offset, elected.History, old.Addr, time.Since(began).Round(time.Millisecond)))
	if restored {
		r.a.note(ctx, m, r.id, fmt.Sprintf("%s leads with the data of its disk, %s behind what was there", chosen.Addr, b.age(chosen)))
	}
	return nil
}

// kept reports whether a promoted member has all that it had when it was elected.
func kept(now, elected members.Report) bool {
	return now.History == elected.History && now.Offset >= elected.Offset ||
		now.Before == elected.History && now.Turned >= elected.Offset
}

// unmet is a number of replicas that no master has.
const unmet = 1000

// quieten has a master that serves refuse writes, and waits up to a second until a replica has all that it has. Then no Grace
// needs to pass: by whatever map a client writes, this master refuses it. It reports whether that is so.
func (r *reconciler) quieten(ctx context.Context, m *directory.Map, p directory.Partition, replica string) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	master, err := r.a.servers.Probe(ctx, p.Master.Addr)
	if err != nil || !master.Master || p.Master.Run == "" || restarted(p.Master, master) || !whole(master, m.Fleet, p.ID) || p.Stale ||
		r.a.servers.Need(ctx, p.Master.Addr, unmet) != nil {
		return false
	}
	for {
		now, err := r.a.servers.Probe(ctx, p.Master.Addr)
		if err != nil || !now.Master || now.Run != master.Run {
			return false
		}
		copied, err := r.a.servers.Probe(ctx, replica)
		if err == nil && copied.Linked && copied.History == now.History && copied.Offset >= now.Offset {
			return true
		}
		if !retry.Sleep(ctx, 10*time.Millisecond) {
			return false
		}
	}
}

// catchUp waits up to a second until linked replicas have all that the master has.
func (r *reconciler) catchUp(ctx context.Context, p directory.Partition) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	for {
		master, err := r.a.servers.Probe(ctx, p.Master.Addr)
		if err != nil || !master.Master {
			return
		}
		behind := false
		for _, replica := range p.Replicas {
			report, err := r.a.servers.Probe(ctx, replica.Addr)
			behind = behind || err == nil && report.Linked && report.Offset < master.Offset
		}
		if !behind || !retry.Sleep(ctx, 20*time.Millisecond) {
			return
		}
	}
}

// fence fences all members that answer, and returns their reports. A server that is used
// elsewhere by now is only asked.
func (r *reconciler) fence(ctx context.Context, fleet string, p directory.Partition) map[string]members.Report {
	var mu sync.Mutex
	reports := map[string]members.Report{}
	var fencing sync.WaitGroup
	for _, member := range voters(p) {
		fencing.Go(func() {
			timeout, ask := max(time.Second, r.a.cfg.Interval), r.a.servers.Fence
			h := r.a.watch.of(member.Addr)
			if h.missed >= misses {
				timeout = r.a.cfg.Interval
			}
			if h.elsewhere(fleet, p.ID) {
				ask = r.a.servers.Probe
			}
			ctx, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			if report, err := ask(ctx, member.Addr); err == nil {
				mu.Lock()
				reports[member.Addr] = report
				mu.Unlock()
			}
		})
	}
	fencing.Wait()
	return reports
}

// repair makes replicas follow a master that serves, one at a time on a node, and stores
// in the map what probes found.
func (r *reconciler) repair(ctx context.Context, m *directory.Map, p directory.Partition) {
	master := r.a.watch.of(p.Master.Addr)
	if !master.seen {
		return
	}
	changed := map[string]directory.Member{} // by address, as they are now
	live := 0
	for _, replica := range p.Replicas {
		now := replica
		h := r.a.watch.of(replica.Addr)
		now.Boot = cmp.Or(h.boot, now.Boot)
		switch {
		case h.missed >= misses, h.elsewhere(m.Fleet, p.ID):
			now.Down = true
		case r.linked(ctx, m, p, replica, master):
			live++
			if replica.Run != h.report.Run && h.wholeAgain(master) && r.a.servers.Serve(ctx, replica.Addr, h.report.Run) == nil {
				now.Run = h.report.Run
			}
			if h.good >= returns && master.report.InStep >= live {
				now.Down = false
			}
		}
		if now != replica {
			changed[replica.Addr] = now
		}
	}
	r.record(ctx, p, master, changed)
	// For up to a second after a copy the master does not count the replica yet, although
	// the replica reports a link.
	if need := min(1, live, master.report.InStep); r.on != p.Master.Addr || r.need != need {
		if r.a.servers.Need(ctx, p.Master.Addr, need) == nil {
			r.need, r.on = need, p.Master.Addr
		}
	}
}

// linked reports whether a replica follows the master and has a copy. If not, it does what
// is missing.
func (r *reconciler) linked(ctx context.Context, m *directory.Map, p directory.Partition, replica directory.Member, master health) bool {
	var err error
	switch h := r.a.watch.of(replica.Addr); {
	case !h.seen || h.report.Loading || h.elsewhere(m.Fleet, p.ID):
	case h.report.Master || h.report.Follows != p.Master.Addr || h.report.FollowsRun != master.report.Run:
		err = r.follow(ctx, p, replica, master.report.Run, members.Identity(m.Fleet, p.ID))
	case h.report.Copying:
	case !h.report.Linked:
		err = r.a.servers.Admit(ctx, p.Master.Addr, master.report.Run)
	default:
		return true
	}
	if err != nil && ctx.Err() == nil {
		r.a.cfg.Logger.WarnContext(ctx, "a replica cannot be made to follow", "addr", replica.Addr, "error", err)
	}
	return false
}

// record stores in the map what is new about a master and replicas.
func (r *reconciler) record(ctx context.Context, p directory.Partition, h health, changed map[string]directory.Member) {
	master, boot := h.report, cmp.Or(h.boot, p.Master.Boot)
	if len(changed) == 0 && boot == p.Master.Boot && p.History == master.History && p.Master.Run == master.Run && p.Floor == master.Floor {
		return
	}
	next, err := r.a.change(ctx, p, func(p *directory.Partition) {
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
	})
	if err != nil {
		return
	}
	for _, replica := range p.Replicas {
		if now, ok := changed[replica.Addr]; ok && now.Down != replica.Down {
			r.a.note(ctx, next, r.id, replica.Addr+map[bool]string{true: " is down", false: " is back"}[now.Down])
		}
	}
}

// copyTimeout is how long a node's turn is held for one copy.
const copyTimeout = 10 * time.Second

// follow makes a replica follow the master, and waits until it is in step. It needs the
// turn of the master's node, which makes the copy.
func (r *reconciler) follow(ctx context.Context, p directory.Partition, replica directory.Member, run, identity string) error {
	ctx, cancel := context.WithTimeout(ctx, copyTimeout)
	defer cancel()
	end, err := directory.TakeTurn(ctx, r.a.dir, p.Master)
	if errors.Is(err, directory.ErrTurn) {
		return nil // the next round tries again
	}
	if err != nil {
		return err
	}
	defer end()
	if err := r.a.servers.Follow(ctx, replica.Addr, p.Master.Addr, run, identity); err != nil {
		return err
	}
	for {
		report, err := r.a.servers.Probe(ctx, replica.Addr)
		if err != nil || report.Linked && !report.Copying || r.a.watch.of(p.Master.Addr).missed >= misses {
			return err
		}
		if !retry.Sleep(ctx, r.a.cfg.Interval/5) {
			return nil // the copy continues without the turn
		}
	}
}
