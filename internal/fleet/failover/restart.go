package failover

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
)

// restartTurn is the turn that a restart needs, of the whole fleet. No node has that name.
const restartTurn = "*restart*"

// restart restarts the members of a task: replicas first, then the master, after another
// member has taken its place.
//
// A restart begins only if all members of the fleet are whole, so that a partition lacks
// one copy at most. So a member that does not come back, or is down again a moment later,
// stops the restarts of all partitions.
func (r *reconciler) restart(ctx context.Context, m *directory.Map, p directory.Partition) error {
	for i, restart := range p.Task.Restart {
		what := r.outcome(p, restart)
		if what == "" {
			continue
		}
		err := r.step(ctx, p, restart.Addr+" "+what, func(p *directory.Partition) { p.Task.Restart = slices.Delete(p.Task.Restart, i, i+1) })
		if err == nil {
			r.endTurn()
		}
		return err
	}
	i := slices.IndexFunc(p.Task.Restart, func(restart directory.Restart) bool { return restart.Addr != p.Master.Addr })
	if i < 0 {
		return r.handOver(ctx, p, "", p.Task.Master)
	}
	if r.turn == nil {
		end, err := directory.TakeTurn(ctx, r.a.dir, directory.Member{Node: restartTurn})
		if errors.Is(err, directory.ErrTurn) {
			return nil // another partition's member is being restarted
		}
		if err != nil {
			return err
		}
		r.turn = end
	}
	return r.shutDown(ctx, p, p.Task.Restart[i])
}

// outcome says how a restart has ended; it is empty if it has not.
func (r *reconciler) outcome(p directory.Partition, restart directory.Restart) string {
	const whole = "was restarted, and has all data again"
	i := index(p, restart.Addr)
	switch {
	case restart.Addr == p.Master.Addr:
		if p.Master.Run != restart.Run {
			return whole
		}
	case i < 0:
		return "is not a member"
	case p.Replicas[i].Run != restart.Run && r.has(p, p.Replicas[i], r.a.watch.of(p.Master.Addr).before.Offset):
		return whole
	}
	return ""
}

// shutDown shuts a replica down. Its supervisor starts it again, with its boot fence.
func (r *reconciler) shutDown(ctx context.Context, p directory.Partition, restart directory.Restart) error {
	m, err := r.a.confirm(ctx)
	if err != nil {
		return err
	}
	if p.ID >= len(m.Partitions) || m.Partitions[p.ID].Epoch != p.Epoch || !reflect.DeepEqual(m.Partitions[p.ID].Task, p.Task) {
		return errOvertaken
	}
	if why := r.a.watch.trouble(m); why != "" {
		return waitsFor("no restart while %s", why)
	}
	if time.Since(r.refused) < pauseIntervals*r.a.cfg.Interval {
		return nil
	}
	// A snapshot that the member writes would be lost.
	end, err := directory.TakeTurn(ctx, r.a.dir, p.Replicas[index(p, restart.Addr)])
	if errors.Is(err, directory.ErrTurn) {
		return nil
	}
	if err != nil {
		return err
	}
	defer end()
	ctx, cancel := context.WithTimeout(ctx, max(time.Second, r.a.cfg.Interval))
	defer cancel()
	err = r.a.servers.Restart(ctx, restart.Addr, restart.Run)
	switch {
	case err == nil:
		r.a.note(ctx, m, r.id, restart.Addr+" was shut down, to be restarted")
		return nil
	case ctx.Err() != nil:
		r.refused = time.Now()
		return nil // it may be saving its data
	default:
		r.refused = time.Now()
		return waitsFor("%s cannot be restarted: %v", restart.Addr, err)
	}
}

// endTurn gives up the turn of a restart.
func (r *reconciler) endTurn() {
	if r.turn != nil {
		r.turn()
		r.turn = nil
	}
}

// trouble says which partition or member of the fleet is not whole, by the last probes, or
// nothing.
func (w *watch) trouble(m *directory.Map) string {
	for _, p := range m.Partitions {
		if p.ReadOnly {
			return fmt.Sprintf("partition %d is read-only", p.ID)
		}
		for i, member := range p.Members() {
			h := w.of(member.Addr)
			if r := h.report; !h.seen || member.Down || r.Run != member.Run || r.Master != (i == 0) || i > 0 && (!r.Linked || r.Copying) {
				return member.Addr + " is not whole"
			}
		}
	}
	return ""
}
