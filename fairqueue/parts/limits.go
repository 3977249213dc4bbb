package parts

import (
	"context"
	"slices"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
)

// LimitSettings are the limits of the tenants of a queue, over the parts of each tenant together.
type LimitSettings struct{ q *Queue }

// Limits returns the limits of the queue's tenants.
func (q *Queue) Limits() LimitSettings { return LimitSettings{q} }

// Set sets limits of a tenant over its parts together: each of them gets its share of MaxInFlight,
// Rate, Burst and MaxWaiting, and the shares add up to the limit. No share is below one, so these
// limits are at least the number of the tenant's parts. Weight and Paused are the same in each part.
// MaxShare is a part of all handlers; in each of its parts a tenant may have at least one handler.
// Without Burst the tenant may start at least two deliveries at once in each part. Limits that are nil
// stay.
//
// Those of the tenant "" are the default for each tenant. There each part gets the same share,
// rounded down.
//
// Set creates parts that do not exist yet. After [millrace.ErrPartial] some parts have the old
// limits: repeat it. If two processes set limits at the same time, parts may have those of either.
// Set them again after a change of [Config.Parts] or PerTenant.
//
// Errors: those of [fairqueue.LimitSettings.Set], [millrace.ErrBadArgument] also for a limit below
// the number of parts, before a part is asked.
func (s LimitSettings) Set(ctx context.Context, tenant string, l fairqueue.OwnLimits) error {
	return s.set(ctx, tenant, l, fairqueue.LimitSettings.Set)
}

// SetIfUnset is Set for those limits that are not set: see [fairqueue.LimitSettings.SetIfUnset].
func (s LimitSettings) SetIfUnset(ctx context.Context, tenant string, l fairqueue.OwnLimits) error {
	return s.set(ctx, tenant, l, fairqueue.LimitSettings.SetIfUnset)
}

func (s LimitSettings) set(
	ctx context.Context, tenant string, l fairqueue.OwnLimits,
	do func(fairqueue.LimitSettings, context.Context, string, fairqueue.OwnLimits) error,
) error {
	q := s.q
	owned := q.partsOf(tenant)
	n := len(owned)
	if tenant == "" {
		n = len(q.ranked("")) // as many as each tenant has
	}
	for name, limit := range map[string]*int{"MaxInFlight": l.MaxInFlight, "Burst": l.Burst, "MaxWaiting": l.MaxWaiting} {
		if limit != nil && *limit != 0 && *limit < n {
			return millrace.ErrBadArgument.Errorf("%s is %d, less than one for each of %d parts", name, *limit, n).
				WithHint("Set at least one for each part, or a lower PerTenant for the queue.")
		}
	}
	return q.each(ctx, owned, func(p *part) error {
		within, cancel := context.WithTimeout(ctx, q.cfg.Timeout)
		defer cancel()
		at := n - 1 // of the smallest share
		if tenant != "" {
			at = slices.Index(owned, p)
		}
		return do(p.queue.Limits(), within, tenant, q.share(l, at, n))
	})
}

// share returns the limits of the part at an index of n.
func (q *Queue) share(l fairqueue.OwnLimits, at, n int) fairqueue.OwnLimits {
	for _, limit := range []**int{&l.MaxInFlight, &l.Burst, &l.MaxWaiting} {
		if *limit != nil {
			*limit = new((**limit + n - 1 - at) / n) // the first ones have the remainder
		}
	}
	if l.Rate != nil {
		l.Rate = new(*l.Rate / float64(n))
	}
	if l.MaxShare != nil && *l.MaxShare <= 1 { // else the part refuses it
		// A part counts only its own share of the handlers.
		l.MaxShare = new(min(1, *l.MaxShare*float64(len(q.parts))/float64(n)))
	}
	return l
}

// Clear forgets limits of a tenant in all parts, so that the default applies again. See
// [fairqueue.LimitSettings.Clear]. Errors: as of [Queue.Pause].
func (s LimitSettings) Clear(ctx context.Context, tenant string, names ...string) error {
	return s.q.all(ctx, func(ctx context.Context, p *part) error { return p.queue.Limits().Clear(ctx, tenant, names...) })
}

// Pause has the messages of a tenant wait for d in all parts, or with 0 until
// [LimitSettings.Resume]. See [fairqueue.LimitSettings.Pause].
//
// Errors: as of [Queue.Pause]; [millrace.ErrNotFound] for parts of the tenant without a first
// message, where nothing can be paused. Set with Paused creates them.
func (s LimitSettings) Pause(ctx context.Context, tenant string, d time.Duration) error {
	q := s.q
	owned := q.partsOf(tenant)
	return q.each(ctx, q.parts, func(p *part) error {
		within, cancel := context.WithTimeout(ctx, q.cfg.Timeout)
		defer cancel()
		err := p.queue.Limits().Pause(within, tenant, d)
		if !slices.Contains(owned, p) {
			err = ignoreMissing(err)
		}
		return err
	})
}

// Resume ends a pause and a throttle of a tenant in all parts. Errors: as of [Queue.Pause].
func (s LimitSettings) Resume(ctx context.Context, tenant string) error {
	return s.q.all(ctx, func(ctx context.Context, p *part) error { return p.queue.Limits().Resume(ctx, tenant) })
}

// PurgeTenant removes the messages of a tenant that wait or are delayed, from all parts, and
// returns how many. [Config.Timeout] does not end it. See [fairqueue.Queue.PurgeTenant].
//
// Errors: as of [Queue.Pause].
func (q *Queue) PurgeTenant(ctx context.Context, tenant string) (int, error) {
	counts := make([]int, len(q.parts))
	err := q.each(ctx, q.parts, func(p *part) (err error) {
		counts[p.index], err = p.queue.PurgeTenant(ctx, tenant)
		return ignoreMissing(err)
	})
	sum := 0
	for _, n := range counts {
		sum += n
	}
	return sum, err
}

// partsOf returns the parts of a tenant; those of the default are all.
func (q *Queue) partsOf(tenant string) []*part {
	if tenant == "" {
		return q.parts
	}
	return q.ranked(tenant)
}
