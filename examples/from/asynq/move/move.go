// Package move moves tasks of asynq that no worker has into a queue.
package move

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/hibiken/asynq"

	"github.com/millrace/millrace/fairqueue"
)

// List is Inspector.ListScheduledTasks, ListRetryTasks or ListArchivedTasks.
type List func(queue string, opts ...asynq.ListOption) ([]*asynq.TaskInfo, error)

// Move writes the tasks of a list into a queue, and deletes each after that. It returns how many it has moved; their
// attempts begin anew. Tasks that are due within a minute stay, since a worker may be about to take them. One process
// moves at a time; one that was killed is repeated within the DedupeWindow of the queue.
func Move(ctx context.Context, inspector *asynq.Inspector, list List, from string, to *fairqueue.Queue, tenant func(*asynq.TaskInfo) string) (moved int, err error) {
	const page = 1000
	var tasks []*asynq.TaskInfo
	for number, more := 1, true; more; number++ {
		some, err := list(from, asynq.Page(number), asynq.PageSize(page))
		if err != nil {
			return 0, err
		}
		tasks, more = append(tasks, some...), len(some) == page
	}
	for _, task := range tasks {
		delay := time.Duration(0) // of an archived task
		if task.State != asynq.TaskStateArchived {
			if delay = time.Until(task.NextProcessAt).Truncate(time.Millisecond); delay < time.Minute {
				continue
			}
		}
		headers := map[string]string{"type": task.Type}
		maps.Copy(headers, task.Headers)
		if _, err := to.Write(ctx, fairqueue.Draft{
			Tenant: tenant(task), Headers: headers, Body: task.Payload, DedupeID: task.ID, Delay: delay,
		}); err != nil {
			return moved, err
		}
		if err := inspector.DeleteTask(from, task.ID); err != nil && !errors.Is(err, asynq.ErrTaskNotFound) {
			return moved, err
		}
		moved++
	}
	return moved, nil
}
