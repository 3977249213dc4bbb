package rebalance

import (
	"context"
	"errors"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/retry"
)

// maintainInterval is how often Maintain looks for what was cut off.
const maintainInterval = 5 * time.Second

// Maintain finishes what other calls with the same Moves left unfinished, when they were
// cut off or could not reach a partition, and until ctx ends, of which it returns the
// cause. It moves nothing of its own accord. Agents run it; of several one does the
// work.
func (m *Mover) Maintain(ctx context.Context) error {
	if m.cfg.Moves == nil {
		return millrace.ErrBadArgument.Errorf("without Config.Moves nobody knows what was cut off")
	}
	for m.wait(ctx, "tend", maintainInterval) == nil {
		end, adopted, err := directory.AdoptMoves(ctx, m.cfg.Moves)
		switch {
		case err != nil && ctx.Err() == nil:
			m.cfg.Logger.WarnContext(ctx, "nobody can say whether moves of tags were cut off", "error", err)
		case err == nil && adopted:
			r, err := m.resumeAll(ctx)
			end(err == nil)
			if err != nil && ctx.Err() == nil {
				m.cfg.Logger.WarnContext(ctx, "moves of tags that were cut off cannot be finished yet", "error", err)
			} else if err == nil {
				m.cfg.Logger.InfoContext(ctx, "moves of tags that were cut off are finished or undone", "tags", r.Tags)
			}
		}
	}
	return context.Cause(ctx)
}

// resumeAll resumes all partitions: who was cut off has not said where it was.
func (m *Mover) resumeAll(ctx context.Context) (all Report, err error) {
	for _, p := range directory.MapOf(m.f.Client()).Partitions {
		r, failed := m.resume(ctx, p.ID)
		all.Tags += r.Tags
		if err = errors.Join(err, failed); ctx.Err() != nil {
			break
		}
	}
	return all, err
}

// known does what a call does, and has somebody finish it if this process cannot.
func (m *Mover) known(ctx context.Context, do func() (Report, error)) (Report, error) {
	if m.cfg.Moves == nil {
		return do()
	}
	var end func(finished bool)
	err := retry.Policy{}.Do(ctx, func(int) (err error) {
		end, err = directory.BeginMoves(context.WithoutCancel(ctx), m.cfg.Moves)
		return err
	})
	if err != nil {
		return Report{}, err
	}
	r, err := do()
	end(err == nil || errors.Is(err, ErrNotMoved))
	return r, err
}
