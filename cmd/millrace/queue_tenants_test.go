package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/ops"
	"github.com/millrace/millrace/internal/test/redistest"
)

func TestQueueTenants(t *testing.T) {
	t.Parallel()
	s, name := sharedShell(t), redistest.Name(t)
	s.refused(1, "not_found", "queue", "tenants", name)
	s.want("all others: 5 in flight\n", "queue", "tenant", "set", name, "--default", "--max-in-flight", "5")
	s.put(name, "b", "1")
	s.put(name, "b", "2")
	s.put(name, "a", "3")
	s.put(name, "eu", "4")
	s.want("a: weight 2, 5 in flight (default), 50% of handlers, 100/m in bursts of 3, 7 waiting\n", "queue", "tenant", "set", name, "a",
		"--weight", "2", "--max-share", "0.5", "--rate", "100/m", "--burst", "3", "--max-waiting", "7")
	s.want("eu is paused\n", "queue", "tenant", "pause", name, "eu")
	s.want("b is paused for 10m0s\n", "queue", "tenant", "pause", name, "b", "--for", "10m")

	all := answer[ops.Tenants](s, "queue", "tenants", name)
	var names, states []string
	for _, one := range all.Tenants {
		names, states = append(names, one.String()), append(states, one.State)
	}
	if got := strings.Join(names, ", "); got != "b, a, eu" && got != "b, eu, a" || !slices.Contains(states, "paused") || states[0] != "asleep" ||
		all.Default.MaxInFlight != 5 || all.Tenants[0].Until == nil || time.Until(*all.Tenants[0].Until) < 9*time.Minute {
		t.Errorf("tenants %s, states %s, %+v", got, states, all)
	}
	for sort, first := range map[string]string{"name": "a", "waiting": "b", "age": "b"} {
		if got := answer[ops.Tenants](s, "queue", "tenants", name, "--sort", sort, "--most", "1"); len(got.Tenants) != 1 || got.Tenants[0].String() != first || got.Count != 3 {
			t.Errorf("by %s: %+v", sort, got)
		}
	}
	printed := s.run("queue", "tenants", name).stdout
	for _, word := range []string{"asleep for ", "paused", "100/m in bursts of 3", "all others", "eu"} {
		if !strings.Contains(printed, word) {
			t.Errorf("the table lacks %q:\n%s", word, printed)
		}
	}
	if got := s.run("queue", "tenants", name, "--limits").stdout; !strings.Contains(got, "all others") || !strings.Contains(got, "50% of handlers") {
		t.Errorf("limits are\n%s", got)
	}
	if got := answer[limitsDoc](s, "queue", "tenants", name, "--limits", "--most", "1"); len(got.Limits) != 1 || got.Count < 2 {
		t.Errorf("limits are %+v", got)
	}
	if got := s.run("queue", "tenants", name, "--limits", "--most", "1").stdout; !strings.Contains(got, "all others") || !strings.Contains(got, " more") {
		t.Errorf("one of the limits is\n%s", got)
	}
	s.want("c: 5 in flight (default)\n", "queue", "tenant", "show", name, "c")
	s.want("all others: 5 in flight\n", "queue", "tenant", "show", name, "--default")
	s.refused(2, "bad_usage", "queue", "tenant", "show", name)
	s.refused(2, "bad_usage", "queue", "tenant", "show", name, "c", "--default")
	s.want("b: paused, 5 in flight (default)\n", "queue", "tenant", "show", name, "b")
	s.want("all others: 5 in flight, 9 waiting\n", "queue", "tenant", "set", name, "--default", "--max-in-flight", "1", "--max-waiting", "9", "--if-unset")
	s.want("c: any number in flight, 9 waiting (default)\n", "queue", "tenant", "set", name, "c", "--max-in-flight", "0")
	s.want("all others: 5 in flight\n", "queue", "tenant", "clear", name, "--default", "--limit", "max_waiting,weight")
	s.want("b goes on\n", "queue", "tenant", "resume", name, "b")
	s.refused(1, "declined", "queue", "tenant", "purge", name, "b")
	if got := s.feed("y\n", "queue", "tenant", "purge", name, "b"); got.stdout != "2 messages removed\n" || !strings.Contains(got.stderr, "delayed, 2? [y/N]") {
		t.Errorf("purge = %+v", got)
	}
	s.want("a: 5 in flight (default)\n", "queue", "tenant", "clear", name, "a")
	s.refused(2, "bad_argument", "queue", "tenant", "set", name, "a", "--weight", "101")
	s.refused(2, "bad_argument", "queue", "resize", name, "4")

	streams := redistest.Name(t) + "-streams"
	s.run("queue", "write", streams, "--tenant", "a", "--body", "x", "--streams", "4")
	s.refused(2, "bad_argument", "queue", "tenants", streams)
	s.refused(2, "bad_argument", "queue", "tenant", "set", streams, "a", "--rate", "1/s")
}
