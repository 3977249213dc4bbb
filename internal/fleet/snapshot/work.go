package snapshot

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
)

// plan decides what is saved.
type plan struct {
	pause       time.Duration             // between two checks for what is due
	due         func(s view) []int        // the partitions to save, the most urgent first
	wanted      func(s view, id int) bool // whether one is still due when its turn comes
	done        func(o outcome) bool      // receives each result; false ends the work
	unreachable func(err error) bool      // receives errors of the directory; false ends the work
}

// outcome is the result of an attempt.
type outcome struct {
	began  time.Time
	result directory.Snapshot // with times by this process's clock
	err    error              // errBusy if nothing was tried
}

// work is one call of Run or Now.
type work struct {
	k    *Keeper
	plan plan
	pool pool

	working  sync.WaitGroup
	outcomes chan outcome
	busy     map[int]string // by partition the node on which an attempt runs
	noMap    string         // why the archive has no copy of the map, as last logged
}

// work takes snapshots by the plan until the plan or ctx ends it.
func (k *Keeper) work(ctx context.Context, p plan) error {
	ctx, cancel := context.WithCancel(ctx)
	w := &work{k: k, plan: p, pool: newPool(k.cfg.Option), outcomes: make(chan outcome), busy: map[int]string{}}
	defer func() {
		cancel()
		w.working.Wait()
		w.pool.Close()
	}()
	for ctx.Err() == nil {
		s, err := k.load(ctx)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			if !p.unreachable(err) {
				return nil
			}
		default:
			w.archiveMap(ctx, s.m)
			for _, id := range p.due(s) {
				w.begin(ctx, s, s.m.Partitions[id])
			}
		}
		if !w.wait(ctx) {
			return nil
		}
	}
	return context.Cause(ctx)
}

// begin begins an attempt, unless one runs for this partition or on the node.
func (w *work) begin(ctx context.Context, s view, p directory.Partition) {
	if _, busy := w.busy[p.ID]; busy {
		return
	}
	began := time.Now()
	member, err := w.choose(ctx, s.m, p)
	attempt := func() outcome { return w.attempt(ctx, p, member) }
	if err != nil {
		attempt = func() outcome {
			failed := directory.Snapshot{Failed: directory.Failed{At: began}}
			return outcome{began: began, result: failed, err: err}
		}
	} else if slices.Contains(slices.Collect(maps.Values(w.busy)), member.Machine()) {
		return
	}
	w.busy[p.ID] = member.Machine()
	w.working.Go(func() {
		o := attempt()
		o.result.Partition = p.ID
		w.report(ctx, s, &o)
		select {
		case w.outcomes <- o:
		case <-ctx.Done():
		}
	})
}

// wait waits until there may be something to begin, and reports whether to continue.
func (w *work) wait(ctx context.Context) bool {
	again := time.NewTimer(w.plan.pause)
	defer again.Stop()
	for {
		select {
		case o := <-w.outcomes:
			delete(w.busy, o.result.Partition)
			if !errors.Is(o.err, errBusy) { // which it would be again at once
				return w.plan.done(o)
			}
		case <-again.C:
			return true
		case <-ctx.Done():
			return true
		}
	}
}
