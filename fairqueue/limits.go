package fairqueue

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue/queuestats"
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

// checkOneTenant is checkTenant where the default is not allowed.
func checkOneTenant(tenant string) error {
	if tenant == "" {
		return millrace.ErrBadArgument.Errorf("the tenant is empty").
			WithHint("Name a tenant. For all tenants use Pause and Resume of the queue.")
	}
	return checkTenant(tenant)
}

// OwnLimits are limits as they are stored for a tenant, each on its own. For a field that is nil the default applies, also when
// that changes later. The default is stored in the same way, and a nil field there means no limit.
type OwnLimits struct {
	// Weight is how many turns the tenant has for each turn of a tenant of weight 1, from
	// its next message on: 0.01 to 100. Defaults to 1.
	Weight *float64

	// MaxInFlight is how many messages may be in flight at once, of Consume and Read
	// alike. Messages that were read before the queue had its first limit of this kind or
	// of MaxShare do not count.
	// Defaults to 0, no limit.
	MaxInFlight *int

	// MaxShare is the part of all handlers of Consume that may work for the tenant, 0 to
	// 1, and at least one handler. Defaults to 0, no limit.
	MaxShare *float64

	// Rate is how many deliveries per second start while there is a backlog, 0.000001 to
	// 1,000,000. Each delivery counts, also one that is handed back, with its cost: see
	// [Draft].Cost. Defaults to 0, no limit.
	Rate *float64

	// Burst is how many deliveries, or how much cost, may start at once after a rest. Only with Rate. A
	// delivery that starts late is credited, up to Burst - 1 deliveries: so with a Burst
	// of 1 each bit of lateness counts, and a tenant gets less than its Rate.
	// Defaults to a tenth of a second's worth, at least 2.
	Burst *int

	// MaxWaiting is how many messages may wait. Those with a delay or in flight do not
	// count, and one that comes again is never refused. A write beyond is
	// [ErrTenantFull]. Defaults to 0, no limit.
	MaxWaiting *int

	// Paused has messages wait. Defaults to off.
	Paused *bool
}

// limitNames are the names of limits, in the order of their fields.
var limitNames = []string{"weight", "max_in_flight", "max_share", "rate", "burst", "max_waiting", "paused"}

// over returns the limits that apply if o is a tenant's and general the default.
func (o OwnLimits) over(general OwnLimits) queuestats.Limits {
	return queuestats.Limits{
		Weight:      first(1, o.Weight, general.Weight),
		MaxInFlight: first(0, o.MaxInFlight, general.MaxInFlight),
		MaxShare:    first(0, o.MaxShare, general.MaxShare),
		Rate:        first(0, o.Rate, general.Rate),
		Burst:       first(0, o.Burst, general.Burst),
		MaxWaiting:  first(0, o.MaxWaiting, general.MaxWaiting),
		Paused:      first(false, o.Paused, general.Paused),
	}
}

// first returns the first value that there is.
func first[T any](otherwise T, values ...*T) T {
	for _, v := range values {
		if v != nil {
			return *v
		}
	}
	return otherwise
}

// Bounds of limits: numbers in scripts are exact up to 2^53, and instants are microseconds.
const (
	minRate, maxRate = 1e-6, 1e6
	maxCount         = 1_000_000_000
	maxRest          = 1e8 // seconds: how long a burst takes to fill up
)

func (o OwnLimits) check() error {
	bad := millrace.ErrBadArgument
	within := func(n int) bool { return n >= 0 && n <= maxCount }
	l := o.over(OwnLimits{})
	switch {
	case !(l.Weight >= 0.01 && l.Weight <= 100):
		return bad.Errorf("a weight is from 0.01 to 100, not %g", l.Weight)
	case !within(l.MaxInFlight):
		return bad.Errorf("MaxInFlight is %d, not 0 to %d", l.MaxInFlight, maxCount)
	case !(l.MaxShare >= 0 && l.MaxShare <= 1):
		return bad.Errorf("MaxShare is %g, not 0 to 1", l.MaxShare)
	case l.Rate != 0 && !(l.Rate >= minRate && l.Rate <= maxRate):
		return bad.Errorf("a rate is from %g to %g messages per second, not %g", minRate, maxRate, l.Rate)
	case !within(l.Burst):
		return bad.Errorf("Burst is %d, not 0 to %d", l.Burst, maxCount)
	case l.Burst > 0 && o.Rate != nil && l.Rate == 0:
		return bad.Errorf("Burst is %d, but Rate is 0", l.Burst)
	case l.Burst > 0 && l.Rate > 0 && float64(l.Burst)/l.Rate > maxRest:
		return bad.Errorf("a burst of %d takes years to fill up at a rate of %g", l.Burst, l.Rate)
	case !within(l.MaxWaiting):
		return bad.Errorf("MaxWaiting is %d, not 0 to %d", l.MaxWaiting, maxCount)
	}
	return nil
}

// Words of limits for scripts: one that the default decides, and in a change one that stays.
const unsetWord, keptWord = "-", "."

// words are the limits as scripts have them, in the order of limitNames, with a word for nil.
func (o OwnLimits) words(absent string) []string {
	number := func(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
	return []string{
		word(o.Weight, number, absent), word(o.MaxInFlight, strconv.Itoa, absent), word(o.MaxShare, number, absent),
		word(o.Rate, number, absent), word(o.Burst, strconv.Itoa, absent), word(o.MaxWaiting, strconv.Itoa, absent), word(o.Paused, flag, absent),
	}
}

func word[T any](value *T, text func(T) string, absent string) string {
	if value == nil {
		return absent
	}
	return text(*value)
}

// change returns the arguments with which the script tenant sets them.
func (o OwnLimits) change() (string, error) { return strings.Join(o.words(keptWord), " "), o.check() }

// clearing returns its arguments to forget those of these names, or all without one.
func clearing(names []string) (string, error) {
	if len(names) == 0 {
		names = limitNames
	}
	words := OwnLimits{}.words(keptWord)
	for _, name := range names {
		i := slices.Index(limitNames, name)
		if i < 0 {
			return "", millrace.ErrBadArgument.Errorf("there is no limit %.40q", name).WithHint("Limits are " + strings.Join(limitNames, ", ") + ".")
		}
		words[i] = unsetWord
	}
	return strings.Join(words, " "), nil
}

// readOwnLimits reads limits as they are stored.
func readOwnLimits(text string) (o OwnLimits) {
	words := strings.Fields(text)
	if len(words) != len(limitNames) { // else scripts wrote them
		return o
	}
	count := func(i int) *int {
		n, err := strconv.Atoi(words[i])
		return unless(&n, err)
	}
	number := func(i int) *float64 {
		f, err := strconv.ParseFloat(words[i], 64)
		return unless(&f, err)
	}
	on, err := strconv.ParseBool(words[6])
	return OwnLimits{number(0), count(1), number(2), number(3), count(4), count(5), unless(&on, err)}
}

// unless returns the value if there is no error.
func unless[T any](value *T, err error) *T {
	if err != nil {
		return nil
	}
	return value
}

// wakeTime reads a score of asleep: until when a flow sleeps, zero if it does not, and whether it does because of its rate.
func wakeTime(score string) (at time.Time, byRate bool) {
	ms, err := strconv.ParseFloat(score, 64)
	switch {
	case err != nil:
		return at, false
	case math.IsInf(ms, 1):
		return farFuture, false
	}
	return time.UnixMilli(int64(math.Ceil(ms))), ms != math.Floor(ms)
}

// farFuture is the end of a pause that only a call ends.
var farFuture = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)

type throttleError struct {
	error

	pause time.Duration
}

// errThrottled has the code by which hooks know such an error.
var errThrottled = &millrace.Error{Code: "throttled", Message: "the handler throttles its tenant"}

func (e throttleError) Unwrap() []error { return []error{errThrottled, e.error} }

// Throttle is for a handler that is told to slow down, for example by an API that has a limit
// for each customer. The messages of the tenant wait for d, and this one is the next of them,
// which is no attempt. In a queue with streams only this message waits. Throttle(d, nil) is nil.
func Throttle(d time.Duration, err error) error {
	if err == nil {
		return nil
	}
	return throttleError{error: err, pause: d}
}
