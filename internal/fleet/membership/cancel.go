package membership

import (
	"reflect"

	"github.com/millrace/millrace/internal/fleet/directory"
)

// Cancel drops the remaining tasks of a plan, for instance because a new server has died.
// Finished steps stay, and members that are leaving leave.
type Cancel struct{ Plan string }

func (r Cancel) words() []string { return []string{"cancel", r.Plan} }

func (r Cancel) plan(d *draft) error {
	left := tasks(d.m, r.Plan)
	if len(left) == 0 {
		return notFound("no change of members has the plan %s", r.Plan)
	}
	for id := range left {
		if d.m.Partitions[id].Leaving == nil {
			d.tasks[id] = directory.Task{} // agents find nothing to do
		}
	}
	return nil
}

// cancels reports whether a task replaces another one by nothing.
func cancels(task directory.Task) bool {
	return reflect.DeepEqual(task, directory.Task{Plan: task.Plan})
}
