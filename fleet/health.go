package fleet

import (
	"context"
	"time"

	"github.com/millrace/millrace/internal/fleet/members"
)

// health is a replica's last report.
type health struct {
	at       int64 // when it was asked, by Fleet.now
	synced   bool  // it has a copy of the partition, perhaps an old one
	linked   bool  // its master streams writes to it
	caughtUp int64 // it has all writes from before that time
}

// How long a replica's health is valid, and how long it is used while a check runs in
// the background.
const (
	healthValid = int64(500 * time.Millisecond)
	healthStale = int64(2 * time.Second)
)

// reader returns the member that serves a read. That is a replica with a copy while the master
// refuses reads: it was restarted, and no agent has examined it yet.
func (t target) reader(ctx context.Context) *member {
	p, master := t.p, t.p.master()
	if t.place == nil {
		return master
	}
	if !p.f.cfg.ReadReplicas {
		if until := master.refuses.Load(); until > 0 && p.f.now() < until {
			for _, m := range p.members[1:] {
				if p.health(ctx, m).synced {
					return m
				}
			}
		}
		return master
	}
	n := len(p.members)
	first := int(t.place.position % uint64(n))
	for i := range n {
		at := (first + i) % n
		switch {
		case at == 0 && !p.Master.Down:
			return master
		case at == 0 || p.Replicas[at-1].Down:
			continue
		}
		h := p.health(ctx, p.members[at])
		if h.linked && (!p.f.cfg.ReadYourWrites || h.caughtUp > t.place.wrote.Load()) {
			return p.members[at]
		}
	}
	return master
}

// health returns the health of a replica, and checks it if that is too long ago.
func (p *partition) health(ctx context.Context, m *member) health {
	now := p.f.now()
	h := m.health.Load()
	switch {
	case h != nil && now-h.at < healthValid:
		return *h
	case h != nil && now-h.at < healthStale:
		if m.checking.CompareAndSwap(false, true) {
			p.f.background(func(ctx context.Context) { p.check(ctx, m) }, func() { m.checking.Store(false) })
		}
		return *h
	default:
		return p.check(ctx, m)
	}
}

// check asks the master for its offset, and then the replica. Each has half of
// ReplyTimeout, so that a master that hangs does not take the replica's time.
func (p *partition) check(ctx context.Context, m *member) health {
	next := health{at: p.f.now()}
	limit := time.Duration(p.v.replyTimeout) / 2
	master, unknown := p.master().replication(ctx, limit)
	r, err := m.replication(ctx, limit)
	if err == nil && r.Identity == p.identity() {
		next.synced = true
		next.linked = r.Linked && !r.Copying
	}
	if before := m.health.Load(); before != nil {
		next.caughtUp = before.caughtUp
	}
	if unknown == nil && next.linked && r.Offset >= master.End {
		next.caughtUp = next.at
	}
	if ctx.Err() == nil { // else the replica is not at fault
		m.health.Store(&next)
	}
	return next
}

// replication asks a member for its identity, and how far it is.
func (m *member) replication(ctx context.Context, limit time.Duration) (members.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	c, err := m.open(ctx)
	if err != nil {
		return members.Report{}, err
	}
	replies := c.DoMulti(ctx, c.B().Info().Section("replication").Build(), c.B().Get().Key(members.IdentityKey).Build())
	text, err := replies[0].ToString()
	r := members.ParseInfo(text)
	r.Identity, _ = replies[1].ToString()
	return r, err
}
