package directory

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestSettings(t *testing.T) {
	t.Parallel()
	want := Settings{ViewTTL: time.Second, ReplyTimeout: 500 * time.Millisecond, PlacementTTL: 10 * time.Second, MaxFill: 80, Confirmed: 1, MaxAge: 3 * time.Second}
	if diff := cmp.Diff(want, Settings{}.Effective()); diff != "" {
		t.Errorf("the defaults (-want +got):\n%s", diff)
	}
	all := Settings{ViewTTL: 2 * time.Second, ReplyTimeout: 200 * time.Millisecond, PlacementTTL: time.Minute, MaxTags: 3, MaxFill: 50, Confirmed: 2, MaxAge: time.Hour}
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
