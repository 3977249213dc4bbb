package millracetest_test

import (
	"context"
	"testing"
	"time"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/millracetest"
)

// TestRunOfThrottledTenants: tenants that may have nothing now are left, or waited for.
func TestRunOfThrottledTenants(t *testing.T) {
	t.Parallel()
	s := startOn(t, millracetest.Mini)
	q := newQueue(t, s, fairqueue.Config{})
	write(t, q, fairqueue.Draft{Tenant: "a"}, fairqueue.Draft{Tenant: "b"})
	if err := q.Limits().Pause(t.Context(), "b", 0); err != nil {
		t.Fatal(err)
	}
	first := true
	throttle := func(context.Context, fairqueue.Message) error {
		if first {
			first = false
			return fairqueue.Throttle(time.Minute, errOdd)
		}
		return nil
	}
	if got := millracetest.RunUntilEmpty(t, q, throttle, millracetest.RunConfig{Clock: s}); len(got.Failed) != 1 || got.Waiting != 2 {
		t.Errorf("the first run = %+v, want two that wait", got)
	}
	got := millracetest.RunUntilEmpty(t, q, throttle, millracetest.RunConfig{Clock: s, Within: time.Hour})
	if len(got.Handled) != 1 || got.Waiting != 1 {
		t.Errorf("a run of an hour = %+v, want one handled and one paused", got)
	}
}
