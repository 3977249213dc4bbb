package doctor

import (
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/readable"
)

// judgeQueues reports queues without readers, and tenants that hold others up. They are warnings at
// most: a consumer that is not started is no fault of the Redis.
func judgeQueues(queues []fairqueue.Stats) (all []Finding) {
	for _, q := range queues {
		for _, f := range diagnosis.OfQueue(q) {
			if f.Severity > Note && f.Code != diagnosis.ScheduleLate { // judgeSchedules reports that
				all = append(all, warning(f.Code, "the queue "+readable.Name(q.Name)+" "+f.Text, f.Advised()))
			}
		}
	}
	return in("queues", all)
}
