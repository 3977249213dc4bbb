package fairqueue

import (
	"fmt"
	"testing"
	"time"
)

// TestBucketsAreForgottenFaster than they are made: a read removes twice as many that are full again as it may add, and
// upkeep the others in calls that are bounded.
func TestBucketsAreForgottenFaster(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	const tenants = 1000
	fill := func(n int) {
		t.Helper()
		drafts := make([]Draft, n)
		for i := range drafts {
			drafts[i] = Draft{Tenant: fmt.Sprint("tenant", i)}
		}
		if _, err := q.WriteBatch(t.Context(), drafts...); err != nil {
			t.Fatal(err)
		}
	}
	known := func() int {
		t.Helper()
		n, err := do(t, q.run.Client, "ZCARD", baseKey(q.name)+":buckets").AsInt64()
		if err != nil {
			t.Fatal(err)
		}
		return int(n) - 1 // the placeholder
	}
	start := func(n int) {
		t.Helper()
		ack(t, q, read(t, q, n)...)
	}
	fill(1)
	if err := q.Limits().Set(t.Context(), "", OwnLimits{Rate: new(2.0)}); err != nil {
		t.Fatal(err)
	}
	fill(tenants)
	start(tenants)
	passes(t, q.run.Client, 600*time.Millisecond) // all are full again
	fill(tenants / 2)
	start(tenants / 2)
	if n := known(); n > tenants/2 {
		t.Errorf("%d buckets are known after half as many deliveries, want at most %d", n, tenants/2)
	}

	fill(tenants)
	passes(t, q.run.Client, 600*time.Millisecond)
	start(tenants)
	passes(t, q.run.Client, 600*time.Millisecond)
	for before, more := known(), 1; more > 0; before = known() {
		var err error
		if more, err = q.tend(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		if n := known(); before-n > 100 {
			t.Errorf("a call of upkeep removed %d buckets, want at most 100", before-n)
		}
	}
	if n := known(); n > 0 {
		t.Errorf("%d buckets are known after upkeep, want none", n)
	}
}
