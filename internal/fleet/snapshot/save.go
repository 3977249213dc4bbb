package snapshot

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/redis/retry"
)

// attempt saves a member when it is its node's turn, and archives the snapshot.
func (w *work) attempt(ctx context.Context, s view, p directory.Partition, member directory.Member, result *directory.Snapshot) error {
	end, err := directory.TakeTurn(ctx, w.k.dir, member)
	if err != nil {
		return errBusy
	}
	defer end()
	// Others may have saved the partition, or changed it, since the member was chosen.
	now, err := w.k.load(ctx)
	if err != nil || p.ID >= len(now.m.Partitions) || now.m.Partitions[p.ID].Epoch != p.Epoch ||
		now.Partitions[p.ID] != s.Partitions[p.ID] || w.forking(ctx, now.m, member.Machine()) {
		return errBusy
	}
	result.Failed = directory.Failed{At: time.Now(), Addr: member.Addr}
	return w.save(ctx, now.m, p, member, result)
}

// save saves a member and archives the snapshot.
func (w *work) save(ctx context.Context, m *directory.Map, p directory.Partition, member directory.Member, result *directory.Snapshot) error {
	began := result.Failed.At
	before, err := w.inStep(ctx, m, p, member)
	if err != nil {
		return err
	}
	var fetched *fetch
	var why error // nothing is fetched in spite of an archive: the snapshot stays on the member's disk
	if w.k.cfg.Archive != "" {
		name := archiveName{m.Fleet, p.ID, began.UTC()}
		if fetched, why = w.fetch(ctx, name, member.Addr, before); why == nil {
			defer fetched.close()
		} else if ctx.Err() != nil || errors.Is(why, errBusy) {
			return why
		}
	}
	if fetched == nil {
		if err := w.pool.bgsave(ctx, member.Addr); err != nil {
			return err
		}
	}
	after, err := w.await(ctx, member.Addr, before)
	if err != nil {
		return err
	}
	result.Saved = directory.Saved{
		At: began.UTC(), Addr: member.Addr, Node: member.Node, Took: time.Since(began), Memory: before.Memory, Copied: after.Copied,
	}
	switch {
	case fetched != nil:
		result.Archived, err = fetched.finish(ctx, w.k.cfg)
	case why != nil:
		err = ErrArchive.Wrap(why)
	}
	return err
}

// forking reports whether a server of a node forks by itself, or copies all of its master's
// data, without a turn.
func (w *work) forking(ctx context.Context, m *directory.Map, node string) bool {
	var there []directory.Member
	for _, p := range m.Partitions {
		for _, member := range p.Members() {
			if member.Machine() == node && !member.Down {
				there = append(there, member)
			}
		}
	}
	reports, _ := w.pool.probeAll(ctx, there)
	return slices.ContainsFunc(reports, func(l members.Report) bool { return l.Saving || l.Forked || l.Copying })
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
	began, log := o.result.Failed.At, w.k.cfg.Logger.With("partition", o.result.Partition, "addr", o.result.Failed.Addr)
	failed := s.Partitions[o.result.Partition].Failed.Why != "" // before
	note := func(what string) {
		_ = w.k.dir.Note(ctx, directory.Event{Agent: w.k.name, Partition: o.result.Partition, Epoch: s.m.Epoch, What: what}) // the log stops nothing
	}
	if o.err == nil || ended {
		o.result.Failed = directory.Failed{}
		log.DebugContext(ctx, "a snapshot was taken", "took", o.result.Saved.Took)
		if failed && !ended {
			note("snapshots succeed again, on " + o.result.Saved.Addr)
		}
	} else {
		o.result.Failed.Why = o.err.Error()
		log.WarnContext(ctx, "a snapshot failed", "error", o.err)
		if !failed {
			note("a snapshot failed: " + o.result.Failed.Why)
		}
	}
	if err := w.k.dir.Snapped(ctx, began, o.result); err != nil {
		log.WarnContext(ctx, "cannot report a snapshot to the directory", "error", err)
	}
}
