package fairqueue

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/fairqueue/queuestats"
	"github.com/millrace/millrace/internal/test/redistest"
)

// throttleVerb is the verb by which a handler that returns Throttle settles its message.
const throttleVerb = "t"

func throttle(t *testing.T, q *Queue, m Message, d time.Duration) error {
	t.Helper()
	_, err := q.shared.work(t.Context(), []workRequest{{q: q, settle: []settlement{{m.receipt(), throttleVerb, settleArg(d, "")}}}}, false)
	return err
}

// flights returns how many deliveries of each tenant are in flight.
func flights(t *testing.T, q *Queue) map[string]int {
	t.Helper()
	r, there := readRaw(t, q)
	if !there {
		t.Fatal("the server does not answer")
	}
	flying := map[string]int{}
	for _, d := range r.deliveries {
		tenant, _ := readFlow(d.owner)
		flying[tenant]++
	}
	return flying
}

// restLeft returns everything that a queue without messages still stores of tenants, "" for nothing.
func restLeft(t *testing.T, q *Queue) string {
	t.Helper()
	var left []string
	for _, part := range []string{"asleep", "buckets", "blocked", "active"} {
		members, err := do(t, q.run.Client, "ZRANGE", baseKey(q.name)+":"+part, "0", "-1").AsStrSlice()
		if err != nil {
			t.Fatal(err)
		}
		if text := strings.Trim(strings.Join(members, " "), "~ "); text != "" {
			left = append(left, part+": "+strconv.Quote(text))
		}
	}
	fields, err := do(t, q.run.Client, "HKEYS", baseKey(q.name)+":hot").AsStrSlice()
	if err != nil {
		t.Fatal(err)
	}
	fields = slices.DeleteFunc(fields, func(f string) bool { return f == "" || f == "w" || f == "t" || f == failingField || f[0] == 'l' })
	if text := strings.Join(fields, " "); text != "" {
		left = append(left, "work: "+strconv.Quote(text))
	}
	return strings.Join(left, "; ")
}

func wantRest(t *testing.T, q *Queue) {
	t.Helper()
	if left := restLeft(t, q); left != "" {
		t.Errorf("a queue at rest keeps %s", left)
	}
}

// awaitRest reads until the queue has forgotten all.
func awaitRest(t *testing.T, q *Queue) {
	t.Helper()
	redistest.Eventually(t, "the queue is at rest", func() bool {
		read(t, q, 1)
		if _, err := q.tend(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		return restLeft(t, q) == ""
	})
}

// ownOf sets each of the limits for a tenant itself.
func ownOf(l queuestats.Limits) OwnLimits {
	if l.Weight == 0 {
		l.Weight = 1
	}
	return OwnLimits{&l.Weight, &l.MaxInFlight, &l.MaxShare, &l.Rate, &l.Burst, &l.MaxWaiting, &l.Paused}
}

func (m *limitsModel) change(of string, change func(*OwnLimits)) {
	l := m.limits[of]
	change(&l)
	m.limits[of] = l
	m.forgive()
}

func (m *limitsModel) clear(of string) {
	delete(m.limits, of)
	m.forgive()
}

// forgive notes that the next read of a tenant empties its bucket down to a burst of the rate
// that it has now.
func (m *limitsModel) forgive() {
	for of, full := range m.early {
		if l := m.effective(of); l.Rate > 0 {
			m.early[of] = min(full, m.now+time.Duration(burst(l))*interval(l))
		}
	}
}

func (m *limitsModel) pause(of string, d time.Duration) {
	if d == 0 {
		m.asleep[of] = forever
	} else {
		m.sleep(of, m.now+d)
	}
}

func (m *limitsModel) resume(of string) { delete(m.asleep, of) }

// kind is the kind of the message's receipt.
func (k *limited) kind() string {
	return strings.ToLower(k.how)
}

// counts reports whether the delivery of the message is counted for limits: a delivery to a reader
// from before the queue's first limit is not.
func (k *limited) counts() bool { return k.kind() != "r" }

func (c *limitsMachine) flights() map[string]int {
	got := map[string]int{}
	for _, k := range c.model.messages {
		if !isFlying(k) {
			continue
		}
		if k.counts() {
			got[tenantFlow(k.tenant)]++
		}
	}
	return got
}
