package main

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/jsontype"
	"github.com/millrace/millrace/internal/test/redistest"
)

func TestIckRound(t *testing.T) {
	t.Parallel()
	s, name := sharedShell(t), redistest.Name(t)
	s.want(`{"new":3,"lowered":0}`+"\n", "ick", "add", name, "3", "c", "-1.5", "a", "2", "b", "--json")

	first := answer[batch](s, "ick", "reserve", name, "2")
	if got, want := first.show(), `"a" -1.5, "b" 2`; got != want {
		t.Errorf("reserve = %s, want %s", got, want)
	}
	s.want(`{"committed":1,"kept":0}`+"\n", "--json", "ick", "commit", name, first.Token, "a")

	s.want("1 new, 0 lowered\n", "ick", "add", name, "2", "b") // again, while it is reserved
	second := answer[batch](s, "ick", "exchange", name, "9", "--token", first.Token, "--commit", "x")
	if got, want := second.show(), `"b" 2, "c" 3`; got != want || second.Committed != 0 {
		t.Errorf("exchange = %s and %d committed, want %s and 0", got, second.Committed, want)
	}
	s.refused(1, "stale", "ick", "commit", name, first.Token, "b")
	third := answer[batch](s, "ick", "exchange", name, "9", "--token", first.Token, "--commit", "b", "--commit", "c")
	if third.Committed != 0 || third.Kept != 2 {
		t.Errorf("exchange under a stale token: %d committed, %d kept, want 0 and 2", third.Committed, third.Kept)
	}
	s.want("2 committed, 0 kept\nnothing to reserve\n",
		"ick", "exchange", name, "9", "--token", third.Token, "--commit", "b", "--commit", "c")
	s.want(`{"deleted":1}`+"\n", "--json", "ick", "rm", name)
}

func TestIckScoresKeepEveryDigit(t *testing.T) {
	t.Parallel()
	s, name := sharedShell(t), redistest.Name(t)
	s.want("5 new, 0 lowered\n", "ick", "add", name,
		"-inf", "a", "-0.1", "b", "1795226400.1234567", "c", "1e300", "d", "inf", "e")
	got := answer[batch](s, "ick", "reserve", name, "9").show()
	if want := `"a" "-inf", "b" -0.1, "c" 1795226400.1234567, "d" 1e+300, "e" "inf"`; got != want {
		t.Errorf("scores = %s, want %s", got, want)
	}
}

func TestIckNow(t *testing.T) {
	t.Parallel()
	s, name := sharedShell(t), redistest.Name(t)
	before := time.Now()
	s.want("2 new, 0 lowered\n", "ick", "add", name, "now", "a", "now", "b")
	s.want("nothing to reserve\n", "ick", "reserve", name, "2", "--settle", "1h")
	stats := answer[struct {
		Oldest float64 `json:"oldest_score"`
		Newest float64 `json:"newest_score"`
		Age    float64 `json:"oldest_age_s"`
	}](s, "ick", "stats", name)
	if at := time.UnixMicro(int64(stats.Oldest * 1e6)); at.Before(before.Add(-time.Second)) || at.After(time.Now().Add(time.Second)) {
		t.Errorf("now was taken for %s, want about %s", at, before)
	}
	if stats.Age < 0 || stats.Age > 60 || stats.Oldest != stats.Newest {
		t.Errorf("stats = %+v, want one score and an age of moments", stats)
	}
}

func TestIckBackwash(t *testing.T) {
	t.Parallel()
	s, name := sharedShell(t), redistest.Name(t)
	s.want("1 new, 0 lowered\n", "ick", "add", name, "5", "young")
	s.run("ick", "reserve", name, "1")
	s.want("1 new, 0 lowered\n", "ick", "add", name, "1", "old")
	if got, want := answer[batch](s, "ick", "reserve", name, "1").show(), `"young" 5`; got != want {
		t.Errorf("reserve = %s, want %s", got, want)
	}
	if got, want := answer[batch](s, "ick", "reserve", name, "1", "--backwash").show(), `"old" 1`; got != want {
		t.Errorf("reserve --backwash = %s, want %s", got, want)
	}
}

func TestIckOfBytes(t *testing.T) {
	t.Parallel()
	s := sharedShell(t)
	name := redistest.Name(t) + "\xff"
	const form = `{"base64":"AA=="}` // a member that reads like an encoded one
	s.want("4 new, 0 lowered\n", "ick", "add", name, "1", "\xff\xfe", "2", jsontype.Text(form).String(), "3", "a,b", "4", "<&>")
	got := answer[batch](s, "ick", "reserve", name, "9")
	if want := `{"base64":"//4="} 1, ` + jsontype.Text(form).String() + ` 2, "a,b" 3, "<&>" 4`; got.show() != want {
		t.Errorf("reserve = %s, want %s", got.show(), want)
	}
	s.want("4 committed, 0 kept\n", "ick", "exchange", jsontype.Text(name).String(), "0", "--token", got.Token,
		"--commit", `{"base64":"//4="}`, "--commit", jsontype.Text(form).String(), "--commit", "a,b", "--commit", "<&>")

	names := answer[struct{ Icks []any }](s, "ick", "ls").Icks
	found := false
	for _, n := range names {
		found = found || cmp.Equal(n, map[string]any{"base64": encoded(name)})
	}
	if !found {
		t.Errorf("ick ls = %v, want the name %q in base64 there", names, name)
	}
}

// encoded returns the base64 form of a text.
func encoded(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

func TestIckStatsTable(t *testing.T) {
	t.Parallel()
	s, name := sharedShell(t), redistest.Name(t)
	s.want("2 new, 0 lowered\n", "ick", "add", name, "-inf", "a", "inf", "b")
	s.run("ick", "reserve", name, "1")
	s.want(name+` (ick.v1)

MARKS     SIZE  OLDEST  AGE  NEWEST  AGE
waiting   1     inf     -    inf     -
reserved  1     -inf    -    -inf    -
both      2     -inf    -    inf     -

2 distinct members, 0 parked

NEW  FOLDED  RESERVED  COMMITTED  KEPT  PARKED  RETRIED  DROPPED
2    0       1         0          0     0       0        0
`, "ick", "stats", name)
}

func TestIckBatchTable(t *testing.T) {
	t.Parallel()
	s, name := sharedShell(t), redistest.Name(t)
	s.want("2 new, 0 lowered\n", "ick", "add", name, "-inf", "a", "inf", "a longer one")
	token := answer[batch](s, "ick", "reserve", name, "2").Token
	s.want("2 members under token "+token+`

MEMBER        SCORE  AGE
a             -inf   -
a longer one  inf    -
`, "ick", "reserve", name, "2")
}

func TestIckOfNothing(t *testing.T) {
	t.Parallel()
	s, name := sharedShell(t), redistest.Name(t)
	s.want("nothing to reserve\n", "ick", "reserve", name, "5")
	s.want(`{"token":"","entries":[]}`+"\n", "ick", "reserve", name, "5", "--json")
	s.want("there was nothing to delete\n", "ick", "rm", name)
	s.want("0 members dropped\n", "ick", "parked", "rm", name, "a")
	s.want("1 new, 0 lowered\n", "ick", "add", name, "1", "a")
	s.want("nothing is parked\n", "ick", "parked", name)
	s.want(`{"parked":[]}`+"\n", "ick", "parked", name, "--json")
	s.want(`{"retried":0}`+"\n", "ick", "parked", "retry", name, "--all", "--json")

	empty := shell{t: t, url: redistest.Start(t, redistest.Options{}).URL()}
	empty.want("there are no Icks\n", "ick", "ls")
	empty.want(`{"icks":[]}`+"\n", "ick", "ls", "--json")
}

func TestIckLsIsSorted(t *testing.T) {
	t.Parallel()
	s := shell{t: t, url: redistest.Start(t, redistest.Options{}).URL()}
	for _, name := range []string{"b", "a", "c"} {
		s.want("1 new, 0 lowered\n", "ick", "add", name, "1", "m")
	}
	s.want("a\nb\nc\n", "ick", "ls")
}

func TestIckParked(t *testing.T) {
	t.Parallel()
	s, name := sharedShell(t), redistest.Name(t)
	s.want("2 new, 0 lowered\n", "ick", "add", name, "1", "a", "2", "b")
	s.park(name, "bad luck", ick.ConsumeConfig{MaxAttempts: 1})
	s.park(name, "too\tlarge", ick.ConsumeConfig{RetryDelay: time.Hour})

	table := s.run("ick", "parked", name).stdout
	rows := strings.Split(table, "\n")
	if len(rows) != 4 || !strings.HasPrefix(rows[1], "b       2      1         ") || !strings.Contains(rows[2], "  by hand  ") ||
		!strings.Contains(rows[2], "bad luck") || strings.Contains(table, "\t") {
		t.Errorf("ick parked prints\n%swant b with a time, then a by hand", table)
	}
	s.want("1 member will be tried again\n", "ick", "parked", "retry", name, "a", "nobody")
	s.want("1 member dropped\n", "ick", "parked", "rm", name, "--all")
	if got, want := answer[batch](s, "ick", "reserve", name, "9").show(), `"a" 1`; got != want {
		t.Errorf("reserve after retry and drop = %s, want %s", got, want)
	}
}

func TestIckDeleteForce(t *testing.T) {
	t.Parallel()
	s, name := sharedShell(t), redistest.Name(t)
	s.want("1 new, 0 lowered\n", "ick", "add", name, "1", "a")
	client := redistest.Shared(t).Client(t)
	if err := client.Do(t.Context(), client.B().Del().Key(name).Build()).Error(); err != nil {
		t.Fatal(err)
	}
	s.refused(1, "broken", "ick", "stats", name)
	s.refused(1, "broken", "ick", "rm", name)
	s.want("1 key deleted\n", "ick", "rm", name, "--force")
	s.refused(1, "not_found", "ick", "stats", name)
}
