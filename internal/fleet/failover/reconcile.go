package failover

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/redis/retry"
)

// NoMaster begins an event that says why a partition has no master.
const NoMaster = "no new master: "

// memory is the leading agent's memory of a partition. Another leader begins with none.
type memory struct {
	term
	tried    map[string]bool // actions of this round, by their keys
	turn     bool            // whether it has the turn of restarts
	copying  *copying        // the copy that is being made in the turn of the master's node, nil for none
	switched time.Time       // when it last made the partition read-only
	refused  time.Time       // when a member last refused to be shut down
}

// term is the state of one epoch of the partition: with the next one, each wait begins again.
type term struct {
	epoch int64
	since time.Time // when this agent set the epoch, or saw it first
	mine  bool      // whether it made the partition read-only with this epoch

	quiet  time.Time                 // when the master began to refuse all writes; zero if it does not
	loud   bool                      // whether it could not be told to
	fenced map[string]members.Report // reports of the members that were fenced, nil before
	newest members.Beat              // the newest one that was known then
	led    *members.Report           // of the elected member since it leads
	told   bool                      // whether Config.Restored was called

	needs   need              // the last one that succeeded
	served  map[string]string // the run in which a member may be read, by address
	drained *members.Report   // of the master when no client used an older map any more
	former  *retire           // the member that has left
}

// copying is a copy that a replica makes.
type copying struct {
	addr  string
	since time.Time
	end   func() // gives up the turn
}

// reconciler carries out the decisions of step in one partition.
type reconciler struct {
	a    *Agent
	id   int
	busy sync.Mutex // held while it works

	memory
	stuck   string // why no member could be elected, as last noted
	waits   wait   // of the task
	restart func() // gives up the turn of restarts
}

// reconcile does all that can be done now.
func (r *reconciler) reconcile(ctx context.Context, m *directory.Map, p directory.Partition) {
	if r.a.watch.cutOff(m) && p.Restore == "" {
		return
	}
	r.tried = map[string]bool{}
	for ctx.Err() == nil {
		r.observe(m, p)
		s := situation{m: m, p: p, seen: r.a.watch.seen(p), now: time.Now(), every: r.a.cfg.Interval, memory: r.memory}
		switch a := step(s).(type) {
		case nil:
			r.waits = wait{}
			return
		case waits:
			r.waits.note(ctx, r.a, m, r.id, TaskWaits, a.why)
			return
		case stuck:
			r.giveUp(ctx, m, a.why)
			return
		case change:
			next, err := r.change(ctx, p, a)
			if err != nil { // the next round has the map as it is then
				r.logFailure(ctx, "change the map", err)
				return
			}
			m, p = next, next.Partitions[r.id]
		default:
			r.tried[key(a)] = true
			err := r.do(ctx, s, a)
			_, fences := a.(fence)
			_, leads := a.(lead)
			switch {
			case err == nil:
			case errors.Is(err, errOvertaken):
				return
			case fences || leads:
				r.giveUp(ctx, m, err)
				return
			default:
				r.logFailure(ctx, strings.TrimPrefix(key(a), "failover."), err)
			}
		}
		r.a.watch.look(ctx, r.a, p)
	}
}

// logFailure logs that a step failed. The next round tries it again.
func (r *reconciler) logFailure(ctx context.Context, step string, err error) {
	if ctx.Err() == nil && !errors.Is(err, errOvertaken) && !errors.Is(err, errBehind) {
		r.a.cfg.Logger.WarnContext(ctx, "a step failed, and is tried again", "partition", r.id, "step", step, "error", err)
	}
}

// observe begins a term when the partition has another epoch. It also notes how far the master is when no client can rely on a
// former replica any more.
func (r *reconciler) observe(m *directory.Map, p directory.Partition) {
	if r.epoch != p.Epoch {
		r.term = term{epoch: p.Epoch, since: time.Now()}
	}
	h := r.a.watch.of(p.Master.Addr)
	switch {
	case p.Leaving == nil:
		r.drained = nil
	case h.seen && h.report.Master && h.report.Run == p.Master.Run && h.report.History == p.History && h.at.After(r.since.Add(m.Grace())) &&
		(r.drained == nil || r.drained.Run != h.report.Run):
		r.drained = &h.report
	}
}

// giveUp notes why no member could be elected. The next round examines all members again.
func (r *reconciler) giveUp(ctx context.Context, m *directory.Map, why error) {
	r.fenced, r.led, r.told = nil, nil, false
	if ctx.Err() == nil && why.Error() != r.stuck {
		r.stuck = why.Error()
		r.a.note(ctx, m, r.id, NoMaster+r.stuck)
	}
}

// change changes the map, and notes it.
func (r *reconciler) change(ctx context.Context, seen directory.Partition, c change) (*directory.Map, error) {
	overtaken := false
	m, err := r.a.change(ctx, seen, func(p *directory.Partition) {
		overtaken = c.same && (!reflect.DeepEqual(p.Task, seen.Task) || !reflect.DeepEqual(p.Leaving, seen.Leaving))
		if !overtaken {
			c.edit(p)
		}
	})
	switch {
	case err != nil:
		return nil, err
	case overtaken:
		return nil, errOvertaken
	}
	if c.mine {
		r.term = term{epoch: m.Partitions[r.id].Epoch, since: time.Now(), mine: true}
		r.switched = r.since
	}
	if c.endsTurn {
		r.endTurn()
	}
	if !c.mine || r.stuck == "" {
		for _, what := range c.say {
			r.a.note(ctx, m, r.id, what)
		}
	}
	if !m.Partitions[r.id].ReadOnly {
		r.stuck = ""
	}
	return m, nil
}

// do carries out an action that does not change the map.
func (r *reconciler) do(ctx context.Context, s situation, a action) error {
	servers, identity := r.a.servers, members.Identity(s.m.Fleet, r.id)
	brief, cancel := context.WithTimeout(ctx, max(time.Second, r.a.cfg.Interval))
	defer cancel()
	switch a := a.(type) {
	case look:
		retry.Sleep(ctx, a.after)
	case isolate:
		return r.isolate(ctx, s, a)
	case fence:
		return r.fence(ctx, s)
	case lead:
		return r.lead(ctx, a)
	case tell:
		r.told = true
		if err := r.a.cfg.Restored(ctx, s.m, r.id, a.addr); err != nil {
			r.a.note(ctx, s.m, r.id, a.addr+" has the data of an earlier time: "+err.Error())
		}
	case need:
		return r.need(brief, a)
	case follow:
		return r.follow(ctx, s, a, identity)
	case admit:
		return servers.Admit(brief, s.p.Master.Addr, a.run)
	case serve:
		if err := servers.Serve(brief, a.addr, a.run); err != nil {
			return err
		}
		if r.served == nil {
			r.served = map[string]string{}
		}
		r.served[a.addr] = a.run
	case retire:
		r.former = nil
		return servers.Retire(brief, a.addr, a.run, identity)
	case takeTurn:
		return r.takeTurn(ctx)
	case endTurn:
		r.endTurn()
	case endCopy:
		r.endCopy()
	case shutDown:
		return r.shutDown(ctx, s, a)
	}
	return nil
}

// isolate fences a member that no client may read.
func (r *reconciler) isolate(ctx context.Context, s situation, a isolate) error {
	// In a newer map it may be the elected master.
	now, err := r.a.confirm(ctx)
	if err != nil {
		return err
	}
	if r.id >= len(now.Partitions) || now.Partitions[r.id].Epoch != s.p.Epoch {
		return errOvertaken
	}
	brief, cancel := context.WithTimeout(ctx, r.a.cfg.Interval)
	defer cancel()
	if err := r.a.servers.Hide(brief, a.member.Addr); err != nil {
		return err
	}
	report, err := r.a.servers.Fence(brief, a.member.Addr)
	if err != nil {
		return err
	}
	if s.p.Leaving != nil && s.p.Leaving.Addr == a.member.Addr {
		r.former = &retire{a.member.Addr, report.Run}
	}
	if a.say != "" {
		r.a.note(ctx, s.m, r.id, a.say)
	}
	return nil
}

// fence fences all members that answer, and collects their reports. A server that is used
// elsewhere by now is only asked, and so is one that loads a file: a fence would end the load.
func (r *reconciler) fence(ctx context.Context, s situation) error {
	var mu sync.Mutex
	reports := map[string]members.Report{}
	var fencing sync.WaitGroup
	for _, member := range voters(s.p) {
		fencing.Go(func() {
			timeout, ask := max(time.Second, r.a.cfg.Interval), r.a.servers.Fence
			h := s.of(member.Addr)
			if h.missed >= misses {
				timeout = r.a.cfg.Interval
			}
			if h.elsewhere(s.m.Fleet, r.id) || h.isLoading(s.p, member) {
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
	newest, err := r.a.newestBeat(ctx, s.m, r.id, reports)
	if err != nil {
		return fmt.Errorf("the directory does not say which data is the newest: %w", err)
	}
	r.fenced, r.newest = reports, newest
	return nil
}

// lead makes the elected member take writes, and looks at it.
func (r *reconciler) lead(ctx context.Context, a lead) error {
	if err := r.a.servers.Lead(ctx, a.addr, a.run, a.beat, a.restored); err != nil {
		return fmt.Errorf("%s was elected and cannot lead: %w", a.addr, err)
	}
	r.a.beats.saw(r.id, a.beat)
	now, err := r.a.servers.Probe(ctx, a.addr)
	if err != nil {
		return fmt.Errorf("%s was elected and does not answer: %w", a.addr, err)
	}
	r.led = &now
	return nil
}

func (r *reconciler) need(ctx context.Context, a need) error {
	err := r.a.servers.Need(ctx, a.addr, a.replicas)
	switch {
	case a.replicas == unmet && err != nil:
		r.loud = true
	case a.replicas == unmet:
		r.quiet = time.Now()
	case err == nil:
		r.needs = a
	}
	return err
}

// follow makes a replica follow the master. It needs the turn of the master's node, which
// makes the copy, and keeps it until the replica is in step.
func (r *reconciler) follow(ctx context.Context, s situation, a follow, identity string) error {
	end, err := directory.TakeTurn(ctx, r.a.dir, s.p.Master)
	if errors.Is(err, directory.ErrTurn) {
		return nil // the next round tries again
	}
	if err != nil {
		return err
	}
	brief, cancel := context.WithTimeout(ctx, copyTimeout)
	defer cancel()
	if err := r.a.servers.Follow(brief, a.addr, s.p.Master.Addr, a.run, identity); err != nil {
		end()
		return err
	}
	r.copying = &copying{a.addr, time.Now(), end}
	return nil
}

func (r *reconciler) endCopy() {
	if r.copying != nil {
		r.copying.end()
		r.copying = nil
	}
}

// restartTurn is the turn that a restart needs, of the whole fleet. No node has that name.
const restartTurn = "*restart*"

func (r *reconciler) takeTurn(ctx context.Context) error {
	end, err := directory.TakeTurn(ctx, r.a.dir, directory.Member{Node: restartTurn})
	if errors.Is(err, directory.ErrTurn) {
		return nil // another partition's member is being restarted
	}
	if err == nil {
		r.turn, r.restart = true, end
	}
	return err
}

// endTurn gives up the turn of a restart.
func (r *reconciler) endTurn() {
	if r.turn {
		r.restart()
		r.turn = false
	}
}

// shutDown shuts a replica down. Its supervisor starts it again, with its boot fence.
func (r *reconciler) shutDown(ctx context.Context, s situation, a shutDown) error {
	m, err := r.a.confirm(ctx)
	if err != nil {
		return err
	}
	if r.id >= len(m.Partitions) || m.Partitions[r.id].Epoch != s.p.Epoch || !reflect.DeepEqual(m.Partitions[r.id].Task, s.p.Task) {
		return errOvertaken
	}
	// A snapshot that the member writes would be lost.
	end, err := directory.TakeTurn(ctx, r.a.dir, s.p.Replicas[index(s.p, a.Addr)])
	if errors.Is(err, directory.ErrTurn) {
		return nil
	}
	if err != nil {
		return err
	}
	defer end()
	brief, cancel := context.WithTimeout(ctx, max(time.Second, r.a.cfg.Interval))
	defer cancel()
	err = r.a.servers.Restart(brief, a.Addr, a.Run)
	switch {
	case err == nil:
		r.a.note(ctx, m, r.id, a.Addr+" was shut down, to be restarted")
	case brief.Err() != nil:
		r.refused, err = time.Now(), nil // it may be saving its data
	default:
		r.refused = time.Now()
		r.waits.note(ctx, r.a, m, r.id, TaskWaits, fmt.Sprintf("%s cannot be restarted: %v", a.Addr, err))
	}
	return err
}

// wait is why something waits.
type wait struct {
	why   string
	since time.Time
	noted bool
}

// note notes once why something waits, if that is no passing state.
func (w *wait) note(ctx context.Context, a *Agent, m *directory.Map, partition int, what, why string) {
	if w.why != why {
		*w = wait{why: why, since: time.Now()}
	}
	if !w.noted && time.Since(w.since) > pauseIntervals*a.cfg.Interval {
		w.noted = true
		a.note(ctx, m, partition, what+why)
	}
}
