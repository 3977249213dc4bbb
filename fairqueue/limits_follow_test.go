package fairqueue

import (
	"testing"
	"time"

	"github.com/millrace/millrace/fairqueue/queuestats"
)

func setLimits(t *testing.T, q *Queue, of string, l OwnLimits) {
	t.Helper()
	want(t, "Limits.Set", nil, nil, q.Limits().Set(t.Context(), of, l))
}

func clearLimits(t *testing.T, q *Queue, of string, names ...string) {
	t.Helper()
	want(t, "Limits.Clear", nil, nil, q.Limits().Clear(t.Context(), of, names...))
}

func limitsOf(t *testing.T, q *Queue, of string) TenantLimits {
	t.Helper()
	l, err := q.Limits().Get(t.Context(), of)
	want(t, "Limits.Get", nil, nil, err)
	return l
}

// TestLimitsFollowTheDefault field by field, also when it changes later.
func TestLimitsFollowTheDefault(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	setLimits(t, q, "", OwnLimits{MaxInFlight: new(5), Weight: new(2.0)})
	setLimits(t, q, "a", OwnLimits{MaxWaiting: new(7)})
	want(t, "limits", limitsOf(t, q, "a").Limits, queuestats.Limits{Weight: 2, MaxInFlight: 5, MaxWaiting: 7}, nil)
	setLimits(t, q, "", OwnLimits{MaxInFlight: new(1)})
	a := limitsOf(t, q, "a")
	want(t, "limits after a change of the default", a.Limits, queuestats.Limits{Weight: 2, MaxInFlight: 1, MaxWaiting: 7}, nil)
	want(t, "its own", NamesOf(a.Own), []string{"max_waiting"}, nil)
	writeAll(t, q, 6, Draft{Tenant: "a"})
	got := read(t, q, 5)
	want(t, "messages with the default's most in flight", len(got), 1, nil)
	setLimits(t, q, "", OwnLimits{Rate: new(0.001), Burst: new(1)})
	ack(t, q, got...)
	got = read(t, q, 5)
	want(t, "messages with the default's rate", len(got), 1, nil)
	ack(t, q, got...)
	want(t, "messages in its interval", len(read(t, q, 5)), 0, nil)
	setLimits(t, q, "a", OwnLimits{Rate: new(0.0), MaxInFlight: new(3)})
	want(t, "messages with its own", len(read(t, q, 5)), 3, nil)
	setLimits(t, q, "a", OwnLimits{Weight: new(1.0)})
	clearLimits(t, q, "a", "max_in_flight", "max_waiting")
	want(t, "its own", NamesOf(limitsOf(t, q, "a").Own), []string{"weight", "rate"}, nil)
	clearLimits(t, q, "")
	want(t, "limits without a default", limitsOf(t, q, "a").Limits, queuestats.Limits{Weight: 1}, nil)
	want(t, "messages without a limit", len(read(t, q, 5)), 1, nil)
	for l, err := range q.Limits().All(t.Context()) {
		want(t, "stored", l.Tenant, "a", err)
	}
	clearLimits(t, q, "a", "weight", "rate")
	want(t, "its own", limitsOf(t, q, "a").Own, OwnLimits{}, nil)
	for l := range q.Limits().All(t.Context()) {
		t.Errorf("%+v is stored", l)
	}
}

// TestPauseOfTheDefault holds tenants with limits of their own, too, but one whose own limits say that it is not paused.
func TestPauseOfTheDefault(t *testing.T) {
	t.Parallel()
	for name, own := range map[string]OwnLimits{"a weight": {Weight: new(2.0)}, "most in flight": {MaxInFlight: new(9)}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := open(t, Config{})
			setLimits(t, q, "a", own)
			own.Paused = new(false)
			setLimits(t, q, "b", own)
			setLimits(t, q, "", OwnLimits{Paused: new(true)})
			write(t, q, "a:1 b:2 c:3")
			want(t, "messages", bodies(read(t, q, 5)), "2", nil)
			clearLimits(t, q, "")
			want(t, "messages", len(read(t, q, 5)), 2, nil)
		})
	}
}

// TestBurstOfTheDefault: with the low rate of a tenant it takes three years to fill, and no more.
func TestBurstOfTheDefault(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	setLimits(t, q, "", OwnLimits{Rate: new(1e6), Burst: new(maxCount)})
	setLimits(t, q, "a", OwnLimits{Rate: new(minRate)})
	writeAll(t, q, 150, Draft{Tenant: "a"})
	want(t, "messages", len(read(t, q, 100))+len(read(t, q, 50)), 101, nil)
	there, _ := readRaw(t, q)
	want(t, "what is wrong", there.wrongs(), "", nil)
}

// TestSetIfUnset: programs overwrite nothing that an operator set, whichever comes first.
func TestSetIfUnset(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	start := func() {
		t.Helper()
		want(t, "set if unset", nil, nil, q.Limits().SetIfUnset(t.Context(), "", OwnLimits{MaxInFlight: new(10), Rate: new(100.0)}))
	}
	start() // creates the queue
	want(t, "default", limitsOf(t, q, "").Limits, queuestats.Limits{Weight: 1, MaxInFlight: 10, Rate: 100}, nil)
	setLimits(t, q, "", OwnLimits{MaxInFlight: new(0), Weight: new(3.0)})
	before := dump(t, q)[""]
	start()
	want(t, "default", limitsOf(t, q, "").Limits, queuestats.Limits{Weight: 3, Rate: 100}, nil)
	want(t, "what is stored", dump(t, q)[""], before, nil)
	clearLimits(t, q, "", "max_in_flight")
	start()
	want(t, "default", limitsOf(t, q, "").Limits, queuestats.Limits{Weight: 3, MaxInFlight: 10, Rate: 100}, nil)
	want(t, "set if unset", nil, nil, q.Limits().SetIfUnset(t.Context(), "a", OwnLimits{Paused: new(true)}))
	want(t, "resume", nil, nil, q.Limits().Resume(t.Context(), "a"))
	want(t, "its own", limitsOf(t, q, "a").Own, OwnLimits{}, nil)
}

// TestPausesAreShown with the limits of the tenant, and as no limit of its own; a sleep because of a rate is no pause.
func TestPausesAreShown(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	setLimits(t, q, "c", OwnLimits{Rate: new(0.001), Burst: new(1)})
	write(t, q, "a:1 b:1 c:1 c:2")
	want(t, "pause", nil, nil, q.Limits().Pause(t.Context(), "a", 0))
	want(t, "pause", nil, nil, q.Limits().Pause(t.Context(), "b", time.Hour))
	want(t, "messages", bodies(read(t, q, 5)), "1", nil)
	a, b, c := limitsOf(t, q, "a"), limitsOf(t, q, "b"), limitsOf(t, q, "c")
	want(t, "paused", []bool{a.Paused, b.Paused, c.Paused}, []bool{true, true, false}, nil)
	want(t, "own", []OwnLimits{a.Own, b.Own}, []OwnLimits{{}, {}}, nil)
	now := stats(t, q).At
	if !a.PausedUntil.Equal(farFuture) || b.PausedUntil.Sub(now) < 59*time.Minute || b.PausedUntil.Sub(now) > time.Hour || !c.PausedUntil.IsZero() {
		t.Errorf("paused until %s, %s and %s, want for ever, for an hour and not", a.PausedUntil, b.PausedUntil, c.PausedUntil)
	}
	want(t, "pause", nil, nil, q.Limits().Pause(t.Context(), "c", time.Hour))
	for l, err := range q.Limits().All(t.Context()) {
		want(t, "c in the list", []any{l.Tenant, l.Paused, NamesOf(l.Own)}, []any{"c", true, []string{"rate", "burst"}}, err)
	}
	want(t, "resume", nil, nil, q.Limits().Resume(t.Context(), "a"))
	want(t, "after it is resumed", limitsOf(t, q, "a"), TenantLimits{Tenant: "a", Limits: queuestats.Limits{Weight: 1}}, nil)
}
