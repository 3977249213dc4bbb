package fairqueue

import (
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue/queuestats"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/internal/test/scripttest"
)

// TestPauseOfATenantThatSleeps: a pause holds though the rate makes the tenant wait for longer, and
// when the rate has gone.
func TestPauseOfATenantThatSleeps(t *testing.T) {
	t.Parallel()
	q, a := open(t, Config{}), "a"
	want(t, "limits", nil, nil, q.Limits().Set(t.Context(), a, OwnLimits{Rate: new(0.0001), Burst: new(1)}))
	write(t, q, "a:1 a:2")
	want(t, "messages", len(read(t, q, 2)), 1, nil)
	want(t, "messages", len(read(t, q, 2)), 0, nil)
	want(t, "pause", nil, nil, q.Limits().Pause(t.Context(), a, time.Hour))
	want(t, "clear", nil, nil, q.Limits().Clear(t.Context(), a))
	want(t, "messages of a paused tenant", len(read(t, q, 2)), 0, nil)
	want(t, "resume", nil, nil, q.Limits().Resume(t.Context(), a))
	want(t, "messages", len(read(t, q, 2)), 1, nil)
}

// TestStreamsHaveNoLimits: the queue that exists decides, whatever a process would create.
func TestStreamsHaveNoLimits(t *testing.T) {
	t.Parallel()
	q := open(t, Config{Streams: 4, PerTenant: 2})
	write(t, q, "a:1")
	other, ctx := openOn(t, q.run.Client, q.name, Config{}), t.Context()
	for _, of := range []string{"", "a"} {
		wantError(t, other.Limits().Set(ctx, of, OwnLimits{MaxInFlight: new(1)}), errNoTenantFlows)
		l, err := other.Limits().Get(ctx, of)
		want(t, "limits of its own", l.Own, OwnLimits{}, err)
	}
	wantError(t, other.Limits().Pause(ctx, "a", 0), errNoTenantFlows)
	_, err := other.PurgeTenant(ctx, "a")
	wantError(t, err, errNoTenantFlows)
	want(t, "messages", len(read(t, other, 2)), 1, nil)
}

// TestPurgeLeavesNothing of the messages: neither of those with a deadline, a delay or a dedupe id.
func TestPurgeLeavesNothing(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	for _, d := range []Draft{{TTL: time.Hour}, {TTL: time.Hour, Delay: time.Minute}, {DedupeID: "once"}} {
		d.Tenant = "a"
		_, err := q.Write(t.Context(), d)
		want(t, "write", nil, nil, err)
	}
	n, err := q.PurgeTenant(t.Context(), "a")
	want(t, "purged", n, 3, err)
	want(t, "messages", len(read(t, q, 2)), 0, nil)
	wantNothingLeft(t, q)
}

// TestLimitsThatManyChange at once: none overwrites another one's change.
func TestLimitsThatManyChange(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	for range 20 {
		var changing sync.WaitGroup
		for _, change := range []OwnLimits{{MaxInFlight: new(5)}, {MaxWaiting: new(7)}, {Weight: new(2.5)}, {Rate: new(10.0)}, {Burst: new(3)}} {
			changing.Go(func() {
				if err := q.Limits().Set(t.Context(), "a", change); err != nil {
					t.Error(err)
				}
			})
		}
		changing.Wait()
		l, err := q.Limits().Get(t.Context(), "a")
		want(t, "limits", l.Limits, queuestats.Limits{Weight: 2.5, MaxInFlight: 5, MaxWaiting: 7, Rate: 10, Burst: 3}, err)
		want(t, "clear", nil, nil, q.Limits().Clear(t.Context(), "a"))
	}
}

// TestClockGoesBackUnderARate: afterwards a tenant waits for its rate, not for the old time.
func TestClockGoesBackUnderARate(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	scripts := clocked(t, library)
	scripttest.Load(t, client, scripts)
	q := openOn(t, client, redistest.Name(t), Config{})
	q.run.Scripts = scripts
	at := func(d time.Duration) {
		micros := strconv.FormatInt((limitsStart + d).Microseconds(), 10)
		want(t, "clock", nil, nil, do(t, client, "SET", baseKey(q.name)+":clock", micros).Error())
	}
	at(time.Hour)
	want(t, "limits", nil, nil, q.Limits().Set(t.Context(), "", OwnLimits{Rate: new(1.0), Burst: new(1)}))
	write(t, q, "a:1 a:2")
	want(t, "messages", len(read(t, q, 1)), 1, nil)
	at(0)
	want(t, "messages within a second", len(read(t, q, 1)), 0, nil)
	at(2 * time.Second)
	want(t, "messages", len(read(t, q, 1)), 1, nil)
}

// TestUpkeepKeepsWhatSomebodySet: limits and pauses outlive messages, upkeep, and the time after which an
// idle queue is removed.
func TestUpkeepKeepsWhatSomebodySet(t *testing.T) {
	t.Parallel()
	of := "a"
	for name, c := range map[string]struct{ set, clear func(q *Queue) error }{
		"limits": {
			func(q *Queue) error {
				return q.Limits().Set(t.Context(), of, OwnLimits{MaxInFlight: new(1), Paused: new(true)})
			},
			func(q *Queue) error { return q.Limits().Clear(t.Context(), of) },
		},
		"a pause": {
			func(q *Queue) error { return q.Limits().Pause(t.Context(), of, 0) },
			func(q *Queue) error { return q.Limits().Resume(t.Context(), of) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const idle = 20 * time.Millisecond
			q := open(t, Config{IdleExpiry: idle})
			write(t, q, "a:1")
			ack(t, q, read(t, q, 1)...)
			want(t, "set", nil, nil, c.set(q))
			for range 3 {
				passes(t, q.run.Client, 2*idle)
				if _, err := q.tend(t.Context(), ""); err != nil {
					t.Fatal(err)
				}
			}
			write(t, q, "a:2")
			want(t, "messages of a tenant that is stopped", len(read(t, q, 1)), 0, nil)
			want(t, "clear", nil, nil, c.clear(q))
			ack(t, q, read(t, q, 1)...)
			redistest.Eventually(t, "the queue is removed", func() bool {
				passes(t, q.run.Client, 2*idle)
				_, err := q.tend(t.Context(), "")
				_, missing := q.Stats(t.Context())
				return err == nil && errors.Is(missing, millrace.ErrNotFound)
			})
		})
	}
}

// TestManyTenantsAtALimit: a message is found behind more flows that may not start than one call puts aside.
func TestManyTenantsAtALimit(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	const tenants = 150
	for range 2 {
		if _, err := q.WriteBatch(t.Context(), manyDrafts(tenants, Draft{})...); err != nil {
			t.Fatal(err)
		}
	}
	want(t, "limits", nil, nil, q.Limits().Set(t.Context(), "", OwnLimits{MaxInFlight: new(1)}))
	want(t, "one of each tenant", len(read(t, q, tenants)), tenants, nil)
	write(t, q, "zoe:x") // its flow comes last
	want(t, "the other tenant's", len(read(t, q, 1)), 1, nil)
}

// TestPurgesAtOnce of several tenants leave nothing of them, though each changes the ranks of the others' messages.
func TestPurgesAtOnce(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	drafts := make([]Draft, 1500)
	for i := range drafts {
		drafts[i] = Draft{Tenant: []string{"a", "p", "q", "r"}[i%4], Delay: time.Hour + time.Duration(i/500)*time.Minute}
	}
	_, err := q.WriteBatch(t.Context(), drafts...)
	want(t, "write", nil, nil, err)
	var purging sync.WaitGroup
	for _, tenant := range []string{"p", "q", "q", "r"} {
		purging.Go(func() {
			if _, err := q.PurgeTenant(t.Context(), tenant); err != nil {
				t.Error(err)
			}
		})
	}
	purging.Wait()
	want(t, "messages that are left", stats(t, q).Delayed, len(drafts)/4, nil)
}

// TestAMissingBodyUnderARate: the flow keeps a place.
func TestAMissingBodyUnderARate(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	want(t, "limits", nil, nil, q.Limits().Set(t.Context(), "a", OwnLimits{Rate: new(0.01), Burst: new(2)}))
	ids := write(t, q, "a:1 a:2 a:3")
	want(t, "delete", nil, nil, do(t, q.run.Client, "HDEL", baseKey(q.name)+":hot", ids[0]).Error())
	want(t, "messages", bodies(read(t, q, 3)), "2 3", nil)
	write(t, q, "a:4")
	want(t, "messages", bodies(read(t, q, 3)), "", nil)
	there, _ := readRaw(t, q)
	want(t, "what is wrong", there.wrongs(), "", nil)
}

// TestHighWeightsDiffer: turns are in proportion up to the highest weight.
func TestHighWeightsDiffer(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	for tenant, weight := range map[string]float64{"a": 91, "b": 99} {
		want(t, "weight", nil, nil, setWeight(q, t.Context(), tenant, weight))
		writeAll(t, q, 1200, Draft{Tenant: tenant})
	}
	counts := map[string]int{}
	for range 19 {
		for _, m := range read(t, q, 100) {
			counts[m.Tenant]++
		}
	}
	if n := counts["b"]; n < 980 || n > 1000 {
		t.Errorf("of 1,900 deliveries a weight of 99 beside 91 had %d, want about 990", n)
	}
}
