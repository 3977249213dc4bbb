package cron_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/schedule/cron"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ expression, zone, want string }{
		{"0 3 * * *", "Europe/Berlin", "at 0 3 * * * Europe/Berlin"},
		{" */15 8-17 * * mon-FRI ", "", "at 0,15,30,45 8-17 * * 1-5 UTC"},
		{"0 9 1 * MON", "", "at 0 9 1 * 1 UTC"},
		{"0 9 */2 * MON", "", "at 0 9 1,3,5,7,9,11,13,15,17,19,21,23,25,27,29,31 * 1 UTC"},
		{"0 0 * JAN,jul 7", "", "at 0 0 * 1,7 0 UTC"},
		{"0 0 * * 5-7", "", "at 0 0 * * 0,5-6 UTC"},
		{"5/20 * * * *", "", "at 5,25,45 * * * * UTC"},
		{"@hourly", "", "at 0 * * * * UTC"},
		{"@daily", "America/New_York", "at 0 0 * * * America/New_York"},
		{"@weekly", "", "at 0 0 * * 0 UTC"},
		{"@monthly", "", "at 0 0 1 * * UTC"},
		{"@yearly", "", "at 0 0 1 1 * UTC"},
		{"@every 90s", "", "every 1m30s"},
	} {
		spec, err := cron.Parse(c.expression, c.zone)
		if err != nil || spec.String() != c.want {
			t.Errorf("%q in %q is %q, %v, not %q", c.expression, c.zone, spec, err, c.want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for _, expression := range []string{
		"", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 8", "a * * * *", "@reboot", "@every", "@every x",
		"@every 100ms", "0 0 30 2 *", "TZ=UTC * * * * *", "CRON_TZ=Asia/Tokyo 0 3 * * *", "0 0 L * *", "0 0 * * FRI#3", "H * * * *", "5-1/0 * * * *",
	} {
		var shown *millrace.Error
		spec, err := cron.Parse(expression, "")
		if !errors.Is(err, millrace.ErrBadArgument) || !errors.As(err, &shown) {
			t.Errorf("%q is %q, %v", expression, spec, err)
		}
	}
	for _, zone := range []string{"Mars/Olympus", "Local"} {
		if _, err := cron.Parse("0 3 * * *", zone); !errors.Is(err, millrace.ErrBadArgument) {
			t.Errorf("zone %q: %v", zone, err)
		}
	}
	if _, err := cron.Parse("@every 15m", "Europe/Berlin"); !errors.Is(err, millrace.ErrBadArgument) {
		t.Errorf("an interval with a zone: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	for _, expression := range []string{"0 3 * * *", "*/15 8-17 * * mon-fri", "@daily", "@every 15m", "0 0 29 2 1"} {
		f.Add(expression)
	}
	at := time.Date(2026, 3, 29, 0, 59, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, expression string) {
		spec, err := cron.Parse(expression, "")
		if err == nil && !spec.Next(at).After(at) {
			t.Errorf("%q, which is %q, never ticks", expression, spec)
		}
	})
}

func Example() {
	spec, err := cron.Parse("30 2 * * *", "Europe/Berlin")
	if err != nil {
		panic(err)
	}
	// At 02:00 on March 29, 2026, the clocks are put forward to 03:00.
	at := time.Date(2026, 3, 27, 12, 0, 0, 0, time.UTC)
	berlin, _ := time.LoadLocation("Europe/Berlin")
	for range 3 {
		at = spec.Next(at)
		fmt.Println(at.In(berlin).Format("Mon 02 Jan 15:04 MST"))
	}
	// Output:
	// Sat 28 Mar 02:30 CET
	// Sun 29 Mar 03:00 CEST
	// Mon 30 Mar 02:30 CEST
}

// TestErrorsNameTheField: an error says which of the five fields is wrong.
func TestErrorsNameTheField(t *testing.T) {
	t.Parallel()
	for expression, field := range map[string]string{
		"60 * * * *": "minute", "0 24 * * *": "hour", "0 0 0 * *": "day of the month", "0 0 1 13 *": "month", "0 0 * * fru": "weekday",
		"* * *": "syntax", "soon": "syntax", "x 99 * * *": "minute",
	} {
		_, err := cron.Parse(expression, "")
		if err == nil || !strings.Contains(err.Error(), "invalid "+field+" in the cron expression") || millrace.Hint(err) == "" {
			t.Errorf("%q: %v, want to read of the %s", expression, err, field)
		}
	}
}
