package failover

import (
	"context"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/members"
)

// remove takes a member out of the replicas: from the new map on, clients neither read it
// nor count it. If it is the master, another member becomes that first.
//
// The partition gets a new epoch, so that calls which block on its master end with the
// Grace: they count the replicas of the map by which they began.
func (r *reconciler) remove(ctx context.Context, m *directory.Map, p directory.Partition) error {
	addr := p.Task.Remove
	if p.Master.Addr == addr {
		return r.handOver(ctx, p, "", p.Task.Master)
	}
	i := index(p, addr)
	if i < 0 {
		return r.step(ctx, p, addr+" is not a member", func(p *directory.Partition) { p.Task.Remove = "" })
	}
	rest := slices.Delete(slices.Clone(p.Replicas), i, i+1)
	if have, need := r.count(p, rest, r.a.watch.of(p.Master.Addr).before.Offset), enough(m, rest); have < need {
		return waitsFor("%d of the other replicas are in step, and %d must be", have, need)
	}
	return r.step(ctx, p, addr+" leaves", func(p *directory.Partition) {
		i := index(*p, addr)
		leaves := p.Replicas[i]
		p.Replicas = slices.Delete(p.Replicas, i, i+1)
		p.Leaving = &leaves
		p.Epoch++
	})
}

// enough returns how many of the remaining replicas must have all data: then each election
// among them finds one that has it.
func enough(m *directory.Map, rest []directory.Member) int {
	return min(m.Settings.Effective().Confirmed, len(rest))
}

// count returns how many of some replicas have the master's history up to an offset.
func (r *reconciler) count(p directory.Partition, replicas []directory.Member, offset int64) (n int) {
	for _, replica := range replicas {
		if r.has(p, replica, offset) {
			n++
		}
	}
	return n
}

// departure is how far a member is that leaves.
type departure struct {
	epoch  int64     // of the partition; another one starts over
	since  time.Time // when this agent first saw that it leaves
	run    string    // of the master after the Grace, empty before
	offset int64     // of the master then
}

// release drops the member that leaves. Before that, clients with older maps may have taken
// its word that it has a write. So it waits until no client uses such a map, and then until
// all replicas that are up have all that the master has by then.
//
// A member that is dead can leave: the master has what it confirmed. So it matters that the
// master is the same all the time. If it is replaced meanwhile, the election counts the
// member that leaves, and the partition has a new epoch.
func (r *reconciler) release(ctx context.Context, m *directory.Map, p directory.Partition) error {
	d, grace := &r.leaves, m.Grace()
	if d.epoch != p.Epoch {
		*d = departure{epoch: p.Epoch, since: time.Now()}
	}
	if time.Since(d.since) < grace {
		return nil
	}
	if d.run != p.Master.Run {
		now, err := r.a.servers.Probe(ctx, p.Master.Addr)
		if err != nil || !now.Master || now.Run != p.Master.Run || now.History != p.History {
			return err
		}
		d.run, d.offset = now.Run, now.Offset
		return nil // the next round has newer probes of the replicas
	}
	up := slices.DeleteFunc(slices.Clone(p.Replicas), func(m directory.Member) bool { return m.Down })
	if have, need := r.count(p, up, d.offset), max(len(up), enough(m, p.Replicas)); have < need {
		return waitsFor("%d of the remaining replicas have all data, and %d must have it", have, need)
	}
	return r.dismiss(ctx, m, p)
}

// dismiss drops a member, and fences it, so that nobody reads old data there. If it cannot
// be reached, it stays as it is.
func (r *reconciler) dismiss(ctx context.Context, m *directory.Map, p directory.Partition) error {
	leaves := *p.Leaving
	run := "" // in which it was fenced; in another one it may be a member again
	if !r.a.watch.of(leaves.Addr).elsewhere(m.Fleet, p.ID) {
		run, _ = r.isolate(ctx, leaves)
	}
	err := r.step(ctx, p, leaves.Addr+" has left", func(p *directory.Partition) {
		p.Leaving = nil
		if p.Task != nil && p.Task.Remove == leaves.Addr {
			p.Task.Remove = ""
		}
	})
	if err != nil || run == "" {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, r.a.cfg.Interval)
	defer cancel()
	if err := r.a.servers.Retire(ctx, leaves.Addr, run, members.Identity(m.Fleet, p.ID)); err != nil {
		r.a.cfg.Logger.WarnContext(ctx, "a former member keeps its identity", "addr", leaves.Addr, "error", err)
	}
	return nil
}
