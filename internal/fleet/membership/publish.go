package membership

import (
	"context"

	"github.com/millrace/millrace/internal/fleet/directory"
)

// Publish stores the tasks of a plan in the map, all in one change. If the map has changed
// such that the request has another plan now, the error is directory.ErrConflict. Boot says
// how new members came back from a restart, as directory.Member has it.
func Publish(ctx context.Context, dir *directory.Directory, r Request, agreed *Plan, boot string) error {
	_, err := directory.Edit(ctx, dir, func(next *directory.Map) (bool, error) {
		now, err := Make(next, r)
		switch {
		case err != nil || now.Begun:
			return false, err
		case !now.equal(agreed):
			return false, directory.ErrConflict.Errorf("the fleet has changed since the plan was made").WithHint("Repeat the command, and look at the new plan.")
		}
		for id, task := range now.Tasks {
			next.Partitions[id].Task = &task
			if task.Add != nil {
				add := *task.Add
				add.Boot, task.Add = boot, &add
			}
		}
		return true, nil
	})
	return err
}

// tasks returns the tasks of a plan that the map has.
func tasks(m *directory.Map, plan string) map[int]directory.Task {
	all := map[int]directory.Task{}
	for _, p := range m.Partitions {
		if p.Task != nil && p.Task.Plan == plan {
			all[p.ID] = *p.Task
		}
	}
	return all
}
