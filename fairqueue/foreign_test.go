package fairqueue

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/test/redistest"
)

// TestForeignRecords: a hash that is no record of a queue, and a record that cannot be read, are
// refused by each call and stay as they are.
func TestForeignRecords(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	for name, spoil := range map[string]func(q *Queue){
		"another hash": func(q *Queue) {
			if _, err := q.Delete(t.Context()); err != nil {
				t.Fatal(err)
			}
			do(t, client, "HSET", baseKey(q.name), "color", "red", "size", "7")
		},
		"a record without its numbers": func(q *Queue) { do(t, client, "HSET", baseKey(q.name)+":hot", "t", "none") },
	} {
		q, flying, deadID := busyQueue(t, client)
		spoil(q)
		before := dump(t, q)
		for call, do := range everyCall(t.Context(), q, flying, deadID) {
			if err := do(); millrace.Code(err) != millrace.ErrBroken.Code {
				t.Errorf("%s: %s = %v, want ErrBroken", name, call, err)
			}
		}
		if diff := cmp.Diff(before, dump(t, q)); diff != "" {
			t.Errorf("%s: refused calls changed it (-before +after):\n%s", name, diff)
		}
	}
}

// TestLostKeysStayLost: with one of its keys gone, a queue does not make it anew when it settles
// deliveries, cancels, redrives, purges, or changes limits. It would hide the loss.
func TestLostKeysStayLost(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	for _, part := range []string{":hot", ":backlog", ":active", ":blocked", ":young", ":flight", ":delayed", ":deadlines", ":dead", ":dedupes", ":deaths", ":dedupe"} {
		q, flying, deadID := busyQueue(t, client)
		if n, err := do(t, client, "DEL", baseKey(q.name)+part).AsInt64(); n != 1 || err != nil {
			t.Fatalf("there was no key %s: the test shows nothing (%v)", part, err)
		}
		before, calls := dump(t, q), everyCall(t.Context(), q, flying, deadID)
		for _, call := range []string{"Nack", "Cancel", "Redrive", "Purge", "Tend", "Weight", "PauseTenant", "PurgeTenant", "Throttle"} {
			if err := calls[call](); millrace.Code(err) != millrace.ErrBroken.Code {
				t.Errorf("%s without %s = %v, want ErrBroken", call, part, err)
			}
		}
		if diff := cmp.Diff(before, dump(t, q)); diff != "" {
			t.Errorf("refused calls changed a queue without %s (-before +after):\n%s", part, diff)
		}
	}
}
