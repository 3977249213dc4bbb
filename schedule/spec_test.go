package schedule_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/schedule"
)

// TestNext has the cases that implementations get wrong.
func TestNext(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ spec, after, want string }{
		{"every 15m0s", "2026-03-29T00:59:59Z", "2026-03-29T01:00:00Z"},
		{"every 15m0s", "2026-03-29T01:00:00Z", "2026-03-29T01:15:00Z"},
		{"every 1s", "2026-03-29T01:00:00.5Z", "2026-03-29T01:00:01Z"},
		{"every 24h0m0s", "1969-12-31T13:00:00Z", "1970-01-01T00:00:00Z"},
		// Years that have passed: laws change the clocks of years to come. Berlin skips 02:00 to 03:00.
		{"at 30 2 * * * Europe/Berlin", "2019-03-30T12:00:00Z", "2019-03-31T01:00:00Z 2019-04-01T00:30:00Z"},
		{"at 0,15,30 2 * * * Europe/Berlin", "2019-03-30T12:00:00Z", "2019-03-31T01:00:00Z 2019-04-01T00:00:00Z"},
		{"at 0 2-3 * * * Europe/Berlin", "2019-03-31T00:00:00Z", "2019-03-31T01:00:00Z 2019-04-01T00:00:00Z"},
		{"at 30 * * * * Europe/Berlin", "2019-03-31T00:00:00Z", "2019-03-31T00:30:00Z 2019-03-31T01:30:00Z"},
		// Berlin has 02:00 to 03:00 twice.
		{"at 30 2 * * * Europe/Berlin", "2019-10-26T12:00:00Z", "2019-10-27T00:30:00Z 2019-10-28T01:30:00Z"},
		{"at 30 * * * * Europe/Berlin", "2019-10-27T00:00:00Z", "2019-10-27T00:30:00Z 2019-10-27T01:30:00Z 2019-10-27T02:30:00Z"},
		{"at 0 3 * * * Europe/Berlin", "2019-10-27T00:00:00Z", "2019-10-27T02:00:00Z"},
		// Lord Howe moves by half an hour, and Havana at midnight.
		{"at 15 2 * * * Australia/Lord_Howe", "2019-10-05T00:00:00Z", "2019-10-05T15:30:00Z 2019-10-06T15:15:00Z"},
		{"at 0 0 * * * America/Havana", "2019-03-09T12:00:00Z", "2019-03-10T05:00:00Z 2019-03-11T04:00:00Z"},
		{"at 30 0 * * * America/Havana", "2019-11-02T12:00:00Z", "2019-11-03T04:30:00Z 2019-11-04T05:30:00Z"},
		// Days.
		{"at 0 0 29 2 * UTC", "2096-03-01T00:00:00Z", "2104-02-29T00:00:00Z"},
		{"at 0 0 31 * * UTC", "2026-01-31T00:00:00Z", "2026-03-31T00:00:00Z"},
		{"at 0 0 13 * 5 UTC", "2026-11-01T00:00:00Z", "2026-11-06T00:00:00Z 2026-11-13T00:00:00Z 2026-11-20T00:00:00Z"},
		{"at 0 0 13 * &5 UTC", "2026-11-14T00:00:00Z", "2027-08-13T00:00:00Z"},
		{"at 0 0 29 2 &1 UTC", "2080-03-01T00:00:00Z", "2112-02-29T00:00:00Z"},
		{"at 59 23 31 12 * Asia/Kathmandu", "2026-12-31T18:13:59Z", "2026-12-31T18:14:00Z 2027-12-31T18:14:00Z"},
	} {
		spec, err := schedule.ParseSpec(c.spec)
		if err != nil {
			t.Fatalf("%s: %v", c.spec, err)
		}
		if spec.String() != c.spec {
			t.Errorf("%q reads as %q", c.spec, spec)
		}
		at := instant(t, c.after)
		for want := range strings.FieldsSeq(c.want) {
			next := spec.Next(at)
			if !next.Equal(instant(t, want)) {
				t.Errorf("%s: after %s comes %s, not %s", c.spec, at, next.Format(time.RFC3339), want)
			}
			at = next
		}
	}
}

func instant(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func TestBadSpecs(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "every", "every 0s", "every 1500ms", "every 8785h", "daily", "at * * * * *", "at * * * * * Mars/Olympus", "at * * * * * Local",
		"at 60 * * * * UTC", "at * 24 * * * UTC", "at * * 0 * * UTC", "at * * * 13 * UTC", "at * * * * 7 UTC", "at 5-3 * * * * UTC", "at a * * * * UTC",
		"at 0 0 30 2 * UTC", "at 0 0 31 4,6,9,11 * UTC",
	} {
		if spec, err := schedule.ParseSpec(text); !errors.Is(err, millrace.ErrBadArgument) {
			t.Errorf("%q reads as %v, %v", text, spec, err)
		}
	}
	if _, err := schedule.NewCalendar(schedule.Calendar{Zone: "Local"}); !errors.Is(err, millrace.ErrBadArgument) {
		t.Errorf("the machine's zone: %v", err)
	}
	if _, err := schedule.NewCalendar(schedule.Calendar{Days: 1}); !errors.Is(err, millrace.ErrBadArgument) {
		t.Errorf("day 0: %v", err)
	}
	if next := (schedule.Spec{}).Next(time.Now()); !next.IsZero() {
		t.Errorf("the zero Spec ticks at %s", next)
	}
}

var zones = []string{
	"UTC", "Europe/Berlin", "America/New_York", "America/Havana", "Australia/Lord_Howe", "Asia/Kathmandu", "Africa/Casablanca", "Pacific/Apia",
}

// TestNextIsWhatTheClockShows compares Next with a walk through every minute.
func TestNextIsWhatTheClockShows(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		zone, err := time.LoadLocation(rapid.SampledFrom(zones).Draw(r, "zone"))
		if err != nil {
			r.Fatal(err)
		}
		set := func(name string, low, high, rare int) (set uint64) {
			if rapid.IntRange(0, rare).Draw(r, name+" restricted") != 0 {
				return 0
			}
			for range rapid.IntRange(1, 4).Draw(r, name+" count") {
				set |= 1 << rapid.IntRange(low, high).Draw(r, name)
			}
			return set
		}
		c := schedule.Calendar{
			Minutes: set("minute", 0, 59, 1), Hours: set("hour", 0, 3, 1), Weekdays: set("weekday", 0, 6, 3), Zone: zone.String(),
		}
		spec, err := schedule.NewCalendar(c)
		if err != nil {
			r.Fatal(err)
		}
		// Near a change of the clocks, if the zone has one that year.
		year := rapid.IntRange(2008, 2030).Draw(r, "year")
		at := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)
		if _, change := at.In(zone).ZoneBounds(); !change.IsZero() && change.Year() == year {
			at = change
		}
		at = at.Add(-time.Duration(rapid.IntRange(1, 2*24*60).Draw(r, "minutes before")) * time.Minute)
		want := walk(c, zone, at, at.Add(4*24*time.Hour))
		for last := at; ; {
			next := spec.Next(last)
			if len(want) == 0 {
				if next.Before(at.Add(4 * 24 * time.Hour)) {
					r.Fatalf("%s ticks at %s, which the walk does not", spec, next)
				}
				return
			}
			if !next.Equal(want[0]) {
				r.Fatalf("%s after %s: %s, the walk has %s", spec, last, next, want[0])
			}
			last, want = next, want[1:]
		}
	})
}

// walk looks at a clock on the wall, minute by minute, and notes when it shows a time of the
// calendar, or jumps over it.
func walk(c schedule.Calendar, zone *time.Location, from, to time.Time) (ticks []time.Time) {
	has := func(wall time.Time) bool {
		in := func(set uint64, n int) bool { return set == 0 || set>>n&1 == 1 }
		return in(c.Minutes, wall.Minute()) && in(c.Hours, wall.Hour()) && in(c.Weekdays, int(wall.Weekday()))
	}
	wallOf := func(at time.Time) time.Time {
		local := at.In(zone)
		return time.Date(local.Year(), local.Month(), local.Day(), local.Hour(), local.Minute(), 0, 0, time.UTC)
	}
	start := from.Add(-50 * time.Hour) // local times before from are marked as shown
	latest := wallOf(start.Add(-time.Minute))
	for at := start; at.Before(to); at = at.Add(time.Minute) {
		wall := wallOf(at)
		tick := false
		if c.Hours == 0 || c.Hours == 1<<24-1 {
			tick = has(wall)
		} else {
			for shown := latest.Add(time.Minute); !shown.After(wall); shown = shown.Add(time.Minute) {
				tick = tick || has(shown)
			}
		}
		if wall.After(latest) {
			latest = wall
		}
		if tick && at.After(from) {
			ticks = append(ticks, at)
		}
	}
	return ticks
}

// TestSpecText: ParseSpec reads the text of String.
func TestSpecText(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		c := schedule.Calendar{
			Minutes:       rapid.Uint64Range(0, 1<<60-1).Draw(r, "minutes"),
			Hours:         rapid.Uint64Range(0, 1<<24-1).Draw(r, "hours"),
			Days:          rapid.Uint64Range(0, 1<<28-1).Draw(r, "days") << 1,
			Months:        rapid.Uint64Range(0, 1<<12-1).Draw(r, "months") << 1,
			Weekdays:      rapid.Uint64Range(0, 1<<7-1).Draw(r, "weekdays"),
			DayAndWeekday: rapid.Bool().Draw(r, "both"),
		}
		spec, err := schedule.NewCalendar(c)
		if err != nil {
			r.Fatal(err)
		}
		again, err := schedule.ParseSpec(spec.String())
		if err != nil || again.String() != spec.String() {
			r.Fatalf("%q reads as %q, %v", spec, again, err)
		}
		at := time.Unix(rapid.Int64Range(0, 4e9).Draw(r, "instant"), 0)
		if a, b := spec.Next(at), again.Next(at); !a.Equal(b) || !a.After(at) {
			r.Fatalf("%q ticks at %s and at %s", spec, a, b)
		}
	})
}
