package failover

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/recovery"
	"github.com/millrace/millrace/internal/redis/retry"
)

// fleetwide carries out the decisions of grow and replaceDead, for all partitions together.
type fleetwide struct {
	busy sync.Mutex // held while it works

	growth
	waits wait
}

// run does all that can be done now.
func (g *fleetwide) run(ctx context.Context, a *Agent, m *directory.Map) {
	for ctx.Err() == nil {
		if now := announced(m); now != g.announced {
			g.growth = growth{announced: now, since: time.Now()}
		}
		next, waiting := grow(m, a.watch.of, g.growth, time.Now()), "the new partitions wait: "
		if next == nil {
			next, waiting = replaceDead(m, a.watch.of, a.cfg.Interval), "a member is not replaced: "
		}
		var err error
		switch do := next.(type) {
		case nil:
			g.waits = wait{}
			return
		case waits:
			g.waits.note(ctx, a, m, -1, waiting, do.why)
			return
		case look:
			if !retry.Sleep(ctx, do.after) {
				return
			}
			m, err = a.confirm(ctx)
		case changeMap:
			m, err = g.change(ctx, a, m, do)
		case raise:
			if err = g.raise(ctx, a, m); err == nil {
				g.raised = m.Epoch
			}
		}
		if err != nil {
			if ctx.Err() == nil && !errors.Is(err, directory.ErrConflict) && !errors.Is(err, errBehind) {
				a.cfg.Logger.WarnContext(ctx, "new partitions cannot be opened yet, and that is tried again", "error", err)
			}
			return // the next round has the map as it is then
		}
	}
}

// change changes the map, by exactly one epoch: the floor relies on that.
func (g *fleetwide) change(ctx context.Context, a *Agent, m *directory.Map, c changeMap) (*directory.Map, error) {
	if behind(m, a.newest.Load()) || a.watch.highest(m, recovery.Ahead) > m.Epoch {
		return nil, errBehind
	}
	next := m.Next()
	c.edit(next)
	if err := a.dir.Change(ctx, m.Epoch, next); err != nil {
		return nil, err
	}
	a.learn(next)
	if c.say != "" {
		a.note(ctx, next, c.of, c.say)
	}
	return next, nil
}

// raise raises the floor on all masters at the same time. Meanwhile no tag is placed.
func (g *fleetwide) raise(ctx context.Context, a *Agent, m *directory.Map) error {
	ctx, cancel := context.WithTimeout(ctx, max(time.Second, a.cfg.Interval))
	defer cancel()
	errs := make([]error, len(m.Partitions))
	var raising sync.WaitGroup
	for i, p := range m.Partitions {
		raising.Go(func() {
			if err := a.servers.Raise(ctx, p.Master.Addr, m.Fleet, i, m.Floor, len(p.Replicas) > 0); err != nil {
				errs[i] = fmt.Errorf("the floor of partition %d cannot be raised: %w", i, err)
			}
		})
	}
	raising.Wait()
	return errors.Join(errs...)
}
