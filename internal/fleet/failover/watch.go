package failover

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/members"
)

// watch is what an agent has seen of the members.
type watch struct {
	mu      sync.Mutex
	members map[string]*health
}

// health is what it has seen of one.
type health struct {
	report members.Report
	before members.Report // the look before that which was answered
	seen   bool           // whether the last look was answered
	missed int            // reports in a row that were not
	good   int            // reports in a row that were
	ahead  time.Duration  // by how much its clock is ahead of this process's
}

// look reports at all members at the same time.
func (w *watch) probe(ctx context.Context, a *Agent, m *directory.Map) {
	var looking sync.WaitGroup
	for _, p := range m.Partitions {
		for _, member := range p.Members() {
			looking.Go(func() {
				ctx, cancel := context.WithTimeout(ctx, a.cfg.Interval)
				defer cancel()
				l, err := a.servers.Probe(ctx, member.Addr)
				w.saw(member.Addr, l, err == nil)
			})
		}
	}
	looking.Wait()
}

func (w *watch) saw(addr string, l members.Report, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.members[addr]
	if h == nil {
		h = &health{}
		w.members[addr] = h
	}
	h.seen = ok
	if !ok {
		h.missed, h.good = h.missed+1, 0
		return
	}
	h.ahead = time.Until(l.Clock)
	h.before, h.report, h.missed, h.good = h.report, l, 0, h.good+1
}

// wholeAgain reports whether a replica that is linked has all that its master had a
// round ago, and was started before that: so it has also what it had confirmed, and
// lost when it was started.
func (h health) wholeAgain(master health) bool {
	r, m := h.report, master.report
	return h.before.Run == r.Run && master.before.Run == m.Run && r.History == m.History && r.Offset >= master.before.Offset
}

// of returns what was seen of a member.
func (w *watch) of(addr string) health {
	w.mu.Lock()
	defer w.mu.Unlock()
	if h := w.members[addr]; h != nil {
		return *h
	}
	return health{}
}

// time returns what time it is for most members: the clock of one machine may be wrong.
func (w *watch) time() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	var ahead []time.Duration
	for _, h := range w.members {
		if h.seen && !h.report.Clock.IsZero() {
			ahead = append(ahead, h.ahead)
		}
	}
	if len(ahead) == 0 {
		return time.Now()
	}
	slices.Sort(ahead)
	return time.Now().Add(ahead[len(ahead)/2])
}

// forget begins anew.
func (w *watch) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.members)
}

// forgive counts only the last look that was missed: those before say nothing of
// members to which the agent had no way.
func (w *watch) forgive() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range w.members {
		h.missed = min(h.missed, 1)
	}
}

// cutOff reports whether so many members are missing that it is more likely the
// agent that is cut off: more than half of all.
func (w *watch) cutOff(m *directory.Map) bool {
	missing, all := 0, 0
	for _, p := range m.Partitions {
		for _, member := range p.Members() {
			all++
			if w.of(member.Addr).missed > 0 {
				missing++
			}
		}
	}
	return 2*missing > all
}
