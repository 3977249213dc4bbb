package snapshot

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
)

// work is one call of Run or Now.
type work struct {
	k    *Keeper
	pool pool

	working  sync.WaitGroup
	outcomes chan outcome
	busy     map[int]string // by partition the node on which an attempt runs
	noMap    string         // why the archive has no copy of the map, as last logged
}

// outcome is the result of an attempt.
type outcome struct {
	result directory.Snapshot // with times by this process's clock; finished steps, also if the rest failed
	err    error              // errBusy if nothing was tried
}

// work takes snapshots, and yields the results, until the caller has enough or ctx ends. It
// looks for partitions to save, the most urgent first, whenever one is done, and after the
// pause. Errors of the directory come with the zero Snapshot.
func (k *Keeper) work(ctx context.Context, pause time.Duration, due func(s view) []int) iter.Seq2[directory.Snapshot, error] {
	return func(yield func(directory.Snapshot, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		w := &work{k: k, pool: newPool(k.cfg.Option), outcomes: make(chan outcome), busy: map[int]string{}}
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
				if !yield(directory.Snapshot{}, err) {
					return
				}
			default:
				w.archiveMap(ctx, s.m)
				for _, id := range due(s) {
					if id < len(s.m.Partitions) { // else the directory has lost the map that has it
						w.begin(ctx, s, s.m.Partitions[id])
					}
				}
			}
			if !w.wait(ctx, pause, yield) {
				return
			}
		}
	}
}

// begin begins an attempt, unless one runs for this partition or on the node.
func (w *work) begin(ctx context.Context, s view, p directory.Partition) {
	if _, busy := w.busy[p.ID]; busy {
		return
	}
	o := outcome{result: directory.Snapshot{Partition: p.ID, Failed: directory.Failed{At: time.Now()}}}
	member, err := w.choose(ctx, s, p)
	if err == nil && slices.Contains(slices.Collect(maps.Values(w.busy)), member.Machine()) {
		return
	}
	w.busy[p.ID] = member.Machine()
	w.working.Go(func() {
		if o.err = err; err == nil {
			o.err = w.attempt(ctx, s, p, member, &o.result)
		}
		w.report(ctx, s, &o)
		select {
		case w.outcomes <- o:
		case <-ctx.Done():
		}
	})
}

// wait waits until there may be something to begin, and reports whether to continue.
func (w *work) wait(ctx context.Context, pause time.Duration, yield func(directory.Snapshot, error) bool) bool {
	again := time.After(pause)
	for {
		select {
		case o := <-w.outcomes:
			delete(w.busy, o.result.Partition)
			if !errors.Is(o.err, errBusy) { // which it would be again at once
				return yield(o.result, o.err)
			}
		case <-again:
			return true
		case <-ctx.Done():
			return true
		}
	}
}
