package failover

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/retry"
	"github.com/millrace/millrace/internal/script"
)

// Config says how an agent works. The zero value works.
type Config struct {
	// Interval is the interval of probes of each member. Three missed probes mean that it
	// is down. Defaults to 500 milliseconds.
	Interval time.Duration

	// Restored is called when the new master of a partition was restarted, perhaps with
	// old data, before clients write there. Its error goes to the log. Defaults to doing
	// nothing.
	Restored func(ctx context.Context, m *directory.Map, partition int, addr string) error

	// Keep receives the present map at each interval while the agent leads, to keep copies
	// of it. It must return at once. Defaults to doing nothing.
	Keep func(m *directory.Map)

	// Logger logs what the agent does. Defaults to slog.Default().
	Logger *slog.Logger
}

// How many probes in a row say that a member is down, or up again.
const (
	misses  = 3
	returns = 3
)

// Agent watches a fleet and replaces masters. Several may run; one of them leads.
type Agent struct {
	dir     directory.Directory
	servers Servers
	cfg     Config
	name    string
	watch   watch
	beats   beats
	present atomic.Pointer[directory.Map] // at the last interval
	known   atomic.Int64                  // the highest epoch of a map that it has seen
	waits   atomic.Bool                   // whether the directory has failed over a moment ago
}

// New returns an agent.
func New(dir directory.Directory, servers Servers, cfg Config) *Agent {
	if cfg.Interval == 0 {
		cfg.Interval = 500 * time.Millisecond
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Restored == nil {
		cfg.Restored = func(context.Context, *directory.Map, int, string) error { return nil }
	}
	if cfg.Keep == nil {
		cfg.Keep = func(*directory.Map) {}
	}
	return &Agent{dir: dir, servers: servers, cfg: cfg, name: rand.Text()[:12], watch: watch{members: map[string]*health{}}, beats: beats{newest: directory.Beats{}}}
}

// leadIntervals is how many intervals the lease of the leader lasts.
const leadIntervals = 6

// Run watches the fleet until ctx ends, and returns the cause. It renews the lease of the
// leader. Failovers have goroutines of their own, so they never delay a renewal.
func (a *Agent) Run(ctx context.Context) error {
	stop := func() {}
	var work sync.WaitGroup
	led := false
	defer func() {
		stop()
		work.Wait()
		if led {
			a.resign(ctx, a.cfg.Interval)
		}
	}()
	var until time.Time // when the lease ends
	for {
		asked := time.Now()
		leads, err := a.lead(ctx)
		if leads {
			until = asked.Add(leadIntervals * a.cfg.Interval)
		}
		switch {
		case ctx.Err() != nil:
		case err != nil:
			a.cfg.Logger.WarnContext(ctx, "the agent cannot ask the directory", "error", err)
			if led && time.Now().After(until) {
				stop() // another agent may lead
				led = false
			}
		case leads && !led:
			a.cfg.Logger.InfoContext(ctx, "the agent leads", "agent", a.name)
			leading, cancel := context.WithCancel(ctx)
			stop = cancel
			work.Go(func() { a.work(leading) })
		case !leads && led:
			a.cfg.Logger.WarnContext(ctx, "another agent leads", "agent", a.name)
			stop()
		}
		led = leads || err != nil && led
		if !retry.Sleep(ctx, a.cfg.Interval) {
			return context.Cause(ctx)
		}
	}
}

func (a *Agent) lead(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, leadIntervals*a.cfg.Interval/2)
	defer cancel()
	leads, settled, err := a.dir.Lead(ctx, a.name, leadIntervals*a.cfg.Interval)
	if err == nil {
		a.waits.Store(settled < directory.SettleTime)
	}
	return leads, err
}

// resign lets another agent lead at once, even if ctx has ended. If that fails, the lease
// expires.
func (a *Agent) resign(ctx context.Context, timeout time.Duration) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	if _, _, err := a.dir.Lead(ctx, a.name, 0); err != nil {
		a.cfg.Logger.DebugContext(ctx, "the agent could not resign", "error", err)
	}
}

// overdue returns by how much a time has passed, by the clock that says more: the
// monotonic clock stops while the machine is suspended, and the wall clock jumps when it
// is set.
func overdue(planned, now time.Time) time.Duration {
	return max(now.Sub(planned), now.Round(0).Sub(planned.Round(0)).Abs())
}

// work probes all members at an interval, and reconciles each partition with the result.
func (a *Agent) work(ctx context.Context) {
	var busy sync.WaitGroup
	reconcilers := map[int]*reconciler{}
	defer func() {
		busy.Wait()
		for _, r := range reconcilers {
			r.endTurn()
			r.endCopy()
		}
	}()
	beating, stop := context.WithCancel(ctx)
	defer stop()
	busy.Go(func() { a.beat(beating) })
	raised := false // whether this leader has raised the epoch, see recoverMap
	planned := time.Now()
	for {
		if late := overdue(planned, time.Now()); late > max(2*time.Second, 4*a.cfg.Interval) {
			// Earlier probes are too old, and the next ones may fail by the agent's own fault.
			a.cfg.Logger.WarnContext(ctx, "the agent was suspended, and does nothing for a while", "for", late)
			a.watch.forget()
			if !retry.Sleep(ctx, 10*a.cfg.Interval) {
				return
			}
		}
		began := time.Now()
		m, err := a.confirm(ctx)
		if err == nil {
			a.watch.probe(ctx, a, m)
			a.watch.learn(&a.beats, m)
			a.present.Store(m)
			if a.watch.cutOff(m) {
				a.watch.forgive()
			}
			partitions := m.Partitions
			if a.waits.Load() || a.recoverMap(ctx, m, &raised) {
				partitions = nil // the next round has the new map
			} else {
				a.cfg.Keep(m)
			}
			for _, p := range partitions {
				r := reconcilers[p.ID]
				if r == nil {
					r = &reconciler{a: a, id: p.ID}
					reconcilers[p.ID] = r
				}
				if r.busy.TryLock() {
					busy.Go(func() {
						defer r.busy.Unlock()
						r.reconcile(ctx, m, p)
					})
				}
			}
		} else if a.present.Store(nil); ctx.Err() == nil {
			a.cfg.Logger.WarnContext(ctx, "the agent cannot read the map", "error", err)
		}
		// A silent member must not make probes rarer.
		pause := max(a.cfg.Interval-time.Since(began), a.cfg.Interval/10)
		planned = time.Now().Add(pause)
		if !retry.Sleep(ctx, pause) {
			return
		}
	}
}

// ahead is how far members are ahead of the map if nothing is wrong: between a promotion
// and its map, or while partitions are added.
const ahead = 2

// recoverMap repairs a directory that has lost its newest maps: it was restored from an old
// file, or its new master had not received them. Clients refuse a map that is older than
// theirs. So if the agent or members know a higher epoch, recoverMap stores the map with an
// epoch above that. The map may name former masters, so all partitions become read-only,
// and elect anew.
//
// Clients may know a map that no member knows. So a new leader raises the epoch in any
// case, to the time of day by most members' clocks: no earlier map has reached that.
//
// It reports whether the map has changed, or could not be changed.
func (a *Agent) recoverMap(ctx context.Context, m *directory.Map, raised *bool) bool {
	known := max(a.known.Load(), a.watch.highest(m)-ahead)
	if known <= m.Epoch && *raised {
		return false
	}
	m, err := a.confirm(ctx) // it may have changed since the probes
	if err != nil {
		return true
	}
	epoch := max(known+1, m.Epoch+1, a.watch.time().UnixMilli())
	lost := known > m.Epoch
	next := m.Clone()
	if next.Epoch = epoch; lost {
		next = m.ElectAnew(epoch)
	}
	if err := a.dir.Change(ctx, m.Epoch, next); err != nil {
		return true
	}
	*raised = true
	a.learn(next.Epoch)
	if lost {
		a.note(ctx, next, -1, fmt.Sprintf("the directory had gone back to epoch %d from epoch %d: all partitions elect anew", m.Epoch, known))
	}
	return true
}

// confirm returns the present map.
func (a *Agent) confirm(ctx context.Context) (*directory.Map, error) {
	ctx, cancel := script.Within(ctx, 2*time.Second)
	defer cancel()
	m, err := a.dir.Confirm(ctx, 0)
	if err == nil {
		a.learn(m.Epoch)
	}
	return m, err
}

// learn remembers an epoch that a map has had.
func (a *Agent) learn(epoch int64) {
	for known := a.known.Load(); epoch > known && !a.known.CompareAndSwap(known, epoch); known = a.known.Load() {
	}
}

// errOvertaken means that a partition has another epoch by now.
var errOvertaken = errors.New("another agent has changed the partition")

// change changes a partition in the map if it still has the epoch that the caller saw,
// and returns the new map. Changes of other partitions meanwhile do not matter. If edit
// changes the partition's epoch, it becomes that of the map.
func (a *Agent) change(ctx context.Context, seen directory.Partition, edit func(p *directory.Partition)) (*directory.Map, error) {
	for {
		m, err := a.confirm(ctx)
		if err != nil {
			return nil, err
		}
		if seen.ID >= len(m.Partitions) || m.Partitions[seen.ID].Epoch != seen.Epoch {
			return nil, errOvertaken
		}
		// It is above all known epochs, so that none is used twice even if the directory has
		// just lost maps.
		next := m.Clone()
		next.Epoch = 1 + max(m.Epoch, a.known.Load(), a.watch.highest(m))
		p := &next.Partitions[seen.ID]
		if edit(p); p.Epoch != seen.Epoch {
			p.Epoch = next.Epoch
		}
		err = a.dir.Change(ctx, m.Epoch, next)
		if err == nil || errors.Is(err, directory.ErrUnconfirmed) {
			a.learn(next.Epoch)
			return next, nil
		}
		if !errors.Is(err, directory.ErrConflict) {
			return nil, err
		}
	}
}

// note writes to the agent's log and to the directory's.
func (a *Agent) note(ctx context.Context, m *directory.Map, id int, what string) {
	a.cfg.Logger.InfoContext(ctx, what, "partition", id, "epoch", m.Epoch)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = a.dir.Note(ctx, directory.Event{Agent: a.name, Partition: id, Epoch: m.Epoch, What: what}) // it stops nothing if the log cannot be written
}
