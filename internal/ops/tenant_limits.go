package ops

import (
	"context"
	"net/http"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/jsontype"
)

// GetLimits shows the limits of a tenant.
var GetLimits = operation(Row{
	ID: "getLimits", Words: "queue tenant show", Method: http.MethodGet, Path: queuePath + "/limits", Statuses: []int{http.StatusNotFound},
	Class:    Look,
	Summary:  "Show the limits that count for a tenant",
	Detail:   "Its own, and for the rest those of all that have none of their own. Without a tenant (in the command: with --default), those of all others.",
	Examples: []string{"queue tenant show orders acme", "queue tenant show orders --default"},
}, func(ctx context.Context, q *fairqueue.Queue, in LimitsOf) (TenantLimits, error) {
	return limitsOf(ctx, q, in.Tenant)
})

// LimitsOf is the In of [GetLimits].
type LimitsOf struct {
	Queue

	Tenant jsontype.Text `arg:"" optional:"" query:"tenant" complete:"tenant" maxLength:"512" doc:"The tenant. Absent for all that have no limits of their own." example:"\"acme\""`
}

// ChangeLimits changes limits of a tenant.
var ChangeLimits = operation(Row{
	ID: "changeLimits", Words: "queue tenant set", Method: http.MethodPost, Path: queuePath + "/tenants/limit", Statuses: []int{http.StatusInsufficientStorage},
	Class: Change, Action: "tenant.limits", Form: "tenants/limits",
	Summary: "Change the limits of a tenant",
	Detail:  "Only the given limits change, for all readers, at once, and are the tenant's own then; for the rest it follows those of all others. Without a tenant (in the command: with --default) it changes those of all others. If unset is asked for, it changes only those that are not set: for programs, which do so when they start and overwrite nothing that an operator has set. It creates the queue if there is none.",
	Examples: []string{
		"queue tenant set orders acme --rate 100/m --burst 10",
		"queue tenant set orders acme --max-in-flight 20",
		"queue tenant set orders --default --max-share 0.5",
	},
}, func(ctx context.Context, q *fairqueue.Queue, in LimitsChange) (doc TenantLimits, err error) {
	set := fairqueue.LimitSettings.Set
	if in.IfUnset {
		set = fairqueue.LimitSettings.SetIfUnset
	}
	if err := set(q.Limits(), ctx, string(in.Tenant.Tenant), in.Own()); err != nil {
		return doc, err
	}
	return limitsOf(ctx, q, in.Tenant.Tenant)
})

// LimitsChange is the In of [ChangeLimits].
type LimitsChange struct {
	Tenant
	LimitFields

	IfUnset bool `json:"if_unset,omitempty" doc:"Change only those that are not set."`
}

// ClearLimits removes limits of a tenant.
var ClearLimits = operation(Row{
	ID: "clearLimits", Words: "queue tenant clear", Method: http.MethodPost, Path: queuePath + "/tenants/clear", Statuses: []int{http.StatusNotFound},
	Class: Change, Action: "tenant.clear", Form: "tenants/clear",
	Summary: "Remove the own limits of a tenant",
	Detail:  "Those that are named, or all. The limits of all others count for it again. Without a tenant (in the command: with --default) it removes those. A pause ends only if it is named.",
	Examples: []string{
		"queue tenant clear orders acme",
		"queue tenant clear orders acme --limit rate,burst",
		"queue tenant clear orders --default",
	},
}, func(ctx context.Context, q *fairqueue.Queue, in LimitsClear) (doc TenantLimits, err error) {
	if err := q.Limits().Clear(ctx, string(in.Tenant.Tenant), in.Limits...); err != nil {
		return doc, err
	}
	return limitsOf(ctx, q, in.Tenant.Tenant)
})

// LimitsClear is the In of [ClearLimits].
type LimitsClear struct {
	Tenant

	Limits []string `json:"limits,omitempty" name:"limit" placeholder:"NAME" nullable:"false" enum:"weight,max_in_flight,max_share,rate,burst,max_waiting,paused" doc:"Their names. Defaults to all." example:"[\"rate\"]"`
}

func limitsOf(ctx context.Context, q *fairqueue.Queue, tenant jsontype.Text) (TenantLimits, error) {
	l, err := q.Limits().Get(ctx, string(tenant))
	return OfTenantLimits(l), err
}
