package failover

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/members"
)

// watch has the results of probes by address.
type watch struct {
	mu      sync.Mutex
	members map[string]*health
}

// health is the result of the probes of one member.
type health struct {
	report members.Report
	before members.Report // of the answered probe before that
	at     time.Time      // when the last answered probe began
	seen   bool           // whether the last probe was answered
	missed int            // probes in a row that were not answered
	good   int            // probes in a row that were answered
	boot   string         // how it came back from a restart that was seen: as Member.Boot
}

// probe probes all members in parallel, those that join or leave, and the spares.
func (w *watch) probe(ctx context.Context, a *Agent, m *directory.Map) {
	var addrs []string
	for _, p := range m.Partitions {
		addrs = append(addrs, concerned(p)...)
	}
	for _, spare := range m.Spares {
		addrs = append(addrs, spare.Addr)
	}
	var probes sync.WaitGroup
	for _, addr := range addrs {
		probes.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, a.cfg.Interval)
			defer cancel()
			began := time.Now()
			report, err := a.servers.Probe(ctx, addr)
			w.saw(addr, began, report, err == nil)
		})
	}
	probes.Wait()
}

// concerned returns the addresses of all that counts in a partition, and of the member that joins.
func concerned(p directory.Partition) (addrs []string) {
	for _, m := range voters(p) {
		addrs = append(addrs, m.Addr)
	}
	if p.Task != nil && p.Task.Add != nil {
		addrs = append(addrs, p.Task.Add.Addr)
	}
	return addrs
}

// look probes the members of a partition that answered the last probe. It counts no misses: those are for the interval.
func (w *watch) look(ctx context.Context, a *Agent, p directory.Partition) {
	var probes sync.WaitGroup
	for _, addr := range concerned(p) {
		if !w.of(addr).seen {
			continue
		}
		probes.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, a.cfg.Interval)
			defer cancel()
			began := time.Now()
			report, err := a.servers.Probe(ctx, addr)
			w.mu.Lock()
			defer w.mu.Unlock()
			if h := w.members[addr]; h != nil && !h.at.After(began) {
				if h.seen = err == nil; h.seen {
					h.restarted(report)
					h.at, h.report = began, report
				}
			}
		})
	}
	probes.Wait()
}

func (w *watch) saw(addr string, began time.Time, report members.Report, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.members[addr]
	if h == nil {
		h = &health{}
		w.members[addr] = h
	}
	if h.seen = ok; !ok {
		h.missed, h.good = h.missed+1, 0
		return
	}
	h.restarted(report)
	h.at, h.before, h.report, h.missed, h.good = began, h.report, report, 0, h.good+1
}

// restarted notes how a member came back, if it was restarted since the last report.
func (h *health) restarted(report members.Report) {
	if h.report.Run != "" && h.report.Run != report.Run {
		h.boot = directory.BootOpen
		if !report.Master && report.Follows == net.JoinHostPort(members.FenceHost, members.FencePort) {
			h.boot = directory.BootFenced
		}
	}
}

// wholeAgain reports whether a linked replica has all that its master had one probe ago,
// and was restarted before that: then it has again all that it had confirmed.
func (h health) wholeAgain(master health) bool {
	r, m := h.report, master.report
	return h.before.Run == r.Run && master.before.Run == m.Run && r.History == m.History && r.Offset >= master.before.Offset
}

// elsewhere reports whether a server belonged to another partition or fleet when it was
// probed: the map is older than that, and agents leave the server alone.
func (h health) elsewhere(fleet string, id int) bool { return h.seen && elsewhere(h.report, fleet, id) }

func elsewhere(report members.Report, fleet string, id int) bool {
	return report.Identity != "" && report.Identity != members.Identity(fleet, id)
}

// isLoading reports whether a member takes no writes and is to load the file that a person has chosen.
func (h health) isLoading(p directory.Partition, m directory.Member) bool {
	return p.RestoreHistory != "" && m.Addr == p.Restore && h.seen && !h.report.Master && h.report.History != p.RestoreHistory
}

// of returns the health of a member.
func (w *watch) of(addr string) health {
	w.mu.Lock()
	defer w.mu.Unlock()
	if h := w.members[addr]; h != nil {
		return *h
	}
	return health{}
}

// seen returns the health of the members on which a step in a partition depends: on all of the fleet for a restart, else on
// its own.
func (w *watch) seen(p directory.Partition) map[string]health {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := map[string]health{}
	if p.Task != nil && len(p.Task.Restart) > 0 {
		for addr, h := range w.members {
			all[addr] = *h
		}
	}
	for _, addr := range concerned(p) {
		if h := w.members[addr]; h != nil {
			all[addr] = *h
		}
	}
	return all
}

// forget drops all results.
func (w *watch) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.members)
}

// forgive counts only the last missed probe of each member: the agent itself was cut off.
func (w *watch) forgive() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range w.members {
		h.missed = min(h.missed, 1)
	}
}

// cutOff reports whether more than half of the members that are up by the map missed the last
// probe: then it is more likely that the agent is cut off.
func (w *watch) cutOff(m *directory.Map) bool {
	missing, all := w.silent(m)
	return 2*len(missing) > all
}

// silent returns the members that missed the last probe, of those that are up by the map, and
// how many these are.
func (w *watch) silent(m *directory.Map) (missing []string, all int) {
	for _, p := range m.Partitions {
		for _, member := range p.Members() {
			if member.Down {
				continue
			}
			if all++; w.of(member.Addr).missed > 0 {
				missing = append(missing, member.Addr)
			}
		}
	}
	return missing, all
}

// learn notes the beats that members have.
func (w *watch) learn(b *beats, m *directory.Map) {
	for _, p := range m.Partitions {
		for _, member := range voters(p) {
			if h := w.of(member.Addr); h.seen && h.report.Identity == members.Identity(m.Fleet, p.ID) {
				b.saw(p.ID, h.report.Beat)
			}
		}
	}
}

// highest returns the highest epoch that a member of the fleet has stored. By ahead a floor may
// be above all maps.
func (w *watch) highest(m *directory.Map, ahead int64) (epoch int64) {
	for _, p := range m.Partitions {
		for _, member := range voters(p) {
			if h := w.of(member.Addr); h.seen && h.report.Identity == members.Identity(m.Fleet, p.ID) {
				epoch = max(epoch, h.report.Floor-ahead, h.report.Copy)
			}
		}
	}
	return epoch
}
