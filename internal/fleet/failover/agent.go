package failover

import (
	"context"
	"crypto/rand"
	"errors"
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
	// Interval is how often each member is probed. A master that is lost is noticed
	// after three reports. Defaults to 500 milliseconds.
	Interval time.Duration

	// Restored is called when a member is about to be the master of a partition that was
	// started again, perhaps with data of long ago, before anybody writes there. What it
	// returns is noted in the log. Defaults to doing nothing.
	Restored func(ctx context.Context, m *directory.Map, partition int, addr string) error

	// Logger is told what the agent does. Defaults to slog.Default().
	Logger *slog.Logger
}

// DefaultInterval is how often members are looked at.
const DefaultInterval = 500 * time.Millisecond

// How many reports in a row say that a member is down, or up again.
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
	known   atomic.Int64 // the highest epoch that it has seen a map have
	waits   atomic.Bool  // whether the directory has failed over a moment ago
}

// New returns an agent.
func New(dir directory.Directory, servers Servers, cfg Config) *Agent {
	if cfg.Interval == 0 {
		cfg.Interval = DefaultInterval
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Restored == nil {
		cfg.Restored = func(context.Context, *directory.Map, int, string) error { return nil }
	}
	return &Agent{dir: dir, servers: servers, cfg: cfg, name: rand.Text()[:12], watch: watch{members: map[string]*health{}}}
}

// leadIntervals is for how many rounds of reports an agent leads before it must say so
// again.
const leadIntervals = 6

// Run watches the fleet until ctx ends. It returns the cause of that.
func (a *Agent) Run(ctx context.Context) error {
	leading, resign := context.CancelFunc(func() {}), func() {}
	defer func() { leading(); resign() }()
	led := false
	var until time.Time // when it leads no more, unless it has said so again
	for {
		// The lease is renewed here, and nowhere does the loop wait for what a failover
		// does: that has goroutines of its own.
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
				// Somebody else may lead. If nobody does, it begins anew.
				leading()
				led = false
			}
		case leads && !led:
			a.cfg.Logger.InfoContext(ctx, "the agent leads", "agent", a.name)
			leading, resign = a.begin(ctx)
		case !leads && led:
			a.cfg.Logger.WarnContext(ctx, "another agent leads", "agent", a.name)
			leading()
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

// drain returns when nobody can write by a map that was replaced a moment ago, nor take
// a late reply for a success. Where the directory has just failed over, its server of
// before may have confirmed that map for a while.
func (a *Agent) drain(ctx context.Context, grace time.Duration) error {
	for rest := grace; rest > 0; {
		if !retry.Sleep(ctx, rest) {
			return context.Cause(ctx)
		}
		_, settled, err := a.dir.Lead(ctx, a.name, max(leadIntervals*a.cfg.Interval, grace))
		if err != nil {
			return err
		}
		rest = directory.SettleTime + grace - settled
	}
	return nil
}

// overdue returns by how much a time has passed, by whichever clock says more: that
// which a process counts by stands still while its machine is suspended, and the wall
// clock jumps when it is set.
func overdue(planned, now time.Time) time.Duration {
	return max(now.Sub(planned), now.Round(0).Sub(planned.Round(0)).Abs())
}

// begin does a leader's work until stop is called; resign lets another one lead at
// once, and is called after that.
func (a *Agent) begin(ctx context.Context) (stop context.CancelFunc, resign func()) {
	ctx, cancel := context.WithCancel(ctx)
	var working sync.WaitGroup
	working.Go(func() { a.work(ctx) })
	return cancel, func() {
		working.Wait()
		a.resign(ctx, a.cfg.Interval)
	}
}

// resign lets another agent lead at once, even if ctx has ended. If that fails, the
// leadership ends by itself.
func (a *Agent) resign(ctx context.Context, limit time.Duration) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	_, _, err := a.dir.Lead(ctx, a.name, 0)
	if err != nil {
		a.cfg.Logger.DebugContext(ctx, "the agent could not resign", "error", err)
	}
}

// work reports at all members again and again, and at each partition with what it
// saw.
func (a *Agent) work(ctx context.Context) {
	var busy sync.WaitGroup
	defer busy.Wait()
	reconcilers := map[int]*reconciler{}
	back := setback{a: a}
	planned := time.Now()
	for {
		if late := overdue(planned, time.Now()); late > max(2*time.Second, 4*a.cfg.Interval) {
			// This process stood still, or its clock jumped: what it remembers is old, and
			// what it is about to see may be its own trouble.
			a.cfg.Logger.WarnContext(ctx, "the agent was held up, and does nothing for a while", "for", late)
			a.watch.forget()
			if !retry.Sleep(ctx, 10*a.cfg.Interval) {
				return
			}
		}
		began := time.Now()
		m, err := a.confirm(ctx)
		if err == nil {
			a.watch.probe(ctx, a, m)
			if a.watch.cutOff(m) {
				a.watch.forgive()
			}
			partitions := m.Partitions
			if a.waits.Load() || back.mend(ctx, m) {
				partitions = nil // the next round reports at the map as it is then
			}
			for _, p := range partitions {
				one := reconcilers[p.ID]
				if one == nil {
					one = &reconciler{a: a, id: p.ID}
					reconcilers[p.ID] = one
				}
				if one.turn.TryLock() {
					busy.Go(func() {
						defer one.turn.Unlock()
						one.reconcile(ctx, m, p)
					})
				}
			}
		} else if ctx.Err() == nil {
			a.cfg.Logger.WarnContext(ctx, "the agent cannot read the map", "error", err)
		}
		// A member that is silent must not make the reports at it rarer.
		pause := max(a.cfg.Interval-time.Since(began), a.cfg.Interval/10)
		planned = time.Now().Add(pause)
		if !retry.Sleep(ctx, pause) {
			return
		}
	}
}

// confirm returns the map of now, from where it is changed.
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

// errOvertaken means that somebody else has gone on with a partition.
var errOvertaken = errors.New("another agent has gone on with the partition")

// change changes one partition in the map, if it still is as the caller needs it,
// and returns how it is then. Changes of other partitions in between do not matter.
func (a *Agent) change(ctx context.Context, id int, still func(directory.Partition) bool, change func(p *directory.Partition)) (*directory.Map, error) {
	for {
		m, err := a.confirm(ctx)
		if err != nil {
			return nil, err
		}
		if id >= len(m.Partitions) || !still(m.Partitions[id]) {
			return nil, errOvertaken
		}
		// Above all that is known of, so that no epoch is used twice even if the directory
		// has just gone back.
		next := m.Clone()
		next.Epoch = 1 + max(m.Epoch, a.known.Load(), a.watch.highest(m))
		p := &next.Partitions[id]
		was := p.Epoch
		if change(p); p.Epoch != was {
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

// note tells the log, and the directory's.
func (a *Agent) note(ctx context.Context, m *directory.Map, id int, what string) {
	a.cfg.Logger.InfoContext(ctx, what, "partition", id, "epoch", m.Epoch)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	// A log that cannot be written stops nothing.
	_ = a.dir.Note(ctx, directory.Event{Agent: a.name, Partition: id, Epoch: m.Epoch, What: what})
}
