package api

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/document"
	"github.com/millrace/millrace/internal/names"
	"github.com/millrace/millrace/internal/ops"
	"github.com/millrace/millrace/internal/redis/reqid"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/lease"
	"github.com/millrace/millrace/server/internal/access"
)

const leasePath = "/v1/leases/{name}"

func (a *API) routeLeases() {
	register(a, op(http.MethodGet, "/v1/leases", "listLeases", "List the leases by name",
		"Leases that are held, or were held within the last minute. Leases that were held only for a moment are left out."),
		func(ctx context.Context, _ *ops.Nothing) (leaseNames, error) {
			names, missing, err := a.namesOf(ctx, lease.List)
			return leaseNames{names, missing}, err
		})
	register(a, op(http.MethodGet, leasePath, "getLease", "Show who holds a lease, and for how long",
		"A lease that was never held is not held. The answer contains the holder's token, with which any client can release the lease of a holder that will not return; the audit log then says who did."),
		func(ctx context.Context, in *Named) (document.Lease, error) {
			info, err := a.lockers[false].Show(ctx, in.Name)
			return document.OfLease(info), err
		})
	register(a, op(http.MethodPost, leasePath+"/acquire", "acquireLease", "Acquire a lease, or wait for it",
		"It is held until its deadline by the server's clock, or until it is released. While it has another holder, the request waits as long as wait says. Then it fails with the code held, which shows the remaining time and the holder's metadata. Waiters have no order.",
		http.StatusInsufficientStorage), a.acquireLease)
	register(a, op(http.MethodPost, leasePath+"/refresh", "refreshLease", "Hold a lease longer",
		"It never moves the deadline back. A lease that expired or was released is lost."),
		func(ctx context.Context, in *namedWith[refreshRequest]) (doc document.Refreshed, err error) {
			ends := time.Now().Add(in.Body.TTL.Duration)
			defer func() { trueFor(ctx, time.Until(ends)) }()
			info, err := a.lockers[false].Refresh(ctx, in.Name, string(in.Body.Token), in.Body.TTL.Duration)
			if err != nil {
				return doc, err
			}
			return document.OfRefreshed(info), nil
		})
	register(a, op(http.MethodPost, leasePath+"/release", "releaseLease", "Release a lease before its deadline",
		"The last token that released a lease may release it again for a minute; any other token has lost it."),
		func(ctx context.Context, in *namedWith[releaseRequest]) (document.Released, error) {
			return document.Released{Released: true}, a.lockers[false].Release(ctx, in.Name, string(in.Body.Token))
		})
}

type leaseNames struct {
	Leases []document.Text `json:"leases" doc:"Their names, sorted by their bytes."`
	document.Incomplete
}

type acquireRequest struct {
	Named

	Body struct {
		TTL            document.Duration `json:"ttl" doc:"How long to hold it, from 10ms to 8784h." example:"10m"`
		Wait           document.Duration `json:"wait,omitzero" doc:"How long to wait while it has another holder. Defaults to 0s, no waiting." example:"30s"`
		Metadata       document.Text     `json:"metadata,omitempty" doc:"A description of the holder, shown to others; at most 4,096 bytes." example:"\"host a\""`
		Token          document.Text     `json:"token,omitempty" doc:"Identifies the holder: 1 to 64 bytes that nobody can guess. Acquiring again with it adopts the lease. Defaults to a random token." example:"\"ODZ4YB3RQJ5TKWUVHLCXNME7AI\""`
		AllowEvictable bool              `json:"allow_evictable,omitempty" doc:"Accept a server that may evict the lease when its memory is full: for leases that only avoid duplicate work."`
	} `nameHint:"AcquireRequest"`
}

func (r *acquireRequest) wait() (field string, d time.Duration) { return "wait", r.Body.Wait.Duration }

// firstTTL is the longest TTL of an Acquire; for a longer one, the lease is refreshed at
// once. This process does not need to know when the lease ends, but a [lease.Lease]
// stays in memory until its deadline, which may be a year away.
const firstTTL = time.Minute

func (a *API) acquireLease(ctx context.Context, in *acquireRequest) (doc document.Acquired, err error) {
	ttl, locker := in.Body.TTL.Duration, a.lockers[in.Body.AllowEvictable]
	if err := names.CheckLeaseTTL(ttl); err != nil { // before the first call takes the lease
		return doc, err
	}
	opts := lease.AcquireConfig{Wait: in.Body.Wait.Duration, Metadata: string(in.Body.Metadata), Token: string(in.Body.Token)}
	if opts.Token == "" {
		opts.Token = issue(ctx, reqid.Next(ctx))
		if !reqid.Seeded(ctx) { // else a repeat adopts the lease
			defer func() {
				if err != nil && !errors.Is(err, lease.ErrHeld) {
					a.giveBack(ctx, locker, in.Name, opts.Token)
				}
			}()
		}
	}
	waiting, done := a.whileServing(ctx)
	defer done()
	held, err := locker.Acquire(waiting, in.Name, min(ttl, firstTTL), opts)
	if err != nil {
		return doc, err
	}
	ends := held.Deadline()
	defer func() { trueFor(ctx, time.Until(ends)) }()
	doc = document.Acquired{Token: held.Token, Fence: held.Fence, Deadline: held.ServerDeadline().UnixMilli()}
	if ttl > firstTTL {
		ends = time.Now().Add(ttl)
		info, err := locker.Refresh(ctx, in.Name, held.Token, ttl)
		if err != nil {
			return doc, err
		}
		doc.Deadline = info.Deadline.UnixMilli()
	}
	return doc, nil
}

// giveBack releases a lease whose token no client has, if it was acquired. The acquisition may
// still be on its way, so a release that finds no lease is repeated.
func (a *API) giveBack(ctx context.Context, locker *lease.Locker, name, token string) {
	a.background.Go(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.cfg.Timeout)
		defer cancel()
		if errors.Is(locker.Release(ctx, name, token), lease.ErrLost) && retry.Sleep(ctx, time.Second) {
			_ = locker.Release(ctx, name, token) // otherwise it expires
		}
	})
}

// issue returns the token of a lease that a client acquires. It ends with a mark of the client,
// by which the audit log tells a release by the holder from one by another client.
func issue(ctx context.Context, random string) string {
	return random + "." + hash(access.Of(ctx).Name, random)[:12]
}

// issuedTo reports whether a token was issued to the client of a request.
func issuedTo(ctx context.Context, token string) bool {
	random, _, _ := strings.Cut(token, ".")
	return token == issue(ctx, random)
}

type refreshRequest struct {
	Token document.Text     `json:"token" doc:"The token that acquire returned." example:"\"ODZ4YB3RQJ5TKWUVHLCXNME7AI\""`
	TTL   document.Duration `json:"ttl" doc:"How long to hold it from now on, from 10ms to 8784h." example:"10m"`
}

type releaseRequest struct {
	Token document.Text `json:"token" doc:"The token that acquire returned." example:"\"ODZ4YB3RQJ5TKWUVHLCXNME7AI\""`
}
