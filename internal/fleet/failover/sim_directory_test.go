package failover_test

import (
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
)

// simDirectory is the directory: one map, and who leads.
type simDirectory struct {
	host

	w      *world
	m      *directory.Map
	stored []*directory.Map // all that there were
	leader string
	until  time.Time
	since  time.Time // when the server that decides took over; zero if there was no other

	former *directory.Map // what the one before confirms
	loyal  *client        // to whom
	ends   time.Time      // and until when
	events []directory.Event
	turns  map[string]nodeTurn
}

func (d *simDirectory) lead(agent string, life time.Duration) bool {
	if d.w.leaders && !d.w.calm {
		return true
	}
	if d.leader != "" && d.leader != agent && time.Now().Before(d.until) {
		return false
	}
	d.leader, d.until = agent, time.Now().Add(life)
	return true
}

// settled is for how long the same server has decided.
func (d *simDirectory) settled() time.Duration {
	if d.since.IsZero() || d.w.sabotage.unsettled {
		return time.Hour
	}
	return time.Since(d.since)
}

// failOver has another server decide, and the one before go on for a client that does
// not know it.
func (d *simDirectory) failOver(loyal *client) {
	d.since = time.Now()
	d.former, d.loyal, d.ends = d.m, loyal, time.Now().Add(directory.SettleTime)
	d.w.say("the directory fails over; %s asks its old master", loyal.name)
}

// turn gives the turn of a node. Nobody but agents takes one here.
func (d *simDirectory) turn(node, holder string, life time.Duration) bool {
	if t := d.turns[node]; t.holder != "" && t.holder != holder && time.Now().Before(t.until) {
		return false
	}
	if d.turns == nil {
		d.turns = map[string]nodeTurn{}
	}
	d.turns[node] = nodeTurn{holder, time.Now().Add(life)}
	return true
}

// nodeTurn is who has one, and for how long.
type nodeTurn struct {
	holder string
	until  time.Time
}

// confirm returns nil if the map with that epoch is the present one.
func (d *simDirectory) confirm(by *client, epoch int64) *directory.Map {
	if by != nil && by == d.loyal && time.Now().Before(d.ends) {
		if d.former.Epoch == epoch {
			return nil
		}
		return d.former.Clone()
	}
	if d.m.Epoch == epoch {
		return nil
	}
	return d.m.Clone()
}

func (d *simDirectory) change(by string, epoch int64, next *directory.Map) error {
	if next.Epoch <= epoch {
		return directory.ErrMap
	}
	if d.m == next {
		return nil // a repeat
	}
	if d.m.Epoch != epoch {
		return directory.ErrConflict
	}
	d.w.checkChange(by, d.m, next)
	d.m = next
	d.stored = append(d.stored, next)
	for _, p := range next.Partitions {
		d.w.say("%s: map %d: partition %d epoch %d, read-only %v, %s and %v, history %s", by, next.Epoch, p.ID, p.Epoch, p.ReadOnly, p.Master.Addr, p.Replicas, p.History)
	}
	return nil
}

// restore has the directory come back with an earlier map.
func (d *simDirectory) restore(back int) {
	d.m = d.stored[max(0, len(d.stored)-1-back)]
	d.leader, d.since = "", time.Now()
	d.w.say("the directory is restored: map %d of %d", d.m.Epoch, d.stored[len(d.stored)-1].Epoch)
}
