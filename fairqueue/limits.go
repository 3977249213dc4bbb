package fairqueue

import (
	"context"
	"iter"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace"
)

// defaultField is the field of the default limits, which no tenant has. A tenant's begins with =.
const defaultField = "default"

// limitsField is the field of a tenant's limits, or of the default for "".
func limitsField(tenant string) string {
	if tenant == "" {
		return defaultField
	}
	return tenantFlow(tenant)
}

func checkTenant(tenant string) error {
	if len(tenant) > maxLabel {
		return millrace.ErrBadArgument.Errorf("the tenant has %d bytes, more than %d", len(tenant), maxLabel)
	}
	return nil
}

// checkOneTenant is checkTenant for what the default cannot have.
func checkOneTenant(tenant string) error {
	if tenant == "" {
		return millrace.ErrBadArgument.Errorf("the tenant is empty").
			WithHint("Name a tenant. For all tenants use Pause and Resume of the queue.")
	}
	return checkTenant(tenant)
}

// Limits are the limits of a tenant. The zero value limits nothing. Limits of a tenant replace
// the default as a whole.
type Limits struct {
	// Weight is how many turns the tenant has for each turn of a tenant of weight 1, from
	// its next message on: 0.01 to 100. Defaults to 1.
	Weight float64

	// MaxInFlight is how many messages may be in flight at once, of Consume and Read
	// alike. Messages that were read before the queue had its first limit of this kind or
	// of MaxShare do not count.
	// Defaults to 0, no limit.
	MaxInFlight int

	// MaxShare is the part of all handlers of Consume that may work for the tenant, 0 to
	// 1, and at least one handler. Defaults to 0, no limit.
	MaxShare float64

	// Rate is how many deliveries per second start while there is a backlog, 0.000001 to
	// 1,000,000. Each delivery counts, also one that is handed back. Defaults to 0, no limit.
	Rate float64

	// Burst is how many deliveries may start at once after a rest. Only with Rate. A
	// delivery that starts late is credited, up to Burst - 1 deliveries: so with a Burst
	// of 1 each bit of lateness counts, and a tenant gets less than its Rate.
	// Defaults to a tenth of a second's worth, at least 2.
	Burst int

	// MaxWaiting is how many messages may wait. Those with a delay or in flight do not
	// count, and one that comes again is never refused. A write beyond is
	// [ErrTenantFull]. Defaults to 0, no limit.
	MaxWaiting int

	// Paused has messages wait. Defaults to off.
	Paused bool
}

// Bounds of limits: numbers in scripts are exact up to 2^53, and instants are microseconds.
const (
	minRate, maxRate = 1e-6, 1e6
	maxCount         = 1_000_000_000
	maxRest          = 1e8 // seconds: how long a burst takes to fill up
)

func (l Limits) check() error {
	bad := millrace.ErrBadArgument
	within := func(n int) bool { return n >= 0 && n <= maxCount }
	switch {
	case l.Weight != 0 && !(l.Weight >= 0.01 && l.Weight <= 100):
		return bad.Errorf("a weight is from 0.01 to 100, not %g", l.Weight)
	case !within(l.MaxInFlight):
		return bad.Errorf("MaxInFlight is %d, not 0 to %d", l.MaxInFlight, maxCount)
	case !(l.MaxShare >= 0 && l.MaxShare <= 1):
		return bad.Errorf("MaxShare is %g, not 0 to 1", l.MaxShare)
	case l.Rate != 0 && !(l.Rate >= minRate && l.Rate <= maxRate):
		return bad.Errorf("a rate is from %g to %g messages per second, not %g", minRate, maxRate, l.Rate)
	case !within(l.Burst):
		return bad.Errorf("Burst is %d, not 0 to %d", l.Burst, maxCount)
	case l.Burst > 0 && l.Rate == 0:
		return bad.Errorf("Burst is %d, but Rate is 0", l.Burst)
	case l.Burst > 0 && float64(l.Burst)/l.Rate > maxRest:
		return bad.Errorf("a burst of %d takes years to fill up at a rate of %g", l.Burst, l.Rate)
	case !within(l.MaxWaiting):
		return bad.Errorf("MaxWaiting is %d, not 0 to %d", l.MaxWaiting, maxCount)
	}
	return nil
}

// text is what scripts read: weight, deliveries, share, rate, burst, waiting, paused.
func (l Limits) text() string {
	number := func(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
	weight := l.Weight
	if weight == 0 {
		weight = 1
	}
	return strings.Join([]string{
		number(weight), strconv.Itoa(l.MaxInFlight), number(l.MaxShare), number(l.Rate), strconv.Itoa(l.Burst),
		strconv.Itoa(l.MaxWaiting), flag(l.Paused),
	}, " ")
}

// readLimits reads limits. Without a text there are none.
func readLimits(text string) Limits {
	l := Limits{Weight: 1}
	if parts := strings.Fields(text); len(parts) == 7 { // that is what text writes
		l.Weight, _ = strconv.ParseFloat(parts[0], 64)
		l.MaxInFlight, _ = strconv.Atoi(parts[1])
		l.MaxShare, _ = strconv.ParseFloat(parts[2], 64)
		l.Rate, _ = strconv.ParseFloat(parts[3], 64)
		l.Burst, _ = strconv.Atoi(parts[4])
		l.MaxWaiting, _ = strconv.Atoi(parts[5])
		l.Paused = parts[6] == "1"
	}
	return l
}

// OwnLimits are limits that are stored for a tenant, or the default if Tenant is empty.
type OwnLimits struct {
	Tenant string
	Limits
}

// Limits returns the limits that apply to a tenant, and whether they are its own; else they are
// the default, which is no limit unless one was set. Those of the tenant "" are the default.
//
// Errors: [millrace.ErrNotFound], [millrace.ErrBadArgument], [millrace.ErrBroken],
// [millrace.ErrVersion].
func (q *Queue) Limits(ctx context.Context, tenant string) (l Limits, own bool, err error) {
	l, own, _, err = q.limits(ctx, tenant)
	return l, own, err
}

// limits is Limits, with the text of what applies.
func (q *Queue) limits(ctx context.Context, tenant string) (l Limits, own bool, text string, err error) {
	if err := checkTenant(tenant); err != nil {
		return l, false, "", err
	}
	reply, _, err := look{q: q, name: "rules"}.start(ctx, [][]string{{"HGET", ":limits", limitsField(tenant)}, {"HGET", ":limits", defaultField}})
	if err != nil {
		return l, false, "", err
	}
	text, own = reply.Maybe()
	general := reply.Text()
	if !own {
		text = general
	}
	return readLimits(text), own, text, reply.Err()
}

// ChangeLimits changes the limits of a tenant, or with the tenant "" the default, for all
// processes and at once: what is in flight goes on, and what comes next obeys them. The function
// gets those that apply, and is called again if another process changed them at the same time.
// ChangeLimits creates the queue if there is none.
//
// A changed default takes a call for each 50 tenants that wait because of their rate. If the
// caller is killed between these calls, they wait for as long as the old rate says.
//
// Errors: [millrace.ErrBadArgument], also in a queue with streams; [millrace.ErrBroken],
// [millrace.ErrVersion].
func (q *Queue) ChangeLimits(ctx context.Context, tenant string, change func(*Limits)) error {
	if err := q.checkTenantFlows(); err != nil {
		return err
	}
	l, _, before, err := q.limits(ctx, tenant)
	if err == errNotFound { //nolint:errorlint // limits returns it as it is
		l, err = readLimits(""), nil
	}
	for err == nil {
		change(&l)
		if err = l.check(); err != nil {
			return err
		}
		var done bool
		if done, before, err = q.setLimits(ctx, tenant, before, l.text()); done {
			return q.review(ctx, tenant)
		}
		l = readLimits(before)
	}
	return err
}

// ClearLimits removes the limits of a tenant, so that the default applies again, or with the
// tenant "" removes the default. It does not end a pause of [Queue.PauseTenant].
//
// Errors: as of [Queue.Limits].
func (q *Queue) ClearLimits(ctx context.Context, tenant string) error {
	_, own, before, err := q.limits(ctx, tenant)
	for own && err == nil {
		var done bool
		if done, before, err = q.setLimits(ctx, tenant, before, ""); done {
			return q.review(ctx, tenant)
		}
	}
	return err
}

// setLimits stores limits if others than before do not apply. It returns those that do.
func (q *Queue) setLimits(ctx context.Context, tenant, before, after string) (done bool, now string, err error) {
	answer, err := q.changeTenant(ctx, limitsField(tenant), "limit", before, after)
	if err == errNotFound { //nolint:errorlint // changeTenant returns it as it is
		return false, "", q.create(ctx)
	}
	verdict, now, _ := strings.Cut(answer, " ")
	return verdict == "1", now, err
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

// review ends the sleep of tenants that wait because of the rate of an earlier default.
func (q *Queue) review(ctx context.Context, tenant string) error {
	score, skip := "-inf", "0"
	for tenant == "" && score != "" {
		answer, err := q.changeTenant(ctx, defaultField, "review", score, skip)
		if err != nil {
			return err
		}
		score, skip, _ = strings.Cut(answer, " ")
	}
	return nil
}

// checkTenantFlows refuses limits in a queue that this process would create with streams. The
// scripts look at the queue that exists.
func (q *Queue) checkTenantFlows() error {
	if q.cfg.Streams > 0 {
		return errNoTenantFlows
	}
	return nil
}

// AllLimits yields all limits that are stored, the default first. Limits that change meanwhile
// may be left out.
//
// Errors: as of [Queue.Limits].
func (q *Queue) AllLimits(ctx context.Context) iter.Seq2[OwnLimits, error] {
	return func(yield func(OwnLimits, error) bool) {
		l, own, err := q.Limits(ctx, "")
		if err != nil {
			yield(OwnLimits{}, err)
			return
		}
		if own && !yield(OwnLimits{Limits: l}, nil) {
			return
		}
		seen := map[string]bool{"": true} // a hash that grows is shown twice in part
		for after := "0"; ; {
			reply, _, err := look{q: q, name: "rules"}.start(ctx, [][]string{{"HSCAN", ":limits", after, "COUNT", "100"}})
			if err != nil {
				yield(OwnLimits{}, err)
				return
			}
			page := reply.List()
			after = page.Text()
			for field, text := range page.Fields() {
				tenant, _ := readFlow(field) // "" of the placeholder and the default
				if !seen[tenant] && !yield(OwnLimits{tenant, readLimits(text)}, nil) {
					return
				}
				seen[tenant] = true
			}
			if reply.Join(page); reply.Err() != nil {
				yield(OwnLimits{}, reply.Err())
			}
			if reply.Err() != nil || after == "0" {
				return
			}
		}
	}
}

// PauseTenant has the messages of a tenant wait for d, or with 0 until [Queue.ResumeTenant].
// Those in flight go on, and writing goes on. Of several pauses and throttles the longest
// counts. The tenant need not have messages.
//
// Errors: as of [Queue.Limits]; [millrace.ErrBadArgument] also in a queue with streams.
func (q *Queue) PauseTenant(ctx context.Context, tenant string, d time.Duration) error {
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
	_, err := q.changeTenant(ctx, tenantFlow(tenant), "suspend", pause)
	return err
}

// ResumeTenant ends a pause and a throttle of a tenant, and sets Paused of its limits to off: if
// the default has it, the tenant gets limits of its own.
// Errors: as of [Queue.PauseTenant].
func (q *Queue) ResumeTenant(ctx context.Context, tenant string) error {
	if err := checkOneTenant(tenant); err != nil {
		return err
	}
	if _, err := q.changeTenant(ctx, tenantFlow(tenant), "resume"); err != nil {
		return err
	}
	l, _, err := q.Limits(ctx, tenant)
	if err != nil || !l.Paused {
		return err
	}
	return q.ChangeLimits(ctx, tenant, func(l *Limits) { l.Paused = false })
}

// PurgeTenant removes the messages of a tenant that wait or are delayed, and returns how many.
// Those in flight stay. [Counters].Cancelled counts them. It takes a call for each 33 messages,
// and for each 300 that are delayed.
//
// Errors: as of [Queue.PauseTenant].
func (q *Queue) PurgeTenant(ctx context.Context, tenant string) (n int, err error) {
	if err := checkOneTenant(tenant); err != nil {
		return 0, err
	}
	for place := "0"; ; {
		answer, err := q.changeTenant(ctx, tenantFlow(tenant), "purge", place)
		next, count, _ := strings.Cut(answer, " ")
		removed, _ := strconv.Atoi(count)
		n += removed
		if err != nil || place == "" && removed < heavyPage {
			return n, err
		}
		place = next
	}
}

// notBefore sets until when the flow sleeps: a score of asleep.
func (f *FlowStats) notBefore(score string) {
	ms, err := strconv.ParseFloat(score, 64)
	switch {
	case err != nil:
	case math.IsInf(ms, 1):
		f.Paused = true
		f.NotBefore = farFuture
	default:
		f.NotBefore = time.UnixMilli(int64(math.Ceil(ms)))
	}
}

// farFuture is the end of a pause that lasts until it is ended.
var farFuture = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)

type throttleError struct {
	error

	pause time.Duration
}

func (e throttleError) Unwrap() error { return e.error }

// Throttle is for a handler that is told to slow down, for example by an API that has a limit
// for each customer. The messages of the tenant wait for d, and this one is the next of them,
// which is no attempt. In a queue with streams only this message waits. Throttle(d, nil) is nil.
func Throttle(d time.Duration, err error) error {
	if err == nil {
		return nil
	}
	return throttleError{error: err, pause: d}
}
