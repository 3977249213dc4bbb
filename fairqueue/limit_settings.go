package fairqueue

import (
	"cmp"
	"context"
	"iter"
	"strings"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue/queuestats"
)

// LimitSettings are the limits of a queue's tenants, and the default for all of them, which are
// those of the tenant "". They are stored in the queue and apply to all processes. A change acts
// at once: messages in flight stay so, and the next deliveries obey it.
type LimitSettings struct{ q *Queue }

// Limits returns the limits of the queue's tenants.
func (q *Queue) Limits() LimitSettings { return LimitSettings{q} }

// TenantLimits are the limits of a tenant.
type TenantLimits struct {
	Tenant string // empty for the default

	queuestats.Limits           // those that apply; Paused also because of a pause or a throttle
	Own               OwnLimits // those of them that are stored for the tenant itself
	PausedUntil       time.Time // the end of a pause or a throttle, in the year 9999 of one without an end; zero for none
}

// Get returns the limits of a tenant. Those of the tenant "" are the default.
//
// Errors: [millrace.ErrNotFound], [millrace.ErrBadArgument], [millrace.ErrBroken],
// [millrace.ErrVersion].
func (s LimitSettings) Get(ctx context.Context, tenant string) (TenantLimits, error) {
	l, _, err := s.get(ctx, tenant)
	return l, err
}

// get returns the limits of a tenant, and the default.
func (s LimitSettings) get(ctx context.Context, tenant string) (l TenantLimits, general OwnLimits, err error) {
	if err := checkTenant(tenant); err != nil {
		return l, general, err
	}
	reply, _, err := look{q: s.q, name: "rules"}.start(ctx, [][]string{
		{"HGET", ":limits", defaultField}, {"HGET", ":limits", limitsField(tenant)}, {"ZSCORE", ":asleep", tenantFlow(tenant)},
	})
	if err != nil {
		return l, general, err
	}
	l.Tenant, general = tenant, readOwnLimits(reply.Text())
	l.read(reply.Text(), general)
	l.pause(reply.Text())
	return l, general, reply.Err()
}

// read sets the stored limits, as text for the tenant itself.
func (l *TenantLimits) read(text string, general OwnLimits) {
	l.Own = readOwnLimits(text)
	l.Limits = l.Own.over(general)
}

// pause sets the end of a pause or a throttle: a score of asleep. A sleep because of a rate is none.
func (l *TenantLimits) pause(score string) {
	if until, byRate := wakeTime(score); !byRate && !until.IsZero() {
		l.Paused, l.PausedUntil = true, until
	}
}

// Set sets those limits of a tenant, or with the tenant "" of the default, that are not nil. The
// others stay. Set creates the queue if there is none. A repeat is harmless.
//
// A changed default takes a call for each 50 tenants that wait because of their rate. If the
// caller is killed between these calls, they wait for as long as the old rate says, or until Set is
// repeated.
//
// Errors: [millrace.ErrBadArgument], also in a queue with streams; [millrace.ErrFull] if there is no
// queue; [millrace.ErrBroken], [millrace.ErrVersion].
func (s LimitSettings) Set(ctx context.Context, tenant string, l OwnLimits) error {
	change, err := l.change()
	return s.set(ctx, tenant, change, false, true, err)
}

// SetIfUnset is Set for those limits that are not set. Programs call it when they start, to give
// the default or a tenant limits that an operator may change: it never changes a limit that is
// set, also by an earlier SetIfUnset.
//
// Errors: as of [LimitSettings.Set].
func (s LimitSettings) SetIfUnset(ctx context.Context, tenant string, l OwnLimits) error {
	change, err := l.change()
	return s.set(ctx, tenant, change, true, true, err)
}

// Clear forgets limits of a tenant, so that the default applies again, or with the tenant "" limits
// of the default: those of these names, such as "max_in_flight", or all without a name. It does not end
// a pause of [LimitSettings.Pause].
//
// Errors: as of [LimitSettings.Get]; [millrace.ErrBadArgument] also in a queue with streams.
func (s LimitSettings) Clear(ctx context.Context, tenant string, names ...string) error {
	change, err := clearing(names)
	return s.set(ctx, tenant, change, false, false, err)
}

// set has the script tenant change limits, unless the change is bad. The script compares in the
// same step.
func (s LimitSettings) set(ctx context.Context, tenant, change string, ifUnset, create bool, bad error) error {
	if err := cmp.Or(bad, checkTenant(tenant)); err != nil {
		return err
	}
	if s.q.cfg.Streams > 0 && create { // the script looks at the queue that exists
		return errNoTenantFlows
	}
	for {
		answer, err := s.q.changeTenant(ctx, limitsField(tenant), "limit", change, flag(ifUnset))
		switch {
		case err == errNotFound && create: //nolint:errorlint // changeTenant returns it as it is
			if err := s.q.create(ctx); err != nil {
				return err
			}
		case err != nil || tenant != "" || answer == "0":
			return err
		default:
			return s.review(ctx)
		}
	}
}

// review ends the sleep of tenants that wait because of the rate of an earlier default.
func (s LimitSettings) review(ctx context.Context) error {
	for score, skip := "-inf", "0"; score != ""; {
		answer, err := s.q.changeTenant(ctx, defaultField, "review", score, skip)
		if err != nil {
			return err
		}
		score, skip, _ = strings.Cut(answer, " ")
	}
	return nil
}

// All yields all limits that are stored, the default first. Limits that change meanwhile may be
// left out.
//
// Errors: as of [LimitSettings.Get].
func (s LimitSettings) All(ctx context.Context) iter.Seq2[TenantLimits, error] {
	return func(yield func(TenantLimits, error) bool) {
		general, err := s.Get(ctx, "")
		if err != nil {
			yield(TenantLimits{}, err)
			return
		}
		if general.Own != (OwnLimits{}) && !yield(general, nil) {
			return
		}
		seen := map[string]bool{"": true} // a hash that grows is shown twice in part
		for after := "0"; ; {
			var page []TenantLimits
			if page, after, err = s.page(ctx, after, general.Own); err != nil {
				yield(TenantLimits{}, err)
				return
			}
			for _, l := range page {
				if !seen[l.Tenant] && !yield(l, nil) {
					return
				}
				seen[l.Tenant] = true
			}
			if after == "0" {
				return
			}
		}
	}
}

// page returns limits that are stored, and where the next page begins, "0" at the end.
func (s LimitSettings) page(ctx context.Context, after string, general OwnLimits) (list []TenantLimits, next string, err error) {
	rules := look{q: s.q, name: "rules"}
	reply, _, err := rules.start(ctx, [][]string{{"HSCAN", ":limits", after, "COUNT", "100"}})
	if err != nil {
		return nil, "", err
	}
	scan := reply.List()
	next = scan.Text()
	var scores [][]string
	for field, text := range scan.Fields() {
		if tenant, _ := readFlow(field); tenant != "" { // else it is the placeholder or the default
			l := TenantLimits{Tenant: tenant}
			l.read(text, general)
			list, scores = append(list, l), append(scores, []string{"ZSCORE", ":asleep", field})
		}
	}
	if reply.Join(scan); reply.Err() != nil || len(list) == 0 {
		return nil, next, reply.Err()
	}
	if reply, err = rules.pipe(ctx, scores); err != nil {
		return nil, "", err
	}
	for i := range list {
		list[i].pause(reply.Text())
	}
	return list, next, reply.Err()
}

// Pause has the messages of a tenant wait for d, or with 0 until [LimitSettings.Resume]. Those in
// flight go on, and writing goes on. Of several pauses and throttles the longest counts. The tenant
// need not have messages.
//
// Errors: as of [LimitSettings.Get]; [millrace.ErrBadArgument] also in a queue with streams.
func (s LimitSettings) Pause(ctx context.Context, tenant string, d time.Duration) error {
	if d < 0 {
		return millrace.ErrBadArgument.Errorf("the pause is negative: %s", d)
	}
	if err := checkOneTenant(tenant); err != nil {
		return err
	}
	pause := "+inf"
	if d > 0 {
		pause = millis(d)
	}
	_, err := s.q.changeTenant(ctx, tenantFlow(tenant), "suspend", pause)
	return err
}

// Resume ends a pause and a throttle of a tenant. If its limits say Paused, that ends, too; where the
// default says so, the tenant gets a limit of its own.
//
// Errors: as of [LimitSettings.Pause].
func (s LimitSettings) Resume(ctx context.Context, tenant string) error {
	if err := checkOneTenant(tenant); err != nil {
		return err
	}
	if _, err := s.q.changeTenant(ctx, tenantFlow(tenant), "resume"); err != nil {
		return err
	}
	l, general, err := s.get(ctx, tenant)
	own := l.Own.Paused
	switch {
	case err != nil:
		return err
	case first(false, general.Paused) && first(true, own):
		return s.Set(ctx, tenant, OwnLimits{Paused: new(false)})
	case first(false, own):
		return s.Clear(ctx, tenant, "paused")
	}
	return nil
}

// changeTenant calls the script tenant.
func (q *Queue) changeTenant(ctx context.Context, args ...string) (string, error) {
	reply, err := q.call(ctx, "tenant", args...)
	if err != nil {
		return "", err
	}
	if reply.None() {
		return "", errNotFound
	}
	answer := reply.Text()
	if answer == "streams" {
		return "", errNoTenantFlows
	}
	return answer, reply.Err()
}
