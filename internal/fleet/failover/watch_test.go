package failover

import (
	"testing"
	"time"
)

// TestOverdue: a pause counts by whichever clock has noticed it.
func TestOverdue(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, tc := range map[string]struct {
		now  time.Time
		want time.Duration
	}{
		"in time":                  {now, 0},
		"late":                     {now.Add(3 * time.Second), 3 * time.Second},
		"the wall clock was ahead": {now.Round(0).Add(-time.Hour), time.Hour},
	} {
		if got := overdue(now, tc.now); got != tc.want {
			t.Errorf("%s: overdue = %v, want %v", name, got, tc.want)
		}
	}
}
