package parts

import (
	"context"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
)

// CreateBatch makes a batch in the part of done's tenant in which the fewest messages wait, and returns its id. A batch lies in one
// part, and so do all its messages, of all tenants: only then can one step end the last message and write done. So
// a large batch has the rate of one part; while that part is down, it stands still.
//
// The queue of the part has the calls for the rest: for the batch "3.ID" that is Parts()[3].Batches(), with ID.
//
// Errors: those of [fairqueue.Batches.Create]. If the part does not answer within [Config.Timeout], the error is
// [millrace.ErrUncertain].
func (q *Queue) CreateBatch(ctx context.Context, total int, done fairqueue.Draft) (string, error) {
	if done.Tenant == "" {
		return "", millrace.ErrBadArgument.Errorf("the message of a batch's end has no tenant")
	}
	p := q.choose(fairqueue.Draft{Tenant: done.Tenant}, nil)
	within, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	id, err := p.queue.Batches().Create(within, total, done)
	if err = p.uncertain(ctx, within, err); err != nil {
		return "", err
	}
	return p.mark(id), nil
}
