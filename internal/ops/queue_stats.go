package ops

import (
	"context"
	"net/http"
	"reflect"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
)

// ListQueues lists the queues.
var ListQueues = Row{
	ID: "listQueues", Words: "queue ls", Method: http.MethodGet, Path: "/v1/queues",
	Class:    Look,
	Summary:  "List the queues by name",
	Detail:   "All registered queues. Every program that writes to a queue or reads from it registers it.",
	Examples: []string{"queue ls", "queue ls --json"},
	Out:      reflect.TypeFor[Queues](),
}

// GetQueueStats shows the numbers of a queue, and its problems.
var GetQueueStats = operation(Row{
	ID: "getQueueStats", Words: "queue stats", Method: http.MethodGet, Path: queuePath + "/stats", Statuses: []int{http.StatusNotFound},
	Class:    Look,
	Summary:  "Show sizes, ages, flows, readers and counters",
	Detail:   "A flow is a tenant, or a stream if the queue has streams; the flows are those in which messages wait, the fullest first. A flow that is held waits for its own handlers, which have their share of all. Readers are programs that consume with the library. The counters count since the queue began, over all processes.",
	Examples: []string{"queue stats orders", "queue stats orders --json | jq .waiting"},
}, func(ctx context.Context, q *fairqueue.Queue, _ Queue) (QueueStats, error) {
	s, err := q.Stats(ctx)
	return OfQueueStats(s), err
})

// ListTenants shows the tenants that have messages.
var ListTenants = operation(Row{
	ID: "listTenants", Words: "queue tenants", Method: http.MethodGet, Path: queuePath + "/tenants", Statuses: []int{http.StatusNotFound},
	Class:    Look,
	Summary:  "List the tenants that have messages",
	Detail:   "With their state and the limits that count for them; the fullest first, at most 1,024. Tenants whose messages are all in flight are left out. Not for a queue with streams. The state is why the next message waits. ready: for its turn. held: the tenant has its share of the handlers, or its most in flight. asleep: by its rate, or for a pause that ends. paused: until it is resumed.",
	Examples: []string{"queue tenants orders", "queue tenants orders --sort handling --most 10", "queue tenants orders --limits"},
}, func(ctx context.Context, q *fairqueue.Queue, _ Queue) (doc Tenants, err error) {
	s, err := q.Stats(ctx)
	if err != nil {
		return doc, err
	}
	if s.Streams > 0 {
		return doc, millrace.ErrBadArgument.Errorf("the flows of this queue are streams, so it does not count its tenants").
			WithHint("The stats of the queue show its streams.")
	}
	all, err := q.Limits().Get(ctx, "")
	return OfTenants(s, all.Limits), err
})

// ListLimits shows all stored limits.
var ListLimits = operation(Row{
	ID: "listLimits", Method: http.MethodGet, Path: queuePath + "/limits/all",
	Only:    "queue tenants --limits shows them",
	Class:   Look,
	Summary: "List all limits that are stored",
	Detail:  "Also those of tenants without messages.",
}, func(ctx context.Context, q *fairqueue.Queue, _ Queue) (doc StoredLimits, err error) {
	doc.Limits = []TenantLimits{}
	for l, err := range q.Limits().All(ctx) {
		if err != nil {
			return doc, err
		}
		doc.Limits = append(doc.Limits, OfTenantLimits(l))
	}
	return doc, nil
})
