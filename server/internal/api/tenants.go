package api

import (
	"context"
	"net/http"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/document"
)

// routeTenants adds the tenants of a queue and their limits.
func (a *API) routeTenants() {
	onQueue(a, op(http.MethodGet, queuePath+"/tenants", "listTenants", "List the tenants that have messages",
		"With their state and the limits that count for them; the fullest first, at most 1,024. Not for a queue with streams.",
		http.StatusNotFound), listTenants)
	onQueue(a, op(http.MethodPost, queuePath+"/tenants/pause", "pauseTenant", "Pause a tenant",
		"Its messages wait, for a time or until it is resumed. Those in flight may be finished, and writing continues. It creates the queue if there is none.", http.StatusInsufficientStorage),
		func(ctx context.Context, q *fairqueue.Queue, in *namedWith[pauseTenantRequest]) (doc document.PausedTenant, err error) {
			doc = document.PausedTenant{Tenant: in.Body.Tenant, Paused: true, For: in.Body.For.Milliseconds()}
			return doc, onTenant(in.Body.Tenant, func(tenant string) error { return q.Limits().Pause(ctx, tenant, in.Body.For.Duration) })
		})
	onQueue(a, op(http.MethodPost, queuePath+"/tenants/resume", "resumeTenant", "Resume a tenant",
		"Ends a pause, and one that a handler asked for with Throttle.", http.StatusNotFound),
		func(ctx context.Context, q *fairqueue.Queue, in *namedWith[document.Tenant]) (doc document.PausedTenant, err error) {
			return document.PausedTenant{Tenant: in.Body}, onTenant(in.Body, func(tenant string) error { return q.Limits().Resume(ctx, tenant) })
		})
	onQueue(a, op(http.MethodPost, queuePath+"/tenants/purge", "purgeTenant", "Remove the messages of a tenant",
		"Those that wait or are delayed. What is in flight or dead stays.", http.StatusNotFound),
		func(ctx context.Context, q *fairqueue.Queue, in *namedWith[document.Tenant]) (doc document.PurgedTenant, err error) {
			doc.Tenant = in.Body
			return doc, onTenant(in.Body, func(tenant string) (err error) {
				doc.Purged, err = q.PurgeTenant(ctx, tenant)
				return err
			})
		})
	onQueue(a, op(http.MethodGet, queuePath+"/limits", "getLimits", "Show the limits that count for a tenant",
		"Without a tenant, those of all that have no limits of their own.", http.StatusNotFound),
		func(ctx context.Context, q *fairqueue.Queue, in *tenantQuery) (document.TenantLimits, error) {
			return limitsOf(ctx, q, in.Tenant)
		})
	onQueue(a, op(http.MethodPost, queuePath+"/tenants/limit", "changeLimits", "Change the limits of a tenant",
		"Only the given limits change, for all readers, at once, and are the tenant's own then; for the rest it follows those of all others. Without a tenant, it changes the limits of all that have none of their own. With `if_unset` it changes only those that are not set: for programs, which do so when they start and overwrite nothing that an operator has set. It creates the queue if there is none.",
		http.StatusInsufficientStorage),
		func(ctx context.Context, q *fairqueue.Queue, in *namedWith[changeLimitsRequest]) (doc document.TenantLimits, err error) {
			set := fairqueue.LimitSettings.Set
			if in.Body.IfUnset {
				set = fairqueue.LimitSettings.SetIfUnset
			}
			if err := set(q.Limits(), ctx, string(in.Body.Tenant.Tenant), in.Body.Own()); err != nil {
				return doc, err
			}
			return limitsOf(ctx, q, string(in.Body.Tenant.Tenant))
		})
	onQueue(a, op(http.MethodPost, queuePath+"/tenants/clear", "clearLimits", "Remove the own limits of a tenant",
		"Those that are named, or all. The limits of all others count for it again. Without a tenant, it removes those.", http.StatusNotFound),
		func(ctx context.Context, q *fairqueue.Queue, in *namedWith[clearLimitsRequest]) (doc document.TenantLimits, err error) {
			if err := q.Limits().Clear(ctx, string(in.Body.Tenant.Tenant), in.Body.Limits...); err != nil {
				return doc, err
			}
			return limitsOf(ctx, q, string(in.Body.Tenant.Tenant))
		})
	onQueue(a, op(http.MethodGet, queuePath+"/limits/all", "listLimits", "List all limits that are stored",
		"Also those of tenants without messages."), listLimits)
}

type pauseTenantRequest struct {
	document.Tenant

	For document.Duration `json:"for,omitzero" doc:"How long. Defaults to until it is resumed." example:"10m"`
}

// tenantQuery names a tenant in the query.
type tenantQuery struct {
	Named

	Tenant string `query:"tenant" maxLength:"512" doc:"The tenant. Absent for all that have no limits of their own."`
}

type changeLimitsRequest struct {
	document.Tenant
	document.LimitsChange

	IfUnset bool `json:"if_unset,omitempty" doc:"Change only those that are not set."`
}

type clearLimitsRequest struct {
	document.Tenant

	Limits []string `json:"limits,omitempty" nullable:"false" enum:"weight,max_in_flight,max_share,rate,burst,max_waiting,paused" doc:"Their names. Defaults to all." example:"[\"rate\"]"`
}

// onTenant calls do with a tenant that is named.
func onTenant(t document.Tenant, do func(tenant string) error) error {
	if t.Tenant == "" {
		return millrace.ErrBadArgument.Errorf("a tenant is needed").WithHint(`For example: {"tenant":"acme"}`)
	}
	return do(string(t.Tenant))
}

func limitsOf(ctx context.Context, q *fairqueue.Queue, tenant string) (document.TenantLimits, error) {
	l, err := q.Limits().Get(ctx, tenant)
	return document.OfTenantLimits(l), err
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
