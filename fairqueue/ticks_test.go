package fairqueue

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/millrace/millrace/schedule"
)

// TestPlanTicks plans ticks that no process noticed in time.
func TestPlanTicks(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	at := func(minutes ...int) (list []time.Time) {
		for _, m := range minutes {
			list = append(list, start.Add(time.Duration(m)*time.Minute))
		}
		return list
	}
	for _, c := range []struct {
		name   string
		missed schedule.Missed
		now    time.Duration // from start, which is the next tick of one each 10 minutes
		want   plan
	}{
		{"not due", schedule.Once, -time.Second, plan{next: at(0)[0]}},
		{"due", schedule.Once, 0, plan{fire: at(0), next: at(10)[0]}},
		{"late", schedule.Skip, time.Minute, plan{fire: at(0), next: at(10)[0]}},
		{"missed, once", schedule.Once, time.Minute + 1, plan{fire: at(0), next: at(10)[0]}},
		{"missed, skip", schedule.Skip, time.Minute + 1, plan{missed: 1, next: at(10)[0]}},
		{"missed, all", schedule.All, time.Minute + 1, plan{fire: at(0), next: at(10)[0]}},
		{"three missed, once", schedule.Once, 25 * time.Minute, plan{fire: at(20), missed: 2, next: at(30)[0]}},
		{"three missed, skip", schedule.Skip, 25 * time.Minute, plan{missed: 3, next: at(30)[0]}},
		{"three missed, all", schedule.All, 25 * time.Minute, plan{fire: at(0, 10, 20), next: at(30)[0]}},
		{"two missed and one in time, once", schedule.Once, 20 * time.Minute, plan{fire: at(10, 20), missed: 1, next: at(30)[0]}},
		{"two missed and one in time, skip", schedule.Skip, 20 * time.Minute, plan{fire: at(20), missed: 2, next: at(30)[0]}},
	} {
		s := Schedule{Name: "x", Spec: every(t, 10*time.Minute), Missed: c.missed}
		if diff := cmp.Diff(c.want, planTicks(s, start, start.Add(c.now)), cmp.AllowUnexported(plan{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func every(t *testing.T, d time.Duration) schedule.Spec {
	t.Helper()
	spec, err := schedule.Every(d)
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

// TestPlansAddUp: whatever the steps, each tick has a message or is counted as missed, in order,
// and the outcome is that of the policy.
func TestPlansAddUp(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		s := Schedule{
			Name:   "x",
			Spec:   every(t, time.Duration(rapid.IntRange(1, 400).Draw(r, "interval"))*time.Second),
			Missed: rapid.SampledFrom([]schedule.Missed{schedule.Once, schedule.Skip, schedule.All}).Draw(r, "missed"),
			Jitter: time.Duration(rapid.IntRange(0, 90).Draw(r, "jitter")) * time.Second,
		}
		first := s.Spec.Next(time.Unix(rapid.Int64Range(0, 1e9).Draw(r, "start"), 0))
		now, next := first, first
		var fired []time.Time
		missed := int64(0)
		for range 5 {
			now = now.Add(time.Duration(rapid.IntRange(0, 20_000_000).Draw(r, "pause")) * time.Millisecond)
			before := len(fired)
			for steps := 0; ; steps++ {
				p := planTicks(s, next, now)
				if p.next.Equal(next) && len(p.fire) == 0 {
					break
				}
				if steps > 20_000 {
					r.Fatal("the steps have no end")
				}
				fired, missed, next = append(fired, p.fire...), missed+p.missed, p.next
			}
			late := 0
			for _, tick := range fired[before:] {
				if now.Sub(tick) > missedAfter+s.Jitter {
					late++
				}
			}
			if s.Missed == schedule.Skip && late > 0 || s.Missed == schedule.Once && late > 1 {
				r.Fatalf("%s: %d missed ticks have messages", s.Missed, late)
			}
		}
		ticks := int64(next.Sub(first) / (s.Spec.Next(first).Sub(first)))
		if int64(len(fired))+missed != ticks || s.Missed == schedule.All && missed > 0 {
			r.Fatalf("%s: %d ticks, %d messages, %d missed", s.Missed, ticks, len(fired), missed)
		}
		for i, tick := range fired {
			if i > 0 && !tick.After(fired[i-1]) {
				r.Fatalf("tick %s comes after %s", tick, fired[i-1])
			}
		}
	})
}

// TestJitter is spread, less than its bound, and the same each time.
func TestJitter(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	seen := map[time.Duration]bool{}
	for i := range 1000 {
		tick := start.Add(time.Duration(i) * time.Hour)
		d := jitter("x", tick, time.Minute)
		if d < 0 || d >= time.Minute || d != jitter("x", tick.In(time.FixedZone("", 3600)), time.Minute) {
			t.Fatalf("jitter %s", d)
		}
		seen[d/(6*time.Second)] = true
	}
	if len(seen) != 10 {
		t.Errorf("the jitter is in %d tenths of the minute", len(seen))
	}
	if jitter("x", start, 0) != 0 {
		t.Error("jitter without a bound")
	}
}
