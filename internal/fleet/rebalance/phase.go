package rebalance

import (
	"context"
	"errors"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/fleet/directory"
)

// Close has a partition take no new tags: they are sent on to others from now on. It
// keeps those that it has. A partition that is closed already is left alone.
func Close(ctx context.Context, dir directory.Directory, partition int) error {
	return setPhase(ctx, dir, partition, directory.Closed)
}

// Open has a partition that was closed take new tags again.
func Open(ctx context.Context, dir directory.Directory, partition int) error {
	return setPhase(ctx, dir, partition, directory.Open)
}

func setPhase(ctx context.Context, dir directory.Directory, partition int, phase directory.Phase) error {
	for {
		m, err := dir.Confirm(ctx, 0)
		if err != nil {
			return err
		}
		if partition < 0 || partition >= len(m.Partitions) {
			return millrace.ErrBadArgument.Errorf("there is no partition %d", partition)
		}
		next := m.Clone()
		next.Epoch++
		p := &next.Partitions[partition]
		if p.Phase == phase {
			return nil
		}
		if p.Phase == directory.LookUp {
			unfinished := millrace.ErrBadArgument.Errorf("the adding of partition %d is not finished", partition)
			unfinished.Hint = "Repeat the command that began it, for the same servers."
			return unfinished
		}
		p.Phase = phase
		if err := dir.Change(ctx, m.Epoch, next); !errors.Is(err, directory.ErrConflict) {
			return err
		}
	}
}
