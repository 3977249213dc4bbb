package api

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/jsontype"
	"github.com/millrace/millrace/internal/names"
	"github.com/millrace/millrace/internal/ops"
	"github.com/millrace/millrace/internal/redis/reqid"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/lease"
	"github.com/millrace/millrace/server/internal/access"
)

func (a *API) routeLeases() {
	register(a, ops.ListLeases, func(ctx context.Context, _ *ops.Nothing) (ops.LeaseNames, error) {
		names, missing, err := a.namesOf(ctx, lease.List)
		return ops.LeaseNames{Leases: names, Incomplete: missing}, err
	})
	ask(a, a.openLease, ops.GetLease)
	register(a, ops.AcquireLease, a.acquireLease)
	on(a, ops.RefreshLease.Row, a.openLease, func(ctx context.Context, l ops.OneLease, in *namedWith[ops.Refresh]) (ops.Refreshed, error) {
		ends := time.Now().Add(in.Body.TTL.Duration)
		defer func() { trueFor(ctx, time.Until(ends)) }()
		return ops.RefreshLease.Do(ctx, l, in.Body)
	})
	on(a, ops.ReleaseLease.Row, a.openLease, func(ctx context.Context, l ops.OneLease, in *namedWith[releaseRequest]) (ops.Released, error) {
		return ops.ReleaseLease.Do(ctx, l, in.Body.Holder)
	})
}

// openLease returns the lease that a request is about.
func (a *API) openLease(_ context.Context, in hasName) (ops.OneLease, error) {
	return ops.OneLease{Of: a.lockers[false], Name: in.Structure()}, nil
}

type releaseRequest struct{ ops.Holder }

// OfOperator reports whether the lease is released for its holder by another client.
func (r releaseRequest) OfOperator(ctx context.Context) bool { return !issuedTo(ctx, string(r.Token)) }

type acquireRequest struct {
	Named

	Body struct {
		ops.Acquire

		Token jsontype.Text `json:"token,omitempty" doc:"Identifies the holder: 1 to 64 bytes that nobody can guess. Acquiring again with it adopts the lease. Defaults to a random token." example:"\"ODZ4YB3RQJ5TKWUVHLCXNME7AI\""`
	} `nameHint:"AcquireRequest"`
}

func (r *acquireRequest) wait() (field string, d time.Duration) { return "wait", r.Body.Wait.Duration }

// firstTTL is the longest TTL of an Acquire; for a longer one, the lease is refreshed at
// once. This process does not need to know when the lease ends, but a [lease.Lease]
// stays in memory until its deadline, which may be a year away.
const firstTTL = time.Minute

func (a *API) acquireLease(ctx context.Context, in *acquireRequest) (doc ops.Acquired, err error) {
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
	doc = ops.Grant(held)
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
