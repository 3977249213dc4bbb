package main

import (
	"encoding/json"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/fleet/failover"
	"github.com/millrace/millrace/internal/fleet/overview"
)

// TestFleetRestore: both members of a partition lose power, and one comes back. The fleet says who
// is missing and how old the data is, and a person decides.
func TestFleetRestore(t *testing.T) {
	t.Parallel()
	s := fleetShell(t)
	here, gone := member(t), member(t)
	s.init("--partition", here.Addr()+"@a,"+gone.Addr()+"@b", "--max-age", "1h")
	settings := answer[settingsDoc](s, "fleet", "set").Settings
	if !slices.Contains(settings, settingDoc{"max-age", "1h0m0s", "3s"}) {
		t.Errorf("settings = %+v, want the max-age of init", settings)
	}
	agent := startCommand(t, "--redis", s.url, "fleet", "agent", "--every", "100ms", "--json")
	agent.line()
	s.isFull()
	doc := s.shows("the members have a beat", func(doc overview.Fleet) bool {
		return len(doc.Data) == 1 && len(doc.Data[0].Members) == 2 && doc.Data[0].Members[0].Beat > 0 && doc.Data[0].Members[1].Beat > 0
	})
	if d := doc.Data[0]; d.Waits != "" || !d.Members[0].Known || d.Members[0].Text == "" {
		t.Errorf("data = %+v, want what each member has, and nothing that the partition waits for", d)
	}
	c := here.Client(t)
	if err := c.Do(t.Context(), c.B().Save().Build()).Error(); err != nil {
		t.Fatal(err)
	}
	gone.Kill()
	here.Kill()
	here.Restart()
	s.shows("the fleet says what it waits for", func(doc overview.Fleet) bool {
		return strings.Contains(doc.Data[0].Waits, gone.Addr()+" does not answer") && strings.Contains(doc.Data[0].Waits, "millrace fleet restore 0 --from "+here.Addr())
	})
	text := s.run("fleet", "show").stdout
	for _, part := range []string{"Partition 0 is read-only: ", "    " + here.Addr() + ": ", "    " + gone.Addr() + ": does not answer"} {
		if !strings.Contains(text, part) {
			t.Errorf("show prints no %q:\n%s", part, text)
		}
	}
	if f := s.refused(1, "declined", "fleet", "restore", "0", "--from", here.Addr()); f.Hint == "" {
		t.Errorf("restore without a confirmation = %+v, want a hint", f)
	}
	if f := s.refused(1, "no_data", "fleet", "restore", "0", "--from", gone.Addr(), "--yes"); f.Hint == "" {
		t.Errorf("restore from a member that is away = %+v, want a hint", f)
	}
	got := s.run("fleet", "restore", "0", "--from", here.Addr(), "--yes", "--json")
	var done restoreDoc
	if err := json.Unmarshal([]byte(got.stdout), &done); err != nil || got.code != 0 {
		t.Fatalf("restore = %+v, %v, want what it did", got, err)
	}
	if done.From != here.Addr() || len(done.Members) != 2 || !done.Members[0].Known || done.Members[1] != (failover.Age{Addr: gone.Addr(), Text: done.Members[1].Text}) {
		t.Errorf("restore = %+v, want what there was", done)
	}
	s.shows("the partition has that master", func(doc overview.Fleet) bool {
		p := doc.Partitions[0]
		return doc.State == fleet.Partial && p.Master.Addr == here.Addr() && doc.Data[0].Waits == ""
	})
	gone.Restart()
	s.isFull()
	agent.end(syscall.SIGTERM)
}
