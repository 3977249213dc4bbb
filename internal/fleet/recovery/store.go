package recovery

import (
	"context"
	"errors"
	"fmt"

	"github.com/millrace/millrace/internal/fleet/directory"
)

// Question is the question to a person before Store.
func (f *Found) Question() string {
	if f.Present != nil {
		return fmt.Sprintf("The directory has a map of epoch %d of this fleet. Replace it?", f.Present.Epoch)
	}
	return "The old directory must be gone for good: clients and agents that reach it would go on by the old map. Store the new map?"
}

// Store stores the map if the directory is behind, and notes it in the log by that name. The call
// can be repeated, also with
// later findings. ErrConflict means that another process has changed the map since Find.
//
// An old directory in another place must not answer any more. Clients and agents that reach
// it would go on by the old map.
func (f *Found) Store(ctx context.Context, agent string) error {
	if !f.Behind {
		return nil
	}
	// The directory knew which moves of tags were in progress. This stands for all of them.
	if err := f.directory.Unfinished(ctx, fmt.Sprint("recovered-", f.Map.Epoch)); err != nil {
		return directory.Unreachable(ctx, err)
	}
	var epoch int64
	what := "the directory was empty"
	if f.Present != nil {
		epoch = f.Present.Epoch
		what = fmt.Sprintf("the directory had gone back to epoch %d, by %d", epoch, f.Known-epoch)
	}
	err := f.directory.Change(ctx, epoch, f.Map)
	if errors.Is(err, directory.ErrConflict) {
		// A copy of this command may have been faster.
		if m, unknown := f.directory.Confirm(ctx, 0); unknown == nil && m.Fleet == f.Fleet && m.Epoch >= f.Map.Epoch {
			return nil
		}
	}
	if err != nil {
		return directory.Unreachable(ctx, err)
	}
	event := directory.Event{
		Agent: agent, Partition: -1, Epoch: f.Map.Epoch,
		What: fmt.Sprintf("%s: recovered from the map of epoch %d of %s, all partitions elect anew", what, f.From.Epoch, f.From.From),
	}
	_ = f.directory.Note(ctx, event) // the log stops nothing
	return nil
}
