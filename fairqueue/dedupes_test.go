package fairqueue

import (
	"fmt"
	"testing"
	"time"
)

// TestDedupeIDsAreForgottenFaster than they are made: each write forgets twice as many whose window has passed as it
// adds, and upkeep all that are left.
func TestDedupeIDsAreForgottenFaster(t *testing.T) {
	t.Parallel()
	short := open(t, Config{DedupeWindow: time.Millisecond})
	long := openOn(t, short.run.Client, short.name, Config{DedupeWindow: time.Hour})
	next := 0
	write := func(q *Queue, n int) {
		t.Helper()
		drafts := make([]Draft, n)
		for i := range drafts {
			drafts[i] = Draft{Tenant: "a", DedupeID: fmt.Sprint(next)}
			next++
		}
		if _, err := q.WriteBatch(t.Context(), drafts...); err != nil {
			t.Fatal(err)
		}
	}
	remembered := func(what string, most int64) {
		t.Helper()
		for part, command := range map[string]string{"dedupe": "HLEN", "dedupes": "ZCARD"} {
			n, err := do(t, short.run.Client, command, baseKey(short.name)+":"+part).AsInt64()
			if n-1 > most || err != nil { // one is the placeholder
				t.Errorf("%s: %s has %d ids, %v, want at most %d", what, part, n-1, err, most)
			}
		}
	}
	write(short, 600)
	passes(t, short.run.Client, 2*time.Millisecond)
	write(long, 300)
	remembered("after half as many were written again", 300)

	again, err := long.WriteBatch(t.Context(), Draft{Tenant: "a", DedupeID: fmt.Sprint(next - 1)})
	if err != nil || !again[0].Duplicate {
		t.Errorf("a write within the window = %+v, %v, want a duplicate", again, err)
	}

	write(short, 600)
	passes(t, short.run.Client, 2*time.Millisecond)
	calls := 0
	for more := 1; more > 0; calls++ {
		if more, err = long.tend(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
	}
	remembered(fmt.Sprint("after upkeep of ", calls, " calls"), 300)
}
