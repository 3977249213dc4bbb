package ops

import (
	"context"
	"net/http"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/jsontype"
)

// PauseTenant suspends the messages of one tenant.
var PauseTenant = operation(Row{
	ID: "pauseTenant", Words: "queue tenant pause", Method: http.MethodPost, Path: queuePath + "/tenants/pause", Statuses: []int{http.StatusInsufficientStorage},
	Class: Change, Action: "tenant.pause", Form: "tenants/pause",
	Summary:  "Pause a tenant",
	Detail:   "Its messages wait, for a time or until it is resumed. Those in flight may be finished, and writing continues. It creates the queue if there is none.",
	Examples: []string{"queue tenant pause orders acme", "queue tenant pause orders acme --for 10m"},
}, func(ctx context.Context, q *fairqueue.Queue, in TenantPause) (PausedTenant, error) {
	doc := PausedTenant{Tenant: in.Tenant, Paused: true, For: in.For.Milliseconds()}
	if err := needsTenant(in.Tenant); err != nil {
		return doc, err
	}
	return doc, q.Limits().Pause(ctx, string(in.Tenant.Tenant), in.For.Duration)
})

// TenantPause is the In of [PauseTenant].
type TenantPause struct {
	Tenant

	For jsontype.Duration `json:"for,omitzero" placeholder:"TIME" doc:"How long. Defaults to until it is resumed." example:"10m"`
}

// ResumeTenant ends a pause of one tenant.
var ResumeTenant = operation(Row{
	ID: "resumeTenant", Words: "queue tenant resume", Method: http.MethodPost, Path: queuePath + "/tenants/resume", Statuses: []int{http.StatusNotFound},
	Class: Change, Action: "tenant.resume", Form: "tenants/resume",
	Summary:  "Resume a tenant",
	Detail:   "Ends a pause, and one that a handler asked for with Throttle.",
	Examples: []string{"queue tenant resume orders acme"},
}, func(ctx context.Context, q *fairqueue.Queue, in Tenant) (PausedTenant, error) {
	doc := PausedTenant{Tenant: in}
	if err := needsTenant(in); err != nil {
		return doc, err
	}
	return doc, q.Limits().Resume(ctx, string(in.Tenant))
})

// PurgeTenant removes messages of one tenant.
var PurgeTenant = operation(Row{
	ID: "purgeTenant", Words: "queue tenant purge", Method: http.MethodPost, Path: queuePath + "/tenants/purge", Statuses: []int{http.StatusNotFound},
	Class: Change, Action: "tenant.purge", Form: "tenants/purge",
	Summary:  "Remove the messages of a tenant",
	Detail:   "Those that wait or are delayed. Those in flight and dead messages stay.",
	Examples: []string{"queue tenant purge orders acme", "queue tenant purge orders acme --yes"},
}, func(ctx context.Context, q *fairqueue.Queue, in Tenant) (PurgedTenant, error) {
	doc := PurgedTenant{Tenant: in}
	err := needsTenant(in)
	if err == nil {
		doc.Purged, err = q.PurgeTenant(ctx, string(in.Tenant))
	}
	return doc, err
})

// needsTenant rejects all others in place of one tenant.
func needsTenant(t Tenant) error {
	if t.Tenant == "" {
		return millrace.ErrBadArgument.Errorf("a tenant is needed").WithHint(`For example: {"tenant":"acme"}`)
	}
	return nil
}

// PurgedTenant counts removed messages of a tenant.
type PurgedTenant struct {
	Tenant

	Purged int `json:"purged" doc:"How many messages that waited or were delayed are removed." example:"17"`
}

// PausedTenant is the outcome of pausing or resuming a tenant.
type PausedTenant struct {
	Tenant

	Paused bool  `json:"paused"`
	For    int64 `json:"for_ms,omitempty" doc:"How long; absent for until it is resumed." example:"600000"`
}
