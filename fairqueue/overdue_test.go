package fairqueue

import (
	"testing"
	"time"

	"github.com/millrace/millrace/schedule"
)

// TestOverdueSchedules: Stats counts schedules whose tick is late by more than a minute and the
// jitter, also if it was refused and is looked for later. Paused ones are not late.
func TestOverdueSchedules(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	spec, err := schedule.Every(time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	late := func(name string, ago, jitter time.Duration, change func(*scheduleEntry), retry time.Duration) {
		t.Helper()
		s := Schedule{Name: name, Spec: spec, Jitter: jitter, Draft: Draft{Tenant: "acme", Headers: map[string]string{"jitter_ms": "7"}}}
		if err := q.Schedules().Set(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		now, entries, err := q.schedules(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		e := entries[0]
		e.next = now.Add(-ago)
		if change != nil {
			change(&e)
		}
		due := e.due()
		if retry > 0 {
			due = millis(time.Duration(now.Add(retry).UnixMilli()) * time.Millisecond)
		}
		if done, err := q.reschedule(t.Context(), &e, due, ""); !done || err != nil {
			t.Fatal(done, err)
		}
	}
	if s := func() Stats { write(t, q, "a:x"); return stats(t, q) }(); s.Schedules != 0 || s.OverdueSchedules != 0 {
		t.Errorf("%d schedules, %d overdue, want none", s.Schedules, s.OverdueSchedules)
	}
	late("in time", -time.Hour, 0, nil, 0)
	late("just due", 50*time.Second, 0, nil, 0)
	late("in its jitter", 2*time.Minute, time.Hour, nil, 5*time.Second)
	late("paused", time.Hour, 0, func(e *scheduleEntry) { e.paused = true }, 0)
	if s := stats(t, q); s.Schedules != 4 || s.OverdueSchedules != 0 {
		t.Errorf("%d schedules, %d overdue, want 4 and none", s.Schedules, s.OverdueSchedules)
	}
	late("late", 2*time.Minute, 0, nil, 0)
	late("late for its jitter", 2*time.Minute, 30*time.Second, nil, 0)
	late("refused", 2*time.Minute, 0, func(e *scheduleEntry) { e.trouble = "full" }, 5*time.Second)
	if s := stats(t, q); s.Schedules != 7 || s.OverdueSchedules != 3 {
		t.Errorf("%d schedules, %d overdue, want 7 and 3", s.Schedules, s.OverdueSchedules)
	}
}
