package ops_test

import (
	"testing"
	"time"

	"github.com/millrace/millrace/internal/jsontype"
	"github.com/millrace/millrace/internal/ops"
	"github.com/millrace/millrace/schedule/cron"
)

func TestTimingInWords(t *testing.T) {
	t.Parallel()
	for expr, want := range map[string]string{
		"* * * * *":               "every minute",
		"*/15 * * * *":            "every 15 minutes",
		"0 * * * *":               "every hour",
		"7,37 * * * *":            "at minutes 7 and 37 of every hour",
		"0 3 * * *":               "at 03:00 every day",
		"30 9,17 * * 1-5":         "at 09:30 and 17:30, Monday to Friday",
		"0 */6 * * *":             "every 6 hours at minute 0",
		"*/5 9-17 * * *":          "every 5 minutes from 09:00 to 17:59 every day",
		"0 0 1 * *":               "at 00:00, on day 1 of the month",
		"0 0 28-31 3-5 *":         "at 00:00, on days 28 to 31 of the month in March to May",
		"0 0 1,15 1,7 *":          "at 00:00, on days 1 and 15 of the month in January and July",
		"0 0 13 * 5":              "at 00:00, on day 13 of the month and also on Friday",
		"1,2,3,4 1,3,5,7,9 * * 0": "at minutes 1 to 4 of the hours 1, 3, 5, 7 and 9, on Sunday",
		"5,30 1,4,8,12 * 2 *":     "at minutes 5 and 30 of the hours 1, 4, 8 and 12 in February",
		"*/10 1,5 * * *":          "every 10 minutes of the hours 1 and 5 every day",
		"1,2,3 8-12 * * *":        "at minutes 1 to 3 of the hours 8 to 12 every day",
	} {
		s, err := cron.Parse(expr, "Europe/Berlin")
		if got := ops.InWords(s); got != want || err != nil {
			t.Errorf("%s is %q, %v, want %q", expr, got, err, want)
		}
	}
	s, err := ops.Timing{Every: jsontype.Duration{Duration: 90 * time.Minute}}.Spec()
	if got := ops.InWords(s); got != "every 1h30m" || ops.Zone(s) != "" || err != nil {
		t.Errorf("%q in %q, %v", got, ops.Zone(s), err)
	}
}

// TestTicksMarkChangesOfTheOffset: daylight saving begins on 29 March 2026 in Berlin.
func TestTicksMarkChangesOfTheOffset(t *testing.T) {
	t.Parallel()
	s, err := ops.Timing{Cron: "0 12 * * *", Zone: "Europe/Berlin"}.Spec()
	if err != nil {
		t.Fatal(err)
	}
	got := ops.OfTicks(s, time.Date(2026, 3, 27, 12, 0, 0, 0, time.UTC), time.Time{}, 3)
	want := []ops.Tick{
		{At: time.Date(2026, 3, 28, 11, 0, 0, 0, time.UTC), Local: "2026-03-28T12:00:00+01:00"},
		{At: time.Date(2026, 3, 29, 10, 0, 0, 0, time.UTC), Local: "2026-03-29T12:00:00+02:00", Changed: true},
		{At: time.Date(2026, 3, 30, 10, 0, 0, 0, time.UTC), Local: "2026-03-30T12:00:00+02:00"},
	}
	if len(got.Ticks) != 3 || got.Zone != "Europe/Berlin" {
		t.Fatalf("%+v", got)
	}
	for i, tick := range got.Ticks {
		if tick != want[i] {
			t.Errorf("tick %d is %+v, want %+v", i, tick, want[i])
		}
	}
	from := ops.OfTicks(s, time.Date(2026, 3, 27, 12, 0, 0, 0, time.UTC), want[1].At, 1)
	if len(from.Ticks) != 1 || from.Ticks[0] != want[1] {
		t.Errorf("from the stored tick on: %+v, want %+v", from.Ticks, want[1])
	}
}

func TestTimingIsRefused(t *testing.T) {
	t.Parallel()
	every := jsontype.Duration{Duration: time.Minute}
	for _, timing := range []ops.Timing{{}, {Zone: "UTC"}, {Every: every, Cron: "* * * * *"}, {Every: every, Zone: "UTC"}, {Cron: "* * *"}, {Cron: "* * * * *", Zone: "Nowhere/No"}} {
		if _, err := timing.Spec(); err == nil {
			t.Errorf("%+v is accepted", timing)
		}
	}
}
