package failover

import (
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

// reconciler makes one partition what it should be: with a master, and members that
// follow it.
type reconciler struct {
	a    *Agent
	id   int
	turn sync.Mutex // held by who reconciles it

	need  int    // what min-replicas-to-write was last set to, and on which master
	on    string // empty if it was not
	stuck string // why nobody could be elected, as last noted
}

// reconcile does what a partition needs: a new master, or members that are put right.
func (s *reconciler) reconcile(ctx context.Context, m *directory.Map, p directory.Partition) {
	if s.a.watch.cutOff(m) {
		return
	}
	s.quarantine(ctx, m, p)
	if p.ReadOnly || s.needsMaster(m, p) {
		err := s.replace(ctx, p, p.Prefer)
		if err != nil && ctx.Err() == nil && !errors.Is(err, errOvertaken) && err.Error() != s.stuck {
			s.stuck = err.Error()
			s.a.note(ctx, m, s.id, "no new master: "+err.Error())
		}
		return
	}
	s.repair(ctx, p)
}

// needsMaster reports whether the master is gone for certain, or cannot go on by
// itself: it is fenced, without its data, or was started again.
func (s *reconciler) needsMaster(m *directory.Map, p directory.Partition) bool {
	h := s.a.watch.of(p.Master.Addr)
	switch {
	case h.missed >= misses:
		return true
	case !h.seen:
		return false
	case !h.report.Master || h.report.Identity != members.Identity(m.Fleet, p.ID) || restarted(p.Master, h.report):
		return true
	}
	// A directory that has lost its newest maps may name a master of before.
	return slices.ContainsFunc(p.Replicas, func(r directory.Member) bool {
		o := s.a.watch.of(r.Addr)
		return o.seen && o.before.Identity == h.report.Identity && o.before.Floor > h.report.Floor
	})
}

// quarantine fences members at once that were started again and take writes: they
// came back without their boot fence. Nobody reads or writes what they have before it
// was examined. That no replica copies them in the meantime is up to the run that
// replicas follow.
func (s *reconciler) quarantine(ctx context.Context, m *directory.Map, p directory.Partition) {
	for _, member := range p.Members() {
		h := s.a.watch.of(member.Addr)
		if !h.seen || !h.report.Master || !restarted(member, h.report) {
			continue
		}
		// By a map that is old by now, it might be one that was elected after that.
		if now, err := s.a.confirm(ctx); err != nil || now.Partitions[s.id].Epoch != p.Epoch {
			return
		}
		if s.isolate(ctx, member) == nil {
			s.a.note(ctx, m, s.id, member.Addr+" was started again without its boot fence, and has been fenced: put replicaof on its command line")
		}
	}
}

func (s *reconciler) isolate(ctx context.Context, member directory.Member) error {
	ctx, cancel := context.WithTimeout(ctx, s.a.cfg.Interval)
	defer cancel()
	if err := s.a.servers.Serve(ctx, member.Addr, false); err != nil {
		return err
	}
	_, err := s.a.servers.Fence(ctx, member.Addr)
	return err
}

// replace gives the partition a master, of several that are equally far the
// preferred one. Every step may be the last that this agent does: another one that
// finds the partition read-only begins anew, with a higher epoch, and then this
// one's last step is refused.
func (s *reconciler) replace(ctx context.Context, p directory.Partition, prefer string) error {
	began := time.Now()
	old := p.Master
	m, err := s.a.change(ctx, s.id, func(now directory.Partition) bool { return now.Epoch == p.Epoch }, func(p *directory.Partition) {
		p.ReadOnly = true
		p.Epoch++
		p.Prefer = prefer
	})
	if err != nil {
		return err
	}
	p = m.Partitions[s.id]
	if s.stuck == "" {
		s.a.note(ctx, m, s.id, fmt.Sprintf("read-only: %s is to be replaced, or confirmed", old.Addr))
	}

	if err := s.a.drain(ctx, m.Settings.Grace()); err != nil {
		return err
	}
	if s.a.watch.of(p.Master.Addr).missed == 0 {
		s.catchUp(ctx, p)
	}
	reports := s.fence(ctx, p)
	chosen, err := elect(m.Fleet, p, reports, m.Settings.Effective().Confirmed)
	if err != nil {
		return err
	}
	// The floor is the epoch that the map will have, or a later one: so members know
	// about how far the map was, should the directory forget it, and who was promoted
	// last.
	floor := m.Epoch
	for _, l := range reports {
		floor = max(floor, l.Floor)
	}
	if err := s.a.servers.Lead(ctx, chosen.Addr, reports[chosen.Addr].Run, floor+1); err != nil {
		return fmt.Errorf("%s was elected and cannot lead: %w", chosen.Addr, err)
	}
	look, err := s.a.servers.Probe(ctx, chosen.Addr)
	switch {
	case err != nil:
		return err
	case !look.Master || !whole(look, m.Fleet, p.ID) || !kept(look, reports[chosen.Addr]):
		// It was restarted between being elected and leading, and is not what it was.
		return fmt.Errorf("%s was elected and has lost its data since", chosen.Addr)
	}
	if restarted(chosen, look) {
		if err := s.a.cfg.Restored(ctx, m, s.id, chosen.Addr); err != nil {
			s.a.note(ctx, m, s.id, chosen.Addr+" has the data of an earlier time: "+err.Error())
		}
	}
	m, err = s.a.change(ctx, s.id, func(now directory.Partition) bool { return now.Epoch == p.Epoch }, func(p *directory.Partition) {
		p.ReadOnly = false
		p.Epoch++
		p.History, p.Before, p.Floor = look.History, look.Before, look.Floor
		p.Prefer = ""
		p.Replicas = nil
		for _, member := range append([]directory.Member{old}, m.Partitions[s.id].Replicas...) {
			if member.Addr != chosen.Addr {
				_, member.Down = reports[member.Addr]
				member.Down = !member.Down
				p.Replicas = append(p.Replicas, member)
			}
		}
		p.Master = chosen
		p.Master.Down, p.Master.Run = false, look.Run
	})
	if err != nil {
		return err
	}
	s.stuck, s.on = "", ""
	s.a.note(ctx, m, s.id, fmt.Sprintf("healthy: %s leads, in place of %s, after %v", describe(chosen, reports), old.Addr, time.Since(began).Round(time.Millisecond)))
	return nil
}

// catchUp waits a moment for replicas to get what the master has and they do not,
// if it answers. One that has just missed a look is not waited for.
func (s *reconciler) catchUp(ctx context.Context, p directory.Partition) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	for {
		master, err := s.a.servers.Probe(ctx, p.Master.Addr)
		if err != nil || !master.Master {
			return
		}
		behind := false
		for _, r := range p.Replicas {
			l, err := s.a.servers.Probe(ctx, r.Addr)
			behind = behind || err == nil && l.Linked && l.Offset < master.Offset
		}
		if !behind || !retry.Sleep(ctx, 20*time.Millisecond) {
			return
		}
	}
}

// fence fences all members that can be reached, and returns what they say then.
func (s *reconciler) fence(ctx context.Context, p directory.Partition) map[string]members.Report {
	var mu sync.Mutex
	reports := map[string]members.Report{}
	var fencing sync.WaitGroup
	for _, member := range p.Members() {
		fencing.Go(func() {
			limit := max(time.Second, s.a.cfg.Interval)
			if s.a.watch.of(member.Addr).missed >= misses {
				limit = s.a.cfg.Interval // it was silent for so long
			}
			ctx, cancel := context.WithTimeout(ctx, limit)
			defer cancel()
			if l, err := s.a.servers.Fence(ctx, member.Addr); err == nil {
				mu.Lock()
				reports[member.Addr] = l
				mu.Unlock()
			}
		})
	}
	fencing.Wait()
	return reports
}

// repair puts the members of a partition right whose master serves: replicas follow
// it, one at a time on a node. What it has seen of them goes into the map.
func (s *reconciler) repair(ctx context.Context, p directory.Partition) {
	master := s.a.watch.of(p.Master.Addr)
	if !master.seen {
		return
	}
	changed := map[string]directory.Member{} // as they are from now on
	live := 0
	for _, r := range p.Replicas {
		now := r
		switch h := s.a.watch.of(r.Addr); {
		case h.missed >= misses:
			now.Down = true
		case !h.seen || h.report.Loading:
		case h.report.Master || h.report.Follows != p.Master.Addr || h.report.FollowsRun != master.report.Run:
			s.warn(ctx, r, s.follow(ctx, p, r, master.report.Run))
		case h.report.Copying:
		case !h.report.Linked:
			s.warn(ctx, r, s.a.servers.Admit(ctx, p.Master.Addr, master.report.Run))
		default:
			live++
			if r.Run != h.report.Run && h.wholeAgain(master) && s.a.servers.Serve(ctx, r.Addr, true) == nil {
				now.Run = h.report.Run
			}
			if h.good >= returns && master.report.InStep >= live {
				now.Down = false
			}
		}
		if now != r {
			changed[r.Addr] = now
		}
	}
	s.record(ctx, p, master.report, changed)
	// What the master does not count yet it sends nothing, for up to a second after the
	// copy, although the replica says that they are linked.
	if need := min(1, live, master.report.InStep); s.on != p.Master.Addr || s.need != need {
		if s.a.servers.Need(ctx, p.Master.Addr, need) == nil {
			s.need, s.on = need, p.Master.Addr
		}
	}
}

func (s *reconciler) warn(ctx context.Context, r directory.Member, err error) {
	if err != nil && ctx.Err() == nil {
		s.a.cfg.Logger.WarnContext(ctx, "a replica cannot be made to follow", "addr", r.Addr, "error", err)
	}
}

// record has the map say what is new of a master and of members.
func (s *reconciler) record(ctx context.Context, p directory.Partition, master members.Report, changed map[string]directory.Member) {
	if len(changed) == 0 && p.History == master.History && p.Master.Run == master.Run && p.Floor == master.Floor {
		return
	}
	next, err := s.a.change(ctx, s.id, func(now directory.Partition) bool { return now.Epoch == p.Epoch && !now.ReadOnly }, func(p *directory.Partition) {
		if p.History != "" && p.History != master.History {
			// It began a new history, as with its first replica; or somebody has promoted it
			// by hand, and what it was given in its last moments may be gone.
			p.Before = p.History
			p.Epoch++
		}
		p.History, p.Master.Run, p.Floor = master.History, master.Run, master.Floor
		for i, r := range p.Replicas {
			if now, ok := changed[r.Addr]; ok {
				p.Replicas[i].Down, p.Replicas[i].Run = now.Down, now.Run
			}
		}
	})
	if err != nil {
		return
	}
	for _, r := range p.Replicas {
		if now, ok := changed[r.Addr]; ok && now.Down != r.Down {
			s.a.note(ctx, next, s.id, r.Addr+map[bool]string{true: " is down", false: " is back"}[now.Down])
		}
	}
}

// follow makes a replica follow the master if it is the turn of the master's node,
// where the copy is made, and waits until it is in step.
func (s *reconciler) follow(ctx context.Context, p directory.Partition, r directory.Member, run string) error {
	ctx, cancel := context.WithTimeout(ctx, copyTimeout)
	defer cancel()
	end, err := directory.TakeTurn(ctx, s.a.dir, p.Master)
	if errors.Is(err, directory.ErrTurn) {
		return nil // the next round tries again
	}
	if err != nil {
		return err
	}
	defer end()
	if err := s.a.servers.Follow(ctx, r.Addr, p.Master.Addr, run); err != nil {
		return err
	}
	for {
		l, err := s.a.servers.Probe(ctx, r.Addr)
		if err != nil || l.Linked && !l.Copying {
			return err
		}
		if !retry.Sleep(ctx, s.a.cfg.Interval/5) {
			return nil // it goes on without being waited for
		}
	}
}

// copyTimeout is how long a node's turn is held for one copy.
const copyTimeout = 10 * time.Second

// kept reports whether a member that was promoted has all that it had when it was
// elected.
func kept(now, elected members.Report) bool {
	return now.History == elected.History && now.Offset >= elected.Offset ||
		now.Before == elected.History && now.Turned >= elected.Offset
}
