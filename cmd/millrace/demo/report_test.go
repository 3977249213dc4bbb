package demo

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// sample is a report with something of everything.
func sample() Report {
	good := Scene{Name: "first", Shows: "all is well", OK: true}
	good.count("things", 1234567, "things", "")
	good.time("age_ms", 42*time.Millisecond, "greatest age of a thing", "when it was seen")
	good.time("took_ms", 8250*time.Millisecond, "took", "")
	good.micros("call_us", 1250*time.Microsecond, "call", "")
	good.share("good_percent", 0.01234567, "good", "of all")
	good.check("nothing_lost", true, "nothing was lost: %d of %d", 3, 3)

	skipped := Scene{Name: "other", Shows: "nothing", OK: true, Skipped: "it is not the time"}

	bad := Scene{Name: "second", Shows: "all is not well"}
	bad.count("things", 2, "things", "")
	bad.check("nothing_lost", false, "nothing was lost: %d of %d", 1, 2)
	bad.fail("thing %d was lost", 7)
	return Report{Server: "a server", Scenes: []Scene{good, skipped, bad}}
}

func TestTable(t *testing.T) {
	t.Parallel()
	want := `Server: a server

first: all is well

  things                   1,234,567
  greatest age of a thing      42 ms  when it was seen
  took                         8.2 s
  call                       1.25 ms
  good                         1.23%  of all

  ok      nothing was lost: 3 of 3

other: nothing

  skipped: it is not the time

second: all is not well

  things  2

  FAILED  nothing was lost: 1 of 2
          - thing 7 was lost

NOT EVERYTHING HELD: see what is marked FAILED above.
`
	var got strings.Builder
	if err := sample().Table(&got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

func TestReportAsJSON(t *testing.T) {
	t.Parallel()
	want := `{"ok":false,"server":"a server","scenes":[` +
		`{"name":"first","shows":"all is well","ok":true,"things":1234567,"age_ms":42,"took_ms":8250,"call_us":1250,"good_percent":1.235,` +
		`"checks":[{"name":"nothing_lost","ok":true,"sentence":"nothing was lost: 3 of 3"}],"failures":[]},` +
		`{"name":"other","shows":"nothing","ok":true,"skipped":"it is not the time","checks":[],"failures":[]},` +
		`{"name":"second","shows":"all is not well","ok":false,"things":2,` +
		`"checks":[{"name":"nothing_lost","ok":false,"sentence":"nothing was lost: 1 of 2"}],"failures":["thing 7 was lost"]}]}`
	got, err := json.Marshal(sample())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("JSON (-want +got):\n%s", diff)
	}
}

func TestTheLastLineOfTheTable(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		report Report
		want   string
	}{
		{Report{OK: true, Scenes: []Scene{{OK: true}}}, "\nEverything held.\n"},
		{Report{OK: true, Scenes: []Scene{{OK: true}, {OK: true, Skipped: "no"}}}, "\nEverything that was played held.\n"},
		{Report{Scenes: []Scene{{}, {OK: true, Skipped: "no"}}}, "\nNOT EVERYTHING HELD: see what is marked FAILED above.\n"},
	} {
		var got strings.Builder
		if err := test.report.Table(&got); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(got.String(), test.want) {
			t.Errorf("table = %q, want it to end with %q", got.String(), test.want)
		}
	}
}

func TestOnlyTheFirstFailuresAreNamed(t *testing.T) {
	t.Parallel()
	var s Scene
	for i := range 3 * maxFailures {
		s.fail("failure %d", i)
	}
	if got, want := len(s.Failures), maxFailures; got != want {
		t.Errorf("%d failures are named, want %d", got, want)
	}
}

func TestGrouped(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := grouped(n); got != want {
			t.Errorf("grouped(%d) = %q, want %q", n, got, want)
		}
	}
}
