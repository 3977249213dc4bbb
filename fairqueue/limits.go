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

// Owner says whose limits are meant: {} is the default of the queue, {Tenant} a tenant without
// an account, {Account} an account as a whole, {Account, Tenant} one tenant of an account. The
// default counts for each tenant without an account, and for each account, that has no limits
// of its own. It does not count for a tenant of an account.
type Owner struct{ Account, Tenant string }

// defaultOwner is the field of the default, which no owner has.
const defaultOwner = "default"

// member is the owner as scripts know it.
func (o Owner) member() string {
	switch {
	case o == Owner{}:
		return defaultOwner
	case o.Tenant == "":
		return accountUnit(o.Account)
	}
	return tenantFlow(o.Account, o.Tenant)
}

func readOwner(member string) (o Owner) {
	if account, ok := strings.CutPrefix(member, "@"); ok {
		o.Account = unescape.Replace(account)
	} else if member != defaultOwner {
		o.Account, o.Tenant, _ = readFlow(member)
	}
	return o
}

func (o Owner) check() error {
	switch {
	case len(o.Account) > maxLabel:
		return millrace.ErrBadArgument.Errorf("the account has %d bytes, more than %d", len(o.Account), maxLabel)
	case len(o.Tenant) > maxLabel:
		return millrace.ErrBadArgument.Errorf("the tenant has %d bytes, more than %d", len(o.Tenant), maxLabel)
	}
	return nil
}

// checkOne is check for what the default cannot have.
func (o Owner) checkOne() error {
	if o == (Owner{}) {
		return millrace.ErrBadArgument.Errorf("the owner is empty").
			WithHint("Name a tenant, an account or both. For all tenants use Pause and Resume of the queue.")
	}
	return o.check()
}

// inside reports whether the owner is a tenant of an account.
func (o Owner) inside() bool { return o.Account != "" && o.Tenant != "" }

// Limits are the limits of an owner. The zero value limits nothing. Limits of an owner replace
// the default as a whole.
type Limits struct {
	// Weight is how many turns the owner has for each turn of an owner of weight 1, from
	// its next message on: 0.01 to 100. A tenant of an account has none. Defaults to 1.
	Weight float64

	// MaxInFlight is how many messages may be in flight at once, of Consume and Read
	// alike. Messages that were read before the queue had its first limit of this kind or
	// of MaxShare do not count.
	// Defaults to 0, no limit.
	MaxInFlight int

	// MaxShare is the part of all handlers of Consume that may work for the owner, 0 to
	// 1, and at least one handler. Defaults to 0, no limit.
	MaxShare float64

	// Rate is how many deliveries per second may start, 0.000001 to 1,000,000. Each
	// delivery counts, also one that is handed back. Defaults to 0, no limit.
	Rate float64

	// Burst is how many deliveries may start at once after a rest. Only with Rate.
	// Defaults to a tenth of a second's worth, at least 1.
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

func (l Limits) check(of Owner) error {
	bad := millrace.ErrBadArgument
	within := func(n int) bool { return n >= 0 && n <= maxCount }
	switch {
	case of.inside() && l.Weight != 0 && l.Weight != 1:
		return bad.Errorf("a tenant of an account has no weight").
			WithHint("Give the account the weight. The tenants of an account take turns of one message each.")
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

// readLimits reads the limits of an owner. Without a text there are none.
func readLimits(text string, of Owner) Limits {
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
	if of.inside() {
		l.Weight = 0
	}
	return l
}

// OwnLimits are limits that are stored for an owner.
type OwnLimits struct {
	Owner
	Limits
}

// Limits returns the limits that apply to an owner, and whether they are its own; else they are
// the default, which is no limit unless somebody set one.
//
// Errors: [millrace.ErrNotFound], [millrace.ErrBadArgument], [millrace.ErrBroken],
// [millrace.ErrVersion].
func (q *Queue) Limits(ctx context.Context, of Owner) (l Limits, own bool, err error) {
	l, own, _, err = q.limits(ctx, of)
	return l, own, err
}

// limits is Limits, with the text of what applies.
func (q *Queue) limits(ctx context.Context, of Owner) (l Limits, own bool, text string, err error) {
	if err := of.check(); err != nil {
		return l, false, "", err
	}
	reply, err := q.call(ctx, "rules", of.member(), "")
	if err != nil {
		return l, false, "", err
	}
	if reply.None() {
		return l, false, "", errNotFound
	}
	text, own = reply.Maybe()
	general, _ := reply.Maybe()
	if !own && !of.inside() {
		text = general
	}
	return readLimits(text, of), own, text, reply.Err()
}

// ChangeLimits changes the limits of an owner, for all processes and at once: what is in flight
// goes on, and what comes next obeys them. The function gets those that apply, and is called
// again if another process changed them at the same time. ChangeLimits creates the queue if
// there is none.
//
// A changed default takes a call for each 50 tenants that wait because of their rate. If the
// caller is killed between these calls, they wait for as long as the old rate says.
//
// Errors: [millrace.ErrBadArgument], also in a queue with streams; [millrace.ErrBroken],
// [millrace.ErrVersion].
func (q *Queue) ChangeLimits(ctx context.Context, of Owner, change func(*Limits)) error {
	if err := q.checkTenantFlows(); err != nil {
		return err
	}
	l, _, before, err := q.limits(ctx, of)
	if err == errNotFound { //nolint:errorlint // limits returns it as it is
		l, err = readLimits("", of), nil
	}
	for err == nil {
		change(&l)
		if err = l.check(of); err != nil {
			return err
		}
		var done bool
		if done, before, err = q.setLimits(ctx, of, before, l.text()); done {
			return q.review(ctx, of)
		}
		l = readLimits(before, of)
	}
	return err
}

// ClearLimits removes the limits of an owner, so that the default applies again, or with the
// empty owner removes the default. It does not end a pause of [Queue.PauseTenant].
//
// Errors: as of [Queue.Limits].
func (q *Queue) ClearLimits(ctx context.Context, of Owner) error {
	_, own, before, err := q.limits(ctx, of)
	for own && err == nil {
		var done bool
		if done, before, err = q.setLimits(ctx, of, before, ""); done {
			return q.review(ctx, of)
		}
	}
	return err
}

// setLimits stores limits if others than before do not apply. It returns those that do.
func (q *Queue) setLimits(ctx context.Context, of Owner, before, after string) (done bool, now string, err error) {
	reply, err := q.call(ctx, "limit", of.member(), before, after)
	if err != nil {
		return false, "", err
	}
	verdict, now := reply.Int(), reply.Text()
	if verdict == 2 {
		return false, "", errNoTenantFlows
	}
	return verdict == 1, now, reply.Err()
}

// review ends the sleep of owners that wait because of the rate of an earlier default.
func (q *Queue) review(ctx context.Context, of Owner) error {
	score, skip := "-inf", "0"
	for of == (Owner{}) && score != "" {
		reply, err := q.call(ctx, "review", score, skip)
		if err != nil {
			return err
		}
		if score, skip = reply.Text(), reply.Text(); reply.Err() != nil {
			return reply.Err()
		}
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
		l, own, err := q.Limits(ctx, Owner{})
		if err != nil {
			yield(OwnLimits{}, err)
			return
		}
		if own && !yield(OwnLimits{Limits: l}, nil) {
			return
		}
		seen := map[Owner]bool{{}: true} // a hash that grows is shown twice in part
		for after := "0"; ; {
			reply, err := q.call(ctx, "rules", "", after)
			if err == nil && reply.None() {
				err = errNotFound
			}
			if err != nil {
				yield(OwnLimits{}, err)
				return
			}
			after = reply.Text()
			for reply.More() {
				of := readOwner(reply.Text())
				l := readLimits(reply.Text(), of)
				if !seen[of] && !yield(OwnLimits{of, l}, nil) {
					return
				}
				seen[of] = true
			}
			if err := reply.Err(); err != nil {
				yield(OwnLimits{}, err)
			}
			if reply.Err() != nil || after == "0" {
				return
			}
		}
	}
}

// PauseTenant has the messages of an owner wait for d, or with 0 until [Queue.ResumeTenant].
// Those in flight go on, and writing goes on. Of several pauses and throttles the longest
// counts. The owner need not have messages.
//
// Errors: as of [Queue.Limits]; [millrace.ErrBadArgument] also in a queue with streams.
func (q *Queue) PauseTenant(ctx context.Context, of Owner, d time.Duration) error {
	if d < 0 {
		return millrace.ErrBadArgument.Errorf("the pause is negative: %s", d)
	}
	pause := "+inf"
	if d > 0 {
		pause = millis(d)
	}
	return q.nap(ctx, of, pause)
}

// ResumeTenant ends a pause and a throttle of an owner, and sets Paused of its limits to off: if
// the default has it, the owner gets limits of its own.
// Errors: as of [Queue.PauseTenant].
func (q *Queue) ResumeTenant(ctx context.Context, of Owner) error {
	if err := q.nap(ctx, of, ""); err != nil {
		return err
	}
	l, _, err := q.Limits(ctx, of)
	if err != nil || !l.Paused {
		return err
	}
	return q.ChangeLimits(ctx, of, func(l *Limits) { l.Paused = false })
}

func (q *Queue) nap(ctx context.Context, of Owner, pause string) error {
	if err := of.checkOne(); err != nil {
		return err
	}
	return q.change(ctx, "nap", of.member(), pause)
}

// PurgeTenant removes the messages of an owner that wait or are delayed, and returns how many.
// Those in flight stay. [Counters].Cancelled counts them. It takes a call for each 33 messages,
// and for each 300 that are delayed.
//
// Errors: as of [Queue.PauseTenant].
func (q *Queue) PurgeTenant(ctx context.Context, of Owner) (n int, err error) {
	if err := of.checkOne(); err != nil {
		return 0, err
	}
	for place := "0"; ; {
		reply, err := q.call(ctx, "sweep", of.member(), place)
		if err != nil {
			return n, err
		}
		before := place
		place = reply.Text()
		removed := int(reply.Int())
		n += removed
		switch {
		case reply.Err() != nil:
			return n, reply.Err()
		case place == "none":
			return n, errNotFound
		case place == "streams":
			return n, errNoTenantFlows
		case before == "" && removed < heavyPage:
			return n, nil
		}
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

// farFuture is the end of a pause that somebody must end.
var farFuture = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)

type throttleError struct {
	error

	pause time.Duration
}

func (e throttleError) Unwrap() error { return e.error }

// Throttle is for a handler that is told to slow down, for example by an API that has a limit
// for each customer. The messages of the tenant wait for d, and this one is the next of them,
// which is no attempt. Of a tenant of an account only that tenant waits; to throttle the account, call
// [Queue.PauseTenant]. In a queue with streams only this message waits. Throttle(d, nil) is nil.
func Throttle(d time.Duration, err error) error {
	if err == nil {
		return nil
	}
	return throttleError{error: err, pause: d}
}
