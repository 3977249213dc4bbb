package api

import (
	"context"
	"net/http"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/document"
	"github.com/millrace/millrace/internal/ops"
)

// routeTenants adds the tenants of a queue and their limits.
func (a *API) routeTenants() {
	onQueue(a, op(http.MethodGet, queuePath+"/tenants", "listTenants", "List the tenants that have messages",
		"With their state and the limits that count for them; the fullest first, at most 1,024. Not for a queue with streams.",
		http.StatusNotFound), listTenants)
	tellQueue(a, ops.PauseTenant)
	tellQueue(a, ops.ResumeTenant)
	tellQueue(a, ops.PurgeTenant)
	askQueue(a, ops.GetLimits)
	tellQueue(a, ops.ChangeLimits)
	tellQueue(a, ops.ClearLimits)
	onQueue(a, op(http.MethodGet, queuePath+"/limits/all", "listLimits", "List all limits that are stored",
		"Also those of tenants without messages."), listLimits)
}

func listTenants(ctx context.Context, q *fairqueue.Queue, _ *Named) (doc document.Tenants, err error) {
	s, err := q.Stats(ctx)
	if err != nil {
		return doc, err
	}
	if s.Streams > 0 {
		return doc, millrace.ErrBadArgument.Errorf("the flows of this queue are streams, so it does not count its tenants").
			WithHint("GET /v1/queues/{name}/stats shows its streams.")
	}
	all, err := q.Limits().Get(ctx, "")
	return document.OfTenants(s, all.Limits), err
}

func listLimits(ctx context.Context, q *fairqueue.Queue, _ *Named) (doc document.StoredLimits, err error) {
	doc.Limits = []document.TenantLimits{}
	for l, err := range q.Limits().All(ctx) {
		if err != nil {
			return doc, err
		}
		doc.Limits = append(doc.Limits, document.OfTenantLimits(l))
	}
	return doc, nil
}
