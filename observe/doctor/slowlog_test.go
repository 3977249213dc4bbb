package doctor

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/test/redistest"
)

// TestSlowLog: a slow command is named without its arguments.
func TestSlowLog(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{Args: []string{"--slowlog-log-slower-than", "100000"}})
	client := server.Client(t)
	redistest.Eventually(t, "the server and the machine are quick enough", func() bool {
		client.Do(t.Context(), client.B().Arbitrary("SLOWLOG", "RESET").Build())
		return found(t, client, "slowlog").Text == "none in the last hour"
	})
	if err := client.Do(t.Context(), client.B().Eval().Script(spin).Numkeys(0).Arg("150", "secret").Build()).Error(); err != nil && !rueidis.IsRedisNil(err) {
		t.Fatal(err)
	}
	got := found(t, client, "slowlog")
	if got.Severity != Warning || got.Code != "slow" || !strings.Contains(got.Text, "EVAL 1 time, up to ") || strings.Contains(got.Text, "secret") {
		t.Errorf("finding = %+v, want a warning of EVAL, without arguments", got)
	}

	setUser := client.B().AclSetuser().Username("app").Rule("on", ">secret", "~*", "+@all", "-slowlog").Build()
	if err := client.Do(t.Context(), setUser).Error(); err != nil {
		t.Fatal(err)
	}
	app := server.Client(t, func(o *rueidis.ClientOption) { o.Username, o.Password = "app", "secret" })
	if got := found(t, app, "slowlog"); got.Severity != Note || got.Code != "refused" {
		t.Errorf("finding = %+v for a user without the right, want a note", got)
	}
}

func TestJudgeSlow(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	slow := func(name string, ago, took time.Duration) slowCommand {
		return slowCommand{name, now.Add(-ago), took}
	}
	for _, test := range []struct {
		all      []slowCommand
		severity Severity
		value    string
	}{
		{nil, OK, "none in the last hour"},
		{[]slowCommand{slow("KEYS", 2*time.Hour, time.Second)}, OK, "none in the last hour"},
		{[]slowCommand{slow("KEYS", time.Minute, 99*time.Millisecond)}, Note, "in the last hour: KEYS 1 time, up to 99ms"},
		{
			[]slowCommand{
				slow("EVALSHA", 2, 20*time.Millisecond), slow("KEYS", time.Minute, 100*time.Millisecond), slow("SORT", 3, 15*time.Millisecond),
				slow("EVALSHA", 1, 40*time.Millisecond), slow("DEL", 4, 12*time.Millisecond), slow("SAVE", 2*time.Hour, time.Minute),
			},
			Warning, "in the last hour: KEYS 1 time, up to 100ms; EVALSHA 2 times, up to 40ms; SORT 1 time, up to 15ms; 1 more",
		},
	} {
		got := judgeSlow(test.all, now)
		if got.Severity != test.severity || got.Text != test.value {
			t.Errorf("%s %q, want %s %q", got.Severity, got.Text, test.severity, test.value)
		}
	}
}
