package main

import (
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/overview"
	"github.com/millrace/millrace/internal/test/redistest"
)

// TestASpareReplacesADeadMember, which is told by show and check, and has its data.
func TestASpareReplacesADeadMember(t *testing.T) {
	t.Parallel()
	s := fleetShell(t)
	servers, spare := twoMembers(t, s), member(t)
	s.want("1 new, 0 lowered\n", "ick", "add", "K", "1", "a")
	if got := s.checks("spares"); got != "ok" {
		t.Errorf("findings without spares: %q, want ok", got)
	}
	s.run("fleet", "set", "replace-after", "1s", "--yes")
	if got := s.checks("spares"); got != "no_spare" {
		t.Errorf("findings without spares: %q, want no_spare", got)
	}
	for range 2 { // the second time it is one already
		if got := s.run("fleet", "spare", "add", spare.Addr()+"@c", "--skip-restart"); got.stdout != "the fleet has 1 spare\n" {
			t.Errorf("spare add = %+v, want one spare", got)
		}
	}
	if got := s.checks("spares"); got != "ok" {
		t.Errorf("findings with a spare: %q, want ok", got)
	}
	if table := s.run("fleet", "show").stdout; !strings.Contains(table, "\n1 spare: "+spare.Addr()+"@c\n") {
		t.Errorf("show does not have the spare:\n%s", table)
	}
	if got := s.run("fleet", "replica", "add", "0", spare.Addr()+"@c", "--yes"); got.code != 2 || !strings.Contains(got.stderr, "fleet spare rm") {
		t.Errorf("a spare as a replica: %+v, want that it is taken back first", got)
	}
	if got := s.run("fleet", "add", "--partition", spare.Addr()+"@c", "--skip-restart"); got.code != 2 || !strings.Contains(got.stderr, "fleet spare rm") {
		t.Errorf("a spare as a partition: %+v, want that it is taken back first", got)
	}

	agent := startCommand(t, "--redis", s.url, "fleet", "agent", "--every", "100ms")
	agent.line()
	servers[1].Kill()
	redistest.Eventually(t, "the spare is a replica, and the dead member has left", func() bool {
		doc := answer[overview.Fleet](s, "fleet", "show")
		return slices.Equal(s.membersOf(0), []string{servers[0].Addr(), spare.Addr()}) && len(doc.Spares)+len(doc.Tasks) == 0 && doc.State == "healthy"
	})
	servers[0].Kill() // then the spare leads
	redistest.Eventually(t, "the spare has the data", func() bool { return strings.HasPrefix(s.run("ick", "add", "K", "0", "a").stdout, "0 new, ") })
	agent.end(syscall.SIGTERM)
}

// TestSparesAreRefused that are none, or cannot be one; then none of the command's is one.
func TestSparesAreRefused(t *testing.T) {
	t.Parallel()
	s := fleetShell(t)
	servers, good, full := twoMembers(t, s), member(t), member(t)
	admin := full.Client(t)
	if err := admin.Do(t.Context(), admin.B().Replicaof().No().One().Build()).Error(); err != nil {
		t.Fatal(err)
	}
	if err := admin.Do(t.Context(), admin.B().Set().Key("k").Value("v").Build()).Error(); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		exit int
		code string
		args []string
	}{
		{2, "bad_argument", []string{"add", good.Addr(), servers[1].Addr()}},
		{1, "unfit", []string{"add", good.Addr(), full.Addr()}},
		{1, "not_found", []string{"rm", good.Addr()}},
		{1, "unfit", []string{"add", "--restart-timeout=300ms", member(t).Addr()}}, // no supervisor starts it again
	} {
		if tc.args[0] == "add" && !strings.HasPrefix(tc.args[1], "--") {
			tc.args = append(tc.args, "--skip-restart")
		}
		s.refusedAfterLog(tc.exit, tc.code, append([]string{"fleet", "spare"}, tc.args...)...)
	}
	if m := answer[struct{ Spares []directory.Member }](s, "fleet", "show"); len(m.Spares) > 0 {
		t.Errorf("the spares are %v, want none", m.Spares)
	}
}
