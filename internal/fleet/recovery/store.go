package recovery

import (
	"context"
	"errors"
	"fmt"

	"github.com/millrace/millrace/internal/fleet/directory"
)

// Check reports whether the directory has the map of this fleet already: then agents repair
// the rest. A directory with another fleet is ErrExists, and so is one with an older map
// that lacks a partition: agents would use it. An empty one must be fit to keep a map, see
// directory.Directory.Verify.
func (f *Found) Check(ctx context.Context, dir *directory.Directory) (there bool, err error) {
	m, err := dir.Confirm(ctx, 0)
	switch {
	case errors.Is(err, directory.ErrNoFleet):
		return false, directory.Unreachable(ctx, dir.Verify(ctx))
	case err != nil:
		return false, directory.Unreachable(ctx, err)
	case m.Fleet != f.Fleet:
		return false, ErrExists.Errorf("the directory has another fleet, %s", m.Fleet)
	case m.Epoch < f.copied.Epoch && len(m.Partitions) < len(f.copied.Partitions):
		return false, ErrExists.Errorf("the directory has an old map of this fleet, of epoch %d: it has %d partitions, and there are %d", m.Epoch, len(m.Partitions), len(f.copied.Partitions))
	}
	return true, nil
}

// Store stores the map in an empty directory. The call can be repeated, also with what is
// found later: a directory that has the map of this fleet stays as it is.
//
// The old directory must not answer any more. Clients and agents that reach it would go on
// by the old map.
func (f *Found) Store(ctx context.Context, dir *directory.Directory) error {
	there, err := f.Check(ctx, dir)
	if there || err != nil {
		return err
	}
	// The directory knew which moves of tags were in progress. This stands for all of them.
	if err := dir.Unfinished(ctx, fmt.Sprint("recovered-", f.Map.Epoch)); err != nil {
		return directory.Unreachable(ctx, err)
	}
	err = dir.Change(ctx, 0, f.Map)
	if errors.Is(err, directory.ErrConflict) {
		// A copy of this command may have been faster.
		if there, failed := f.Check(ctx, dir); there || failed != nil {
			return failed
		}
	}
	if err != nil {
		return directory.Unreachable(ctx, err)
	}
	event := directory.Event{
		Agent: "recover", Partition: -1, Epoch: f.Map.Epoch,
		What: fmt.Sprintf("recovered from the copy of epoch %d of %s: all partitions elect anew", f.Copies[0].Epoch, f.Copies[0].From),
	}
	_ = dir.Note(ctx, event) // the log stops nothing
	return nil
}
