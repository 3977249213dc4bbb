package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/fleet/overview"
	"github.com/millrace/millrace/internal/test/redistest"
)

// twoMembers makes a fleet of one partition with a replica, whose settings are quick.
func twoMembers(t *testing.T, s shell) []*redistest.Server {
	t.Helper()
	servers := []*redistest.Server{member(t), member(t)}
	s.init("--view-life", "300ms", "--reply-limit", "250ms", "--partition", servers[0].Addr()+"@a,"+servers[1].Addr()+"@b")
	return servers
}

// membersOf returns the addresses of a partition's members, the master's first.
func (s shell) membersOf(partition int) []string {
	s.t.Helper()
	p := answer[overview.Fleet](s, "fleet", "show").Partitions[partition]
	addrs := []string{p.Master.Addr}
	for _, r := range p.Replicas {
		addrs = append(addrs, r.Addr)
	}
	return addrs
}

// TestChangesAsk before they begin, and show their plan.
func TestChangesAsk(t *testing.T) {
	t.Parallel()
	s := fleetShell(t)
	servers := twoMembers(t, s)
	before, added := s.membersOf(0), member(t)
	command := []string{"fleet", "replica", "add", "0", added.Addr() + "@c", "--skip-restart"}
	table := fmt.Sprintf("0          %-15s  -       -         %-15s  the same\n", added.Addr(), servers[0].Addr())
	if got := s.run(append(command, "--dry-run")...); got.code != 0 || !strings.HasSuffix(got.stdout, table) {
		t.Errorf("a dry run = %+v, want a table that ends with %q", got, table)
	}
	for _, no := range []string{"", "n\n", "\n"} {
		got := s.feed(no, command...)
		if got.code != 1 || got.stdout != "" || !strings.Contains(got.stderr, table) || !strings.Contains(got.stderr, "Continue? [y/N] ") || !strings.Contains(got.stderr, "--yes") ||
			no == "" && !strings.Contains(got.stderr, "[y/N] \n") {
			t.Errorf("answered with %q: %+v, want the table, the question, and that nothing was changed", no, got)
		}
	}
	if now := s.membersOf(0); !slices.Equal(now, before) {
		t.Errorf("the members are %v, and were %v", now, before)
	}
	if got := s.feed("y\n", command...); got.code != 0 || !strings.HasPrefix(got.stdout, "done: 1 partition in ") || !strings.Contains(got.stderr, "has all data") {
		t.Errorf("answered with y: %+v, want that it is done", got)
	}
	if now, want := s.membersOf(0), append(before, added.Addr()); !slices.Equal(now, want) {
		t.Errorf("the members are %v, want %v", now, want)
	}
	s.want("there is nothing to do\n", append(command, "--yes")...)
}

// stopped ends a command by a signal, and returns when it has ended.
func (d *process) stopped(signal os.Signal) {
	d.t.Helper()
	if err := d.cmd.Process.Signal(signal); err != nil {
		d.t.Fatal(err)
	}
	_, _ = io.ReadAll(d.stdout)
	_ = d.cmd.Wait()
}

// TestAKilledChangeIsFinished by an agent, or by the same command, at whatever step it was killed;
// an interrupted one says that it was interrupted.
func TestAKilledChangeIsFinished(t *testing.T) {
	redistest.Long(t)
	t.Parallel()
	s := fleetShell(t)
	twoMembers(t, s)
	for i, step := range []string{"is in the map", "has all data"} {
		from, to := s.membersOf(0)[0], member(t)
		change := []string{"--redis", s.url, "fleet", "replica", "move", "0", from, fmt.Sprintf("%s@n%d", to.Addr(), i), "--skip-restart", "--yes", "--json"}
		killed := startCommand(t, change...)
		redistest.Eventually(t, "the command says that a server "+step, func() bool { return strings.Contains(killed.stderr.String(), step) })
		killed.stopped(syscall.SIGKILL)
		switch tasks := answer[overview.Fleet](s, "fleet", "show").Tasks; {
		case len(tasks) != 1 || tasks[0].Leaves != from || tasks[0].Master != to.Addr():
			t.Errorf("killed when it said %q, it left the tasks %+v, want one", step, tasks)
		case i == 0:
			if got := s.run("fleet", "cancel", tasks[0].Plan, "--dry-run"); got.code != 0 || !strings.HasPrefix(got.stdout, "This is dropped") || !strings.Contains(got.stdout, from) {
				t.Errorf("fleet cancel would drop %+v, want that %s leaves", got, from)
			}
			agent := startCommand(t, "--redis", s.url, "fleet", "agent", "--every", "100ms", "--json")
			s.shows("the agent has finished the change", func(doc overview.Fleet) bool { return doc.Tasks == nil && doc.State == fleet.Healthy })
			agent.stopped(syscall.SIGTERM)
		default:
			interrupted := startCommand(t, change...)
			redistest.Eventually(t, "the command waits", func() bool { return strings.Contains(interrupted.stderr.String(), "has begun this") })
			interrupted.stopped(syscall.SIGTERM)
			if got := interrupted.stderr.String(); !strings.Contains(got, `"code":"interrupted"`) || !strings.Contains(got, "agents go on with it") {
				t.Errorf("an interrupted command says %q, want that agents go on", got)
			}
			var doc overview.Change
			if got := s.run(change...); json.Unmarshal([]byte(got.stdout), &doc) != nil || !doc.Begun || !doc.Done || len(doc.Changes) != 1 {
				t.Errorf("the same command prints %+v, want that an earlier one has begun it, and that it is done", got)
			}
		}
		if now := s.membersOf(0); len(now) != 2 || now[0] != to.Addr() || slices.Contains(now, from) {
			t.Errorf("the members are %v, want %s to lead, and %s to be gone", now, to.Addr(), from)
		}
	}
}
