package failover

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/members"
)

// TaskDone begins the last event of a task; its plan follows.
const TaskDone = "the change of members is done: "

// carryOut makes the next step of a partition's task, if it is time for that. Each step is
// one change of the map, so another agent can make the next one.
func (r *reconciler) carryOut(ctx context.Context, m *directory.Map, p directory.Partition) {
	if p.Task == nil || len(p.Task.Restart) == 0 {
		r.endTurn()
	}
	var err error
	switch t := p.Task; {
	case !r.healthy(m, p):
	case p.Leaving != nil:
		err = r.release(ctx, m, p)
	case t == nil:
	case t.Add != nil:
		err = r.join(ctx, m, p)
	case t.Remove != "":
		err = r.remove(ctx, m, p)
	case len(t.Restart) > 0:
		err = r.restart(ctx, m, p)
	case t.Master != "" && t.Master != p.Master.Addr:
		err = r.handOver(ctx, p, t.Master, t.Master)
	default:
		err = r.step(ctx, p, TaskDone+t.Plan, func(p *directory.Partition) { p.Task = nil })
	}
	r.noteWait(ctx, m, err)
}

// healthy reports whether the last probe of the master found it as the map has it.
func (r *reconciler) healthy(m *directory.Map, p directory.Partition) bool {
	h := r.a.watch.of(p.Master.Addr)
	return h.seen && h.report.Master && h.report.Run == p.Master.Run && h.report.History == p.History &&
		h.report.Identity == members.Identity(m.Fleet, p.ID)
}

// step makes one step in the map, unless the task has changed meanwhile.
func (r *reconciler) step(ctx context.Context, seen directory.Partition, what string, edit func(p *directory.Partition)) error {
	same := false
	m, err := r.a.change(ctx, seen, func(p *directory.Partition) {
		same = reflect.DeepEqual(p.Task, seen.Task) && reflect.DeepEqual(p.Leaving, seen.Leaving)
		if same {
			edit(p)
		}
	})
	switch {
	case err != nil:
		return err
	case !same:
		return errOvertaken
	}
	r.a.note(ctx, m, r.id, what)
	return nil
}

// join makes the new member copy the master, like a replica that was restarted. When it
// has all data it becomes a replica. Before that nobody reads it, and it counts for nothing.
func (r *reconciler) join(ctx context.Context, m *directory.Map, p directory.Partition) error {
	joins := *p.Task.Add
	h, master := r.a.watch.of(joins.Addr), r.a.watch.of(p.Master.Addr)
	identity := members.Identity(m.Fleet, p.ID)
	switch {
	case h.missed >= misses:
		return waitsFor("%s does not answer", joins.Addr)
	case h.report.Identity != "" && h.report.Identity != identity:
		return waitsFor("%s belongs to %s", joins.Addr, h.report.Identity)
	case !r.linked(ctx, m, p, joins, master):
		return nil
	case !h.wholeAgain(master) || h.report.Identity != identity:
		return nil
	}
	if err := r.a.servers.Serve(ctx, joins.Addr, h.report.Run); err != nil {
		return err
	}
	joins.Run, joins.Down = h.report.Run, false
	return r.step(ctx, p, joins.Addr+" has all data, and is a replica", func(p *directory.Partition) {
		p.Replicas = append(p.Replicas, joins)
		p.Task.Add = nil
	})
}

// handOver makes a replica that is in step the master, without a loss. If only is not
// empty, it is that one; otherwise the preferred one if that is up, or any. A late write may keep the
// old master in place: then it tries again, but not at once, since writes wait meanwhile.
func (r *reconciler) handOver(ctx context.Context, p directory.Partition, only, prefer string) error {
	offset, to := r.a.watch.of(p.Master.Addr).before.Offset, ""
	for _, replica := range p.Replicas {
		if (only == "" || replica.Addr == only) && r.has(p, replica, offset) && (to == "" || replica.Addr == prefer) {
			to = replica.Addr
		}
	}
	i := index(p, prefer)
	switch {
	case to == "" && only != "":
		return waitsFor("%s is not a replica in step", only)
	case to != prefer && i >= 0 && !p.Replicas[i].Down:
		return waitsFor("%s is not in step yet", prefer) // one switch is better than two
	case to == "":
		return waitsFor("no replica is in step")
	case time.Since(r.switched) < pauseIntervals*r.a.cfg.Interval:
		return nil
	}
	r.switched = time.Now()
	return r.replace(ctx, p, to)
}

// pauseIntervals is how many intervals an agent waits before it repeats a step that
// disturbs others.
const pauseIntervals = 20

// has reports whether a replica is up, and has the history of the map's master up to that
// offset.
func (r *reconciler) has(p directory.Partition, replica directory.Member, offset int64) bool {
	h := r.a.watch.of(replica.Addr)
	return !replica.Down && h.seen && h.report.Linked && !h.report.Copying && h.report.Follows == p.Master.Addr &&
		h.report.Run == replica.Run && h.report.History == p.History && h.report.Offset >= offset
}

// wait is what a task waits for.
type wait struct {
	why   string
	since time.Time
	noted bool
}

// waitError is the reason why a task cannot go on.
type waitError string

func (e waitError) Error() string { return string(e) }

func waitsFor(format string, args ...any) error { return waitError(fmt.Sprintf(format, args...)) }

// TaskWaits begins an event that says what a task waits for.
const TaskWaits = "the task waits: "

// noteWait notes once why a task waits, if that is no passing state.
func (r *reconciler) noteWait(ctx context.Context, m *directory.Map, err error) {
	why, waits := errors.AsType[waitError](err)
	if !waits {
		r.waits = wait{}
		if err != nil && ctx.Err() == nil && !errors.Is(err, errOvertaken) {
			r.a.cfg.Logger.WarnContext(ctx, "a task does not go on", "partition", r.id, "error", err)
		}
		return
	}
	if r.waits.why != string(why) {
		r.waits = wait{why: string(why), since: time.Now()}
	}
	if !r.waits.noted && time.Since(r.waits.since) > pauseIntervals*r.a.cfg.Interval {
		r.waits.noted = true
		r.a.note(ctx, m, r.id, TaskWaits+r.waits.why)
	}
}

// index returns the place of a replica, -1 for none.
func index(p directory.Partition, addr string) int {
	return slices.IndexFunc(p.Replicas, func(m directory.Member) bool { return m.Addr == addr })
}
