package api

import (
	"context"
	"net/http"
	"time"

	"github.com/millrace/millrace/internal/document"
	"github.com/millrace/millrace/internal/names"
	"github.com/millrace/millrace/internal/reqid"
	"github.com/millrace/millrace/lease"
)

const leasePath = "/v1/leases/{name}"

func (a *API) routeLeases() {
	register(a, op(http.MethodGet, "/v1/leases", "listLeases", "List the leases by name",
		"Those that are held, and those that were within the last minute, but for the ones that were held for a moment only."), a.listLeases)
	register(a, op(http.MethodGet, leasePath, "getLease", "Show who holds a lease, and for how long",
		"A lease that nobody ever held is not held. The token is as good as the lease: with it anybody may release one whose holder will not come back."), a.getLease)
	register(a, op(http.MethodPost, leasePath+"/acquire", "acquireLease", "Take a lease, or wait for it",
		"It is held until its deadline by the server's clock, or until it is released. While somebody else holds it the request waits for as long as wait says and the service lets it, which is a minute unless it was told otherwise, and then is an error with the code held, which says for how long, and with which metadata. Waiters are not served in order.",
		http.StatusInsufficientStorage), a.acquireLease)
	register(a, op(http.MethodPost, leasePath+"/refresh", "refreshLease", "Hold a lease longer",
		"A deadline that is later already stays. A lease that expired even once, or was released, is lost."), a.refreshLease)
	register(a, op(http.MethodPost, leasePath+"/release", "releaseLease", "End a lease before its deadline",
		"The last token that released a lease may release it again for a minute; any other one has lost it."), a.releaseLease)
}

// leaseNames is the names of leases.
type leaseNames struct {
	Leases []document.Text `json:"leases" doc:"Their names, sorted by their bytes."`
	document.Incomplete
}

func (a *API) listLeases(ctx context.Context, _ *nothing) (leaseNames, error) {
	names, part, err := a.namesOf(ctx, lease.List)
	return leaseNames{names, part}, err
}

func (a *API) getLease(ctx context.Context, in *named) (document.Lease, error) {
	info, err := a.lockers[false].Show(ctx, in.Name)
	return document.OfLease(info), err
}

// acquireRequest asks for a lease.
type acquireRequest struct {
	Name string `path:"name" doc:"The lease's name, percent-encoded." example:"nightly"`
	Body struct {
		TTL            document.Duration `json:"ttl" doc:"For how long to hold it, from 10ms to 8784h." example:"10m"`
		Wait           document.Duration `json:"wait,omitzero" doc:"For how long to wait while somebody else holds it. Defaults to 0s, not at all." example:"30s"`
		Metadata       document.Text     `json:"metadata,omitempty" doc:"Who holds it, for those who find it held; at most 4,096 bytes." example:"\"host a\""`
		Token          document.Text     `json:"token,omitempty" doc:"Names the holder: 1 to 64 bytes that nobody can guess. Acquiring again with it adopts the lease. Defaults to one that is drawn." example:"\"ODZ4YB3RQJ5TKWUVHLCXNME7AI\""`
		AllowEvictable bool              `json:"allow_evictable,omitempty" doc:"Accept a server that may evict the lease when its memory is full: for leases that only save work."`
	} `nameHint:"AcquireRequest"`
}

func (r *acquireRequest) wait() time.Duration { return r.Body.Wait.Duration }

func (a *API) acquireLease(ctx context.Context, in *acquireRequest) (doc document.Acquired, err error) {
	ttl, locker := in.Body.TTL.Duration, a.lockers[in.Body.AllowEvictable]
	if err := names.CheckLeaseTTL(ttl); err != nil { // before the first call takes the lease
		return doc, err
	}
	opts := lease.AcquireConfig{Wait: min(in.wait(), a.cfg.MaxBlock), Metadata: string(in.Body.Metadata), Token: string(in.Body.Token)}
	if opts.Token == "" && reqid.Seeded(ctx) {
		opts.Token = reqid.Next(ctx) // with which a repeat adopts the lease
	}
	waiting, done := a.whileServing(ctx)
	defer done()
	held, err := locker.Acquire(waiting, in.Name, min(ttl, firstTTL), opts)
	if err != nil {
		return doc, err
	}
	doc = document.Acquired{Token: held.Token, Fence: held.Fence, Deadline: held.ServerDeadline().UnixMilli()}
	if ttl > firstTTL {
		info, err := locker.Refresh(ctx, in.Name, held.Token, ttl)
		if err != nil {
			return doc, err
		}
		doc.Deadline = info.Deadline.UnixMilli()
	}
	return doc, nil
}

// firstTTL is for how long a lease is acquired; for more, it is refreshed at once.
// This process does not hold it and need not know when it ends, but a [lease.Lease]
// stays in memory until its deadline, which may be a year away.
const firstTTL = time.Minute

// refreshRequest asks for more time.
type refreshRequest struct {
	Token document.Text     `json:"token" doc:"The one that acquire answered with." example:"\"ODZ4YB3RQJ5TKWUVHLCXNME7AI\""`
	TTL   document.Duration `json:"ttl" doc:"For how long to hold it from now on, from 10ms to 8784h." example:"10m"`
}

func (a *API) refreshLease(ctx context.Context, in *namedWith[refreshRequest]) (doc document.Refreshed, err error) {
	info, err := a.lockers[false].Refresh(ctx, in.Name, string(in.Body.Token), in.Body.TTL.Duration)
	if err != nil {
		return doc, err
	}
	return document.OfRefreshed(info), nil
}

// releaseRequest gives a lease up.
type releaseRequest struct {
	Token document.Text `json:"token" doc:"The one that acquire answered with." example:"\"ODZ4YB3RQJ5TKWUVHLCXNME7AI\""`
}

func (a *API) releaseLease(ctx context.Context, in *namedWith[releaseRequest]) (document.Released, error) {
	return document.Released{Released: true}, a.lockers[false].Release(ctx, in.Name, string(in.Body.Token))
}
