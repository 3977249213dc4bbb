package directory

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestSettings(t *testing.T) {
	t.Parallel()
	want := Settings{ViewTTL: time.Second, ReplyTimeout: 500 * time.Millisecond, PlacementTTL: 10 * time.Second, MaxFill: 80, Confirmed: 1}
	if diff := cmp.Diff(want, Settings{}.Effective()); diff != "" {
		t.Errorf("the defaults (-want +got):\n%s", diff)
	}
	all := Settings{ViewTTL: 2 * time.Second, ReplyTimeout: 200 * time.Millisecond, PlacementTTL: time.Minute, MaxTags: 3, MaxFill: 50, Confirmed: 2}
	if diff := cmp.Diff(all, all.Effective()); diff != "" {
		t.Errorf("settings that are all set (-want +got):\n%s", diff)
	}
	for s, want := range map[Settings]time.Duration{
		{}:                          1650 * time.Millisecond,
		all:                         2420 * time.Millisecond,
		{ViewTTL: time.Millisecond}: 551100 * time.Microsecond,
	} {
		if got := (&Map{Settings: s}).Grace(); got != want {
			t.Errorf("Grace of %+v = %v, want %v", s, got, want)
		}
	}
}

// TestNext: while settings change, clients keep both, and agents wait for the longer times
// of both.
func TestNext(t *testing.T) {
	t.Parallel()
	a := Settings{ViewTTL: time.Second, ReplyTimeout: 3 * time.Second, PlacementTTL: 9 * time.Second, MaxTags: 3, MaxFill: 50}
	b := Settings{ViewTTL: 2 * time.Second, ReplyTimeout: 2 * time.Second, PlacementTTL: 8 * time.Second, MaxTags: 4, MaxFill: 60}
	least, most := a, a // new tags follow the present settings
	least.ReplyTimeout, least.PlacementTTL = b.ReplyTimeout, b.PlacementTTL
	most.ViewTTL = b.ViewTTL
	for _, tc := range []struct{ present, next, writers, elections int }{
		{1, 1, 1, 1}, {1, 2, 2, 1}, {2, 1, 2, 1}, {0, 2, 2, 1}, {3, 0, 3, 1},
	} {
		a.Confirmed, b.Confirmed, least.Confirmed, most.Confirmed = tc.present, tc.next, tc.writers, tc.elections
		m := &Map{Settings: a, Next: &Next{Since: 7, Settings: b}}
		if diff := cmp.Diff(least, m.Permissions()); diff != "" {
			t.Errorf("what clients may do with Confirmed %d, next %d (-want +got):\n%s", tc.present, tc.next, diff)
		}
		if diff := cmp.Diff(most, m.Waits()); diff != "" {
			t.Errorf("what agents wait for with Confirmed %d, next %d (-want +got):\n%s", tc.present, tc.next, diff)
		}
		if got, want := m.Grace(), (most.ViewTTL+most.ReplyTimeout)*11/10; got != want {
			t.Errorf("Grace() = %v, want %v", got, want)
		}
	}
	m := &Map{Settings: a}
	if m.Permissions() != a.Effective() || m.Waits() != a.Effective() {
		t.Errorf("without a change clients have %+v and agents %+v, want %+v", m.Permissions(), m.Waits(), a)
	}
}
