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
		"With their state and the limits that count for them; the fullest first, at most 1,024. An account is listed as a whole, with its tenants beside it. Not for a queue with streams.",
		http.StatusNotFound), listTenants)
	onQueue(a, op(http.MethodPost, queuePath+"/tenants/pause", "pauseTenant", "Pause a tenant or an account",
		"Its messages wait, for a time or until it is resumed. Those in flight may be finished, and writing continues. It creates the queue if there is none.", http.StatusInsufficientStorage),
		func(ctx context.Context, q *fairqueue.Queue, in *namedWith[pauseTenantRequest]) (doc document.PausedTenant, err error) {
			doc = document.PausedTenant{Owner: in.Body.Owner, Paused: true, For: in.Body.For.Milliseconds()}
			return doc, onTenant(in.Body.Owner, func(of fairqueue.Owner) error { return q.PauseTenant(ctx, of, in.Body.For.Duration) })
		})
	onQueue(a, op(http.MethodPost, queuePath+"/tenants/resume", "resumeTenant", "Resume a tenant or an account",
		"Ends a pause, and one that a handler asked for with Throttle.", http.StatusNotFound),
		func(ctx context.Context, q *fairqueue.Queue, in *namedWith[document.Owner]) (doc document.PausedTenant, err error) {
			return document.PausedTenant{Owner: in.Body}, onTenant(in.Body, func(of fairqueue.Owner) error { return q.ResumeTenant(ctx, of) })
		})
	onQueue(a, op(http.MethodPost, queuePath+"/tenants/purge", "purgeTenant", "Remove the messages of a tenant or an account",
		"Those that wait or are delayed. What is in flight or dead stays.", http.StatusNotFound),
		func(ctx context.Context, q *fairqueue.Queue, in *namedWith[document.Owner]) (doc document.PurgedTenant, err error) {
			doc.Owner = in.Body
			return doc, onTenant(in.Body, func(of fairqueue.Owner) (err error) {
				doc.Purged, err = q.PurgeTenant(ctx, of)
				return err
			})
		})
	onQueue(a, op(http.MethodGet, queuePath+"/limits", "getLimits", "Show the limits that count for a tenant or an account",
		"Without a tenant and an account, those of all that have no limits of their own.", http.StatusNotFound),
		func(ctx context.Context, q *fairqueue.Queue, in *ownerRequest) (document.TenantLimits, error) {
			return limitsOf(ctx, q, in.owner())
		})
	onQueue(a, op(http.MethodPost, queuePath+"/tenants/limit", "changeLimits", "Change the limits of a tenant or an account",
		"Only the given limits change, for all readers, at once. The first change gives a tenant limits of its own, which begin as those of all others. Without a tenant and an account, it changes the limits of all that have none of their own. It creates the queue if there is none.",
		http.StatusInsufficientStorage),
		func(ctx context.Context, q *fairqueue.Queue, in *namedWith[changeLimitsRequest]) (doc document.TenantLimits, err error) {
			if err := q.ChangeLimits(ctx, in.Body.Of(), in.Body.Apply); err != nil {
				return doc, err
			}
			return limitsOf(ctx, q, in.Body.Owner)
		})
	onQueue(a, op(http.MethodPost, queuePath+"/tenants/clear", "clearLimits", "Remove the own limits of a tenant or an account",
		"The limits of all others count for it again. Without a tenant and an account, it removes those.", http.StatusNotFound),
		func(ctx context.Context, q *fairqueue.Queue, in *namedWith[document.Owner]) (doc document.TenantLimits, err error) {
			if err := q.ClearLimits(ctx, in.Body.Of()); err != nil {
				return doc, err
			}
			return limitsOf(ctx, q, in.Body)
		})
	onQueue(a, op(http.MethodGet, queuePath+"/limits/all", "listLimits", "List all limits that are stored",
		"Also those of tenants without messages."), listLimits)
}

type pauseTenantRequest struct {
	document.Owner

	For document.Duration `json:"for,omitzero" doc:"How long. Defaults to until it is resumed." example:"10m"`
}

// ownerRequest names a tenant or an account in the query.
type ownerRequest struct {
	Named

	Account string `query:"account" maxLength:"512" doc:"The account. Absent for a tenant without one."`
	Tenant  string `query:"tenant" maxLength:"512" doc:"The tenant. Absent for an account as a whole."`
}

func (r ownerRequest) owner() document.Owner {
	return document.Owner{Account: document.Text(r.Account), Tenant: document.Text(r.Tenant)}
}

type changeLimitsRequest struct {
	document.Owner
	document.LimitsChange
}

// onTenant calls do with an owner that is a tenant or an account.
func onTenant(o document.Owner, do func(fairqueue.Owner) error) error {
	if o == (document.Owner{}) {
		return millrace.ErrBadArgument.Errorf("a tenant or an account is needed").WithHint(`For example: {"tenant":"acme"}`)
	}
	return do(o.Of())
}

func limitsOf(ctx context.Context, q *fairqueue.Queue, o document.Owner) (document.TenantLimits, error) {
	l, own, err := q.Limits(ctx, o.Of())
	return document.TenantLimits{Owner: o, Own: own, Limits: document.OfLimits(l)}, err
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
	all, _, err := q.Limits(ctx, fairqueue.Owner{})
	return document.OfTenants(s, all), err
}

func listLimits(ctx context.Context, q *fairqueue.Queue, _ *Named) (doc document.StoredLimits, err error) {
	doc.Limits = []document.TenantLimits{}
	for l, err := range q.AllLimits(ctx) {
		if err != nil {
			return doc, err
		}
		doc.Limits = append(doc.Limits, document.TenantLimits{Owner: document.OfOwner(l.Owner), Own: true, Limits: document.OfLimits(l.Limits)})
	}
	return doc, nil
}
