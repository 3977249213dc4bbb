package snapshot

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/retry"
)

// attempt saves a member when it is its node's turn, and archives the snapshot. The outcome
// has what was done, also if the rest failed. Its error is errBusy if nothing was tried.
func (w *work) attempt(ctx context.Context, p directory.Partition, member directory.Member) (o outcome) {
	node := member.Machine()
	end, err := directory.TakeTurn(ctx, w.k.dir, member)
	if err != nil {
		o.err = errBusy
		return o
	}
	defer end()
	// Others may have saved the partition while this call waited.
	s, err := w.k.load(ctx)
	if err != nil || !w.plan.wanted(s, p.ID) || s.m.Partitions[p.ID].Epoch != p.Epoch || w.forking(ctx, s.m, node) {
		o.err = errBusy
		return o
	}
	o.began = time.Now()
	o.result.Failed = directory.Failed{At: o.began, Addr: member.Addr}
	o.err = w.save(ctx, s, p, member, &o)
	return o
}

// save saves a member and archives the snapshot.
func (w *work) save(ctx context.Context, s view, p directory.Partition, member directory.Member, o *outcome) error {
	at := o.began.UTC()
	before, err := w.inStep(ctx, s.m, p, member)
	if err != nil {
		return err
	}
	fetch, err := w.ask(ctx, archiveName{s.m.Fleet, p.ID, at}, member.Addr, before)
	if err != nil {
		return err
	}
	defer fetch.close()
	after, err := w.await(ctx, member.Addr, before)
	if err != nil {
		return err
	}
	o.result.Saved = directory.Saved{
		At: at, Addr: member.Addr, Node: member.Node, Took: time.Since(o.began), Memory: before.Memory, Copied: after.Copied,
	}
	o.result.Archived, err = fetch.finish(ctx, at)
	return err
}

// forking reports whether a server of a node forks by itself, or copies all of its master's
// data, without a turn.
func (w *work) forking(ctx context.Context, m *directory.Map, node string) bool {
	var found atomic.Bool
	var probing sync.WaitGroup
	for _, p := range m.Partitions {
		for _, member := range p.Members() {
			if member.Machine() != node || member.Down {
				continue
			}
			probing.Go(func() {
				l, err := w.pool.probe(ctx, member.Addr)
				if err == nil && (l.Saving || l.Forked || l.Copying) {
					found.Store(true)
				}
			})
		}
	}
	probing.Wait()
	return found.Load()
}

// await waits until a member has completed a snapshot that began after the report before.
func (w *work) await(ctx context.Context, addr string, before members.Report) (members.Report, error) {
	heard := time.Now()
	for try := 1; ; try++ {
		if !retry.Sleep(ctx, pace.Pause(try)) {
			return members.Report{}, context.Cause(ctx)
		}
		l, err := w.pool.probe(ctx, addr)
		switch {
		case err != nil && time.Since(heard) < w.k.silence:
			continue
		case err != nil:
			return members.Report{}, ErrFailed.Errorf("%s has not answered for %v while it saved", addr, w.k.silence).Wrap(err)
		case l.Run != before.Run:
			return members.Report{}, ErrFailed.Errorf("%s was restarted while it saved", addr)
		case l.Saving:
			heard = time.Now()
		case !l.SaveOK:
			return members.Report{}, ErrFailed.Errorf("%s could not write its snapshot", addr)
		case l.LastSave < before.Clock.Unix():
			return members.Report{}, ErrFailed.Errorf("%s cancelled its snapshot: it was emptied, or copies all of its data anew", addr)
		default:
			return l, nil
		}
	}
}

// report reports an outcome to the directory and the log.
func (w *work) report(ctx context.Context, s view, o *outcome) {
	ended := ctx.Err() != nil
	if errors.Is(o.err, errBusy) || ended && o.result.Saved.Addr == "" {
		return
	}
	// A saved snapshot is reported even if ctx has ended.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	id, log := o.result.Partition, w.k.cfg.Logger.With("partition", o.result.Partition, "addr", o.result.Failed.Addr)
	failed := s.known[id].Failed.Why != "" // before
	switch {
	case o.err == nil || ended:
		o.result.Failed = directory.Failed{}
		w.k.failures.forget(id)
		log.DebugContext(ctx, "a snapshot was taken", "took", o.result.Saved.Took)
		if failed && !ended {
			w.note(ctx, s, id, "snapshots succeed again, on "+o.result.Saved.Addr)
		}
	default:
		o.result.Failed.Why = o.err.Error()
		w.k.failures.add(id, o.result.Failed.Addr)
		log.WarnContext(ctx, "a snapshot failed", "error", o.err)
		if !failed {
			w.note(ctx, s, id, "a snapshot failed: "+o.result.Failed.Why)
		}
	}
	if err := w.k.dir.Snapped(ctx, o.began, o.result); err != nil {
		log.WarnContext(ctx, "cannot report a snapshot to the directory", "error", err)
	}
}

// note adds to the directory's log, best effort.
func (w *work) note(ctx context.Context, s view, id int, what string) {
	_ = w.k.dir.Note(ctx, directory.Event{Agent: w.k.name, Partition: id, Epoch: s.m.Epoch, What: what})
}
