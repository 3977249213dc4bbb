package failover

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/recovery"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/redis/script"
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

	// Archive is the folder of the snapshots, which has a copy of the map. Defaults to none.
	Archive string

	// Logger gets the agent's log. Defaults to slog.Default().
	Logger *slog.Logger
}

// How many probes in a row say that a member is down, or up again.
const (
	misses  = 3
	returns = 3
)

// Agent watches a fleet and replaces masters. Several may run; one of them leads.
type Agent struct {
	dir     *directory.Directory
	servers Servers
	cfg     Config
	name    string
	watch   watch
	beats   beats
	present atomic.Pointer[directory.Map] // at the last interval
	newest  atomic.Pointer[directory.Map] // that it has seen in the directory
}

// New returns an agent.
func New(dir *directory.Directory, servers Servers, cfg Config) *Agent {
	if cfg.Interval == 0 {
		cfg.Interval = 500 * time.Millisecond
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Restored == nil {
		cfg.Restored = func(context.Context, *directory.Map, int, string) error { return nil }
	}
	a := &Agent{dir: dir, servers: servers, cfg: cfg, name: rand.Text()[:12], watch: watch{members: map[string]*health{}}, beats: beats{newest: directory.Beats{}}}
	a.newest.Store(&directory.Map{})
	return a
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
	return a.dir.Lead(ctx, a.name, leadIntervals*a.cfg.Interval)
}

// resign lets another agent lead at once, even if ctx has ended. If that fails, the lease
// expires.
func (a *Agent) resign(ctx context.Context, timeout time.Duration) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	if _, err := a.dir.Lead(ctx, a.name, 0); err != nil {
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
	var s standing
	var copying copies
	var whole fleetwide
	planned := time.Now()
	for {
		if late := overdue(planned, time.Now()); late > max(2*time.Second, 4*a.cfg.Interval) {
			// Earlier probes are too old, and the next ones may fail by the agent's own fault.
			a.cfg.Logger.WarnContext(ctx, "the agent was suspended, and does nothing for a while", "for", late)
			a.watch.forget()
			s.raised = false // the directory may have lost maps meanwhile
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
			a.noteCutOff(ctx, m, &s)
			partitions := m.Partitions
			if a.recoverMap(ctx, m, &s) {
				partitions = nil // the next round has the new map
			} else {
				alone(&busy, &copying.busy, func() { copying.keep(ctx, a, m) })
				alone(&busy, &whole.busy, func() { whole.run(ctx, a, m) })
			}
			for _, p := range partitions {
				r := reconcilers[p.ID]
				if r == nil {
					r = &reconciler{a: a, id: p.ID}
					reconcilers[p.ID] = r
				}
				alone(&busy, &r.busy, func() { r.reconcile(ctx, m, p) })
			}
		} else {
			a.present.Store(nil)
			s.raised = false // the directory may be another one when it answers
			if ctx.Err() == nil {
				a.cfg.Logger.WarnContext(ctx, "the agent cannot read the map", "error", err)
			}
		}
		// A silent member must not make probes rarer.
		pause := max(a.cfg.Interval-time.Since(began), a.cfg.Interval/10)
		planned = time.Now().Add(pause)
		if !retry.Sleep(ctx, pause) {
			return
		}
	}
}

// alone does something in a goroutine of a group, unless it is still being done.
func alone(group *sync.WaitGroup, busy *sync.Mutex, do func()) {
	if busy.TryLock() {
		group.Go(func() {
			defer busy.Unlock()
			do()
		})
	}
}

// standing is a leader's view of the directory.
type standing struct {
	raised  bool      // whether it has asked all members, and raised the epoch
	stopped string    // why it changes nothing, as last noted
	again   time.Time // when it asks members again, if it has stopped
	cutOff  wait      // since more than half of the members are silent
}

// noteCutOff notes in the log that most members are silent, and so no master is replaced, and the
// end of that.
func (a *Agent) noteCutOff(ctx context.Context, m *directory.Map, s *standing) {
	if a.watch.cutOff(m) {
		s.cutOff.note(ctx, a, m, -1, directory.Stopped, "more than half of the members do not answer the agent, and the fault may be its own. No data is lost by that, and nothing is written where a master is missing. See with millrace fleet show which ones are down, and start them. If they are gone for good: millrace fleet failover --force")
		return
	}
	if s.cutOff.noted {
		a.note(ctx, m, -1, "the agents go on")
	}
	s.cutOff = wait{}
}

// recoverMap repairs a directory that has lost its newest maps: it was restored from an old
// file. A new leader asks all members for their copies before it changes anything. Later it
// does so when it knows a newer map itself, or sees in a probe that a member does. The newest map wins, with an epoch above all that are
// known: clients refuse a map that is older than theirs. See package recovery.
//
// Clients may know a map that no member knows. So a new leader raises the epoch in any
// case, to the time of day by most members' clocks: no earlier map has reached that.
//
// If the newest map cannot be told, or lacks a partition, the agent changes nothing. Nor does it
// while more than half of the members are silent, unless a person has decided for a partition.
//
// It reports whether the map has changed, or could not be changed.
func (a *Agent) recoverMap(ctx context.Context, m *directory.Map, s *standing) bool {
	newest, held := a.newest.Load(), a.watch.highest(m, recovery.Ahead)
	if s.raised && s.stopped == "" {
		if held <= m.Epoch && !behind(m, newest) {
			return false
		}
		if now, err := a.confirm(ctx); err != nil || held <= now.Epoch && !behind(now, newest) {
			return true // it has changed since it was read
		}
	}
	if time.Now().Before(s.again) {
		return true
	}
	found, err := recovery.Find(ctx, recovery.Config{
		Servers: a.servers, Directory: a.dir, Maps: []*directory.Map{m, newest}, Archive: a.cfg.Archive, Timeout: a.cfg.Interval,
	})
	switch {
	case errors.Is(err, recovery.ErrForked), errors.Is(err, recovery.ErrIncomplete), errors.Is(err, directory.ErrVersion):
		if s.again = time.Now().Add(10 * a.cfg.Interval); err.Error() != s.stopped {
			s.stopped = err.Error()
			a.note(ctx, m, -1, directory.Stopped+explain(err))
		}
		return true
	case err != nil, found.Silent && !slices.ContainsFunc(m.Partitions, func(p directory.Partition) bool { return p.Restore != "" }):
		return true
	}
	if s.stopped != "" || !s.raised && a.stopped(ctx) {
		s.stopped = ""
		a.note(ctx, m, -1, "the agents go on")
	}
	next := found.Map
	if found.Behind {
		err = found.Store(ctx, a.name)
	} else {
		next = found.Present.Next()
		next.Epoch = found.Map.Epoch
		err = a.dir.Change(ctx, found.Present.Epoch, next)
	}
	if err != nil {
		return true
	}
	s.raised = true
	a.learn(next)
	return true
}

// stopped reports whether the log says that agents change nothing.
func (a *Agent) stopped(ctx context.Context) bool {
	ctx, cancel := script.Within(ctx, 2*time.Second)
	defer cancel()
	events, _ := a.dir.Events(ctx) // without a log there is nothing to correct
	i := slices.IndexFunc(events, func(e directory.Event) bool { return e.Partition == -1 })
	return i >= 0 && strings.HasPrefix(events[i].What, directory.Stopped)
}

// explain returns an error with its hint, for the log.
func explain(err error) string {
	if known, ok := errors.AsType[*millrace.Error](err); ok && known.Hint != "" {
		return err.Error() + ". " + known.Hint
	}
	return err.Error()
}

// confirm returns the present map.
func (a *Agent) confirm(ctx context.Context) (*directory.Map, error) {
	ctx, cancel := script.Within(ctx, 2*time.Second)
	defer cancel()
	m, err := a.dir.Confirm(ctx, 0)
	if err == nil {
		a.learn(m)
	}
	return m, err
}

// behind reports whether a map is older than one that the directory had, or another one of the
// same epoch.
func behind(m, known *directory.Map) bool {
	return m.Fleet == known.Fleet && (m.Epoch < known.Epoch || m.Epoch == known.Epoch && m != known && m.ID() != known.ID())
}

// learn remembers a map that the directory has had, if it is the newest one of its fleet.
func (a *Agent) learn(m *directory.Map) {
	for known := a.newest.Load(); m != known && (known.Epoch <= m.Epoch || known.Fleet != m.Fleet) && !behind(m, known); known = a.newest.Load() {
		if a.newest.CompareAndSwap(known, m) {
			return
		}
	}
}

// errOvertaken means that a partition has another epoch by now.
var errOvertaken = errors.New("another agent has changed the partition")

// errBehind means that the directory has lost maps.
var errBehind = errors.New("the directory has an older map than before")

// change changes a partition in the map if it still has the epoch that the caller saw,
// and returns the new map. Changes of other partitions meanwhile do not matter. If edit
// changes the partition's epoch, it becomes that of the map.
func (a *Agent) change(ctx context.Context, seen directory.Partition, edit func(p *directory.Partition)) (*directory.Map, error) {
	for {
		known := a.newest.Load()
		m, err := a.confirm(ctx)
		if err != nil {
			return nil, err
		}
		if behind(m, known) {
			return nil, errBehind // recoverMap repairs it before anything is changed
		}
		if seen.ID >= len(m.Partitions) || m.Partitions[seen.ID].Epoch != seen.Epoch {
			return nil, errOvertaken
		}
		// It is above all known epochs, so that none is used twice even if the directory has
		// just lost maps.
		next := m.Next()
		next.Epoch = 1 + max(m.Epoch, a.newest.Load().Epoch, a.watch.highest(m, 0))
		p := &next.Partitions[seen.ID]
		if edit(p); p.Epoch != seen.Epoch {
			p.Epoch = next.Epoch
		}
		err = a.dir.Change(ctx, m.Epoch, next)
		if err == nil {
			a.learn(next)
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
