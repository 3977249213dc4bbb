package fairqueue

import (
	"math"
	"time"

	"github.com/millrace/millrace/fairqueue/queuestats"
)

// The model of limits says how many deliveries they allow at an instant, as the documentation
// does. Time is the test's: see clocked.

// limited is a message in the model of limits.
type limited struct {
	id, tenant string
	state      state
	handled    bool          // it is in flight with a handler of Consume
	until      time.Duration // the end of its visibility or delay
	receipt    string
	how        string // the kind of its delivery
}

// limitsModel is a queue with limits.
type limitsModel struct {
	now      time.Duration // since 1970
	capacity float64       // handlers of Consume
	limits   map[string]OwnLimits
	asleep   map[string]time.Duration // until when a tenant is paused or throttled
	full     map[string]time.Duration // when its bucket is full again, at the latest
	early    map[string]time.Duration // the earliest time of that: a new rate forgives all but one burst of it
	messages map[string]*limited      // those that are not gone, by id
}

// forever is the end of a pause that only a call ends.
const forever = time.Duration(math.MaxInt64)

func newLimitsModel(now time.Duration) *limitsModel {
	return &limitsModel{
		now: now, limits: map[string]OwnLimits{}, asleep: map[string]time.Duration{}, full: map[string]time.Duration{}, early: map[string]time.Duration{},
		messages: map[string]*limited{},
	}
}

// effective returns the limits that apply to a tenant.
func (m *limitsModel) effective(of string) queuestats.Limits {
	own, general := m.limits[of], m.limits[""]
	l := queuestats.Limits{Weight: 1}
	for _, o := range []OwnLimits{general, own} { // the tenant's own last
		set(&l.Weight, o.Weight)
		set(&l.MaxInFlight, o.MaxInFlight)
		set(&l.MaxShare, o.MaxShare)
		set(&l.Rate, o.Rate)
		set(&l.Burst, o.Burst)
		set(&l.MaxWaiting, o.MaxWaiting)
		set(&l.Paused, o.Paused)
	}
	return l
}

// set sets a value if there is one.
func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

// count returns how many messages of a tenant are in a state that good accepts.
func (m *limitsModel) count(of string, good func(*limited) bool) (n int) {
	for _, k := range m.messages {
		if k.tenant == of && good(k) {
			n++
		}
	}
	return n
}

func isWaiting(k *limited) bool { return k.state == waiting }
func isFlying(k *limited) bool  { return k.state == flying || k.state == ghost }
func isHandled(k *limited) bool { return isFlying(k) && k.handled }

func interval(l queuestats.Limits) time.Duration { return time.Duration(float64(time.Second) / l.Rate) }

func burst(l queuestats.Limits) int {
	if l.Burst > 0 {
		return l.Burst
	}
	return max(2, int(l.Rate/10))
}

// room returns how many deliveries the limits of one tenant allow now, if its bucket is full
// again at this time.
func (m *limitsModel) room(of string, handlers bool, full map[string]time.Duration) int {
	l := m.effective(of)
	if l.Paused || m.asleep[of] > m.now {
		return 0
	}
	room := math.MaxInt
	if l.MaxInFlight > 0 {
		room = min(room, l.MaxInFlight-m.count(of, func(k *limited) bool { return isFlying(k) && k.counts() }))
	}
	if l.MaxShare > 0 && handlers {
		room = min(room, max(1, int(l.MaxShare*m.capacity))-m.count(of, func(k *limited) bool { return isHandled(k) && k.counts() }))
	}
	if l.Rate > 0 {
		// Each delivery fills the bucket for an interval, which has room for burst intervals.
		free := time.Duration(burst(l))*interval(l) - max(0, full[of]-m.now)
		room = min(room, int(free/interval(l)))
	}
	return max(0, room)
}

// deliverable returns how many messages a reader must get if it asks for as many as there
// are: capacity is never idle while a message may be delivered.
func (m *limitsModel) deliverable(handlers bool) (n int) {
	tenants := map[string]int{} // those that wait
	for _, k := range m.messages {
		if k.state == waiting {
			tenants[k.tenant]++
		}
	}
	for tenant, waiting := range tenants {
		n += min(waiting, m.room(tenant, handlers, m.full))
	}
	return n
}

// deliver notes a delivery, and reports whether the limits of its tenant forbid it.
func (m *limitsModel) deliver(k *limited, receipt string, handlers bool, visibility time.Duration) (refused bool) {
	of := k.tenant
	refused = m.room(of, handlers, m.early) == 0
	if l := m.effective(of); l.Rate > 0 {
		m.full[of] = max(m.full[of], m.now) + interval(l)
		m.early[of] = max(m.early[of], m.now) + interval(l)
	}
	k.state, k.receipt, k.handled, k.until = flying, receipt, handlers, m.now+visibility
	return refused
}

// refuses reports whether a write that waits at once is one too many.
func (m *limitsModel) refuses(tenant string) bool {
	l := m.effective(tenant)
	return l.MaxWaiting > 0 && m.count(tenant, isWaiting) >= l.MaxWaiting
}

// head returns the message of a tenant that is next.
func (m *limitsModel) head(tenant string) (head *limited) {
	for _, k := range m.messages {
		if k.state == waiting && k.tenant == tenant && (head == nil || k.id < head.id) {
			head = k
		}
	}
	return head
}

// pass lets time pass, and does due work.
func (m *limitsModel) pass(d time.Duration) {
	m.now += d
	for id, k := range m.messages {
		switch {
		case k.until > m.now:
		case k.state == aside || k.state == flying:
			k.state, k.receipt = waiting, ""
		case k.state == ghost:
			delete(m.messages, id)
		}
	}
}

// sleep pauses or throttles a tenant until an instant, or later if it sleeps already.
func (m *limitsModel) sleep(of string, until time.Duration) { m.asleep[of] = max(m.asleep[of], until) }
