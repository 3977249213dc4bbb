package recipes

import (
	"context"

	"github.com/millrace/millrace/fairqueue"
)

// setBudget gives each customer 60,000 tokens a minute. One that used none for a while may use 20,000 at once.
func setBudget(ctx context.Context, q *fairqueue.Queue) error {
	return q.Limits().SetIfUnset(ctx, "", fairqueue.OwnLimits{Rate: new(60_000.0 / 60), Burst: new(20_000)})
}

// ask queues a request to a model. Its cost is the most that it may use: the tokens of the prompt, and the most that the answer may have.
func ask(ctx context.Context, q *fairqueue.Queue, customer string, prompt []byte, tokens, maxAnswer int) (id string, err error) {
	return q.Write(ctx, fairqueue.Draft{Tenant: customer, Body: prompt, Cost: tokens + maxAnswer})
}
