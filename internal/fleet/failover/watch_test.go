package failover

import (
	"testing"
	"time"

	"github.com/millrace/millrace/internal/fleet/members"
)

// TestTimeIsThatOfMostMembers, not that of an agent whose clock is ahead: epochs that
// come from it must not be above those that others will give.
func TestTimeIsThatOfMostMembers(t *testing.T) {
	t.Parallel()
	w := watch{members: map[string]*health{}}
	if got := w.time(); time.Since(got).Abs() > time.Minute {
		t.Errorf("time of nobody = %v, want its own", got)
	}
	for addr, ahead := range map[string]time.Duration{"a": -time.Hour, "b": -time.Hour, "c": 48 * time.Hour} {
		w.saw(addr, time.Now(), members.Report{Clock: time.Now().Add(ahead)}, true)
	}
	if got := time.Until(w.time()); (got + time.Hour).Abs() > time.Minute {
		t.Errorf("time = now and %v, want an hour ago, as most members say", got)
	}
}

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
