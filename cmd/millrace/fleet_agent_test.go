package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/fleet/overview"
	"github.com/millrace/millrace/internal/test/redistest"
)

// threeMembers makes a fleet of one partition with two replicas.
func threeMembers(t *testing.T, s shell) []*redistest.Server {
	t.Helper()
	servers := []*redistest.Server{member(t), member(t), member(t)}
	s.init("--partition", servers[0].Addr()+"@a,"+servers[1].Addr()+"@b,"+servers[2].Addr()+"@c")
	return servers
}

// shows waits until the fleet is as it is wanted.
func (s shell) shows(what string, is func(overview.Fleet) bool) (doc overview.Fleet) {
	s.t.Helper()
	redistest.Eventually(s.t, what, func() bool {
		doc = answer[overview.Fleet](s, "fleet", "show")
		return is(doc)
	})
	return doc
}

func (s shell) isFull() overview.Fleet {
	s.t.Helper()
	return s.shows("the fleet is healthy", func(doc overview.Fleet) bool { return doc.State == fleet.Healthy })
}

// TestFleetAgent has two agents, of which one is gone when a master dies.
func TestFleetAgent(t *testing.T) {
	t.Parallel()
	s := fleetShell(t)
	servers := threeMembers(t, s)
	first := startCommand(t, "--redis", s.url, "fleet", "agent", "--every", "100ms", "--json")
	if got, want := first.line(), `{"ready":true,"epoch":1,"partitions":1,"members":3}`+"\n"; got != want {
		t.Errorf("the agent prints %q, want %q", got, want)
	}
	redistest.Eventually(t, "the first agent leads", func() bool { return strings.Contains(first.stderr.String(), `"msg":"the agent leads"`) })
	second := startCommand(t, "--redis", s.url, "fleet", "agent", "--every", "100ms")
	if got, want := second.line(), "watching 1 partition, 3 servers, until this command is interrupted\n"; got != want {
		t.Errorf("the agent prints %q, want %q", got, want)
	}
	s.isFull()
	first.end(syscall.SIGTERM)
	redistest.Eventually(t, "the second agent leads", func() bool { return strings.Contains(second.stderr.String(), `msg="the agent leads"`) })

	servers[0].Kill()
	doc := s.shows("another master is there", func(doc overview.Fleet) bool {
		return doc.State == fleet.Partial && doc.Partitions[0].Master.Addr != servers[0].Addr()
	})
	if len(doc.Events) < 2 || !strings.HasPrefix(doc.Events[0].What, "healthy: "+doc.Partitions[0].Master.Addr) || doc.Events[0].Epoch == 0 || doc.Events[0].At.IsZero() {
		t.Errorf("events = %+v, want what was done, the newest first", doc.Events)
	}
	if doc.Partitions[0].Epoch < 3 {
		t.Errorf("partition 0 has epoch %d, want one for read-only and one for the new master", doc.Partitions[0].Epoch)
	}
	got := s.run("fleet", "show")
	for _, part := range []string{"WHEN ", "epoch ", "healthy: " + doc.Partitions[0].Master.Addr + " leads, in place of " + servers[0].Addr(), "No data is lost"} {
		if !strings.Contains(got.stdout, part) {
			t.Errorf("show prints no %q:\n%s", part, got.stdout)
		}
	}

	servers[0].Restart() // as an empty master, which no agent takes for one
	s.shows("the old master is a replica in step", func(doc overview.Fleet) bool {
		p := doc.Partitions[0]
		return doc.State == fleet.Healthy && len(p.Replicas) == 2 && p.Master.Addr != servers[0].Addr()
	})
	second.end(os.Interrupt)
}

// TestFleetAgentTakesSnapshots has one agent do both.
func TestFleetAgentTakesSnapshots(t *testing.T) {
	t.Parallel()
	s := fleetShell(t)
	threeMembers(t, s)
	archive := t.TempDir()
	if doc := answer[overview.Fleet](s, "fleet", "show"); doc.Snapshots == nil || len(doc.Snapshots) > 0 || doc.Events == nil || len(doc.Events) > 0 {
		t.Errorf("show = %+v, want no snapshots and no events, and lists of them", doc)
	}
	agent := startCommand(t, "--redis", s.url, "fleet", "agent", "--every", "100ms", "--snapshots-every", "1s", "--archive", archive, "--keep", "1", "--json")
	agent.line()
	doc := s.shows("a snapshot is archived", func(doc overview.Fleet) bool { return len(doc.Snapshots) == 1 && doc.Snapshots[0].Archived != nil })
	p := doc.Snapshots[0]
	if p.Partition != 0 || p.Saved == nil || p.Saved.Addr == doc.Partitions[0].Master.Addr || p.Saved.Node == "" || p.Saved.Age < 0 || p.Archived.Bytes == 0 || p.Failed != nil {
		t.Errorf("snapshots = %+v, want one of a replica", p)
	}
	files, err := filepath.Glob(filepath.Join(archive, "*"))
	if err != nil || len(files) == 0 {
		t.Errorf("the archive has %v (%v), want a snapshot", files, err)
	}
	if got := s.run("fleet", "show").stdout; !strings.Contains(got, " SAVED ") || !strings.Contains(got, "The oldest snapshot is that of partition 0, ") {
		t.Errorf("show does not tell of snapshots:\n%s", got)
	}
	agent.end(syscall.SIGTERM)
}

func TestFleetFailover(t *testing.T) {
	t.Parallel()
	s := fleetShell(t)
	servers := threeMembers(t, s)
	s.want("1 new, 0 lowered\n", "ick", "add", "K", "1", "a")
	to := servers[2].Addr()
	s.isFull()
	got := s.run("fleet", "failover", "0", "--to", to, "--json")
	var doc switchDoc
	if err := json.Unmarshal([]byte(got.stdout), &doc); err != nil || got.code != 0 {
		t.Fatalf("failover = %+v, want a document", got)
	}
	if doc != (switchDoc{Partition: 0, From: servers[0].Addr(), To: to, Took: doc.Took}) || doc.Took <= 0 {
		t.Errorf("failover = %+v, want from %s to %s, and the time that it took", doc, servers[0].Addr(), to)
	}
	for _, replica := range servers[:2] {
		replica.Pause()
	}
	f := s.refusedAfterLog(1, "not_switched", "fleet", "failover", "0")
	if !strings.Contains(f.Error, "no replica of partition 0 can be made its master") || f.Hint == "" {
		t.Errorf("failover without a replica in step says %+v", f)
	}
	for _, replica := range servers[:2] {
		replica.Resume()
	}
	agent := startCommand(t, "--redis", s.url, "fleet", "agent", "--every", "100ms")
	agent.line()
	s.isFull()
	got = s.run("fleet", "failover", "0")
	now := answer[overview.Fleet](s, "fleet", "show").Partitions[0].Master.Addr
	if want := fmt.Sprintf("%s is the master of partition 0, in place of %s, after ", now, to); got.code != 0 || !strings.HasPrefix(got.stdout, want) || now == to {
		t.Errorf("failover = %+v, want %q", got, want)
	}
	agent.end(syscall.SIGTERM)
	s.want("0 new, 1 lowered\n", "ick", "add", "K", "0", "a") // the earlier write is there
}

// refusedAfterLog is refused for a command that may log something first.
func (s shell) refusedAfterLog(exit int, code string, args ...string) (f failure) {
	s.t.Helper()
	got := s.run(append([]string{"--json"}, args...)...)
	lines := strings.Split(strings.TrimSpace(got.stderr), "\n")
	err := json.Unmarshal([]byte(lines[len(lines)-1]), &f)
	if err != nil || got.code != exit || f.Code != code || got.stdout != "" {
		s.t.Errorf("millrace %v = %+v, want exit code %d and code %q", args, got, exit, code)
	}
	return f
}

func TestFleetAgentBadInput(t *testing.T) {
	t.Parallel()
	none := fleetShell(t)
	some := fleetShell(t)
	some.init(specs(member(t))...)
	dead := member(t)
	dead.Kill()
	nowhere := shell{t: t, url: fleetURL(dead)}
	for _, test := range []struct {
		shell shell
		exit  int
		code  string
		args  string
	}{
		{nowhere, 1, "unreachable", "fleet agent"},
		{nowhere, 1, "unreachable", "fleet failover 0"},
		{nowhere, 2, "bad_usage", "fleet agent --every 0s"},
		{nowhere, 2, "bad_usage", "fleet agent --every -1s"},
		{nowhere, 2, "bad_usage", "fleet agent --every often"},
		{nowhere, 2, "bad_usage", "fleet agent --snapshots-every -1s"},
		{nowhere, 2, "bad_usage", "fleet agent --archive ."},
		{nowhere, 2, "bad_usage", "fleet agent --keep 3"},
		{nowhere, 2, "bad_usage", "fleet agent --snapshots-every 1s --keep 3"},
		{nowhere, 2, "bad_usage", "fleet agent --snapshots-every 1s --archive . --keep -3"},
		{nowhere, 2, "bad_usage", "fleet agent --snapshots-every 1s --archive nowhere"},
		{nowhere, 2, "bad_usage", "fleet failover"},
		{nowhere, 2, "bad_usage", "fleet failover first"},
		{nowhere, 2, "bad_usage", "fleet failover 0 --to h"},
		{nowhere, 2, "bad_usage", "fleet failover 0 --to h:1@node"},
		{nowhere, 1, "unreachable", "fleet restore 0 --from 127.0.0.1:1"},
		{nowhere, 2, "bad_usage", "fleet restore 0"},
		{nowhere, 2, "bad_usage", "fleet restore 0 --from h:1@node"},
		{none, 1, "not_found", "fleet agent"},
		{none, 1, "not_found", "fleet failover 0"},
		{some, 1, "not_found", "fleet failover 1"},
		{some, 1, "not_found", "fleet failover -1"},
		{some, 1, "not_found", "fleet restore 1 --from 127.0.0.1:1 --yes"},
		{some, 1, "no_data", "fleet restore 0 --from 127.0.0.1:1 --yes"},
		{some, 1, "not_switched", "fleet failover 0"},
		{some, 1, "not_switched", "fleet failover 0 --to 127.0.0.1:1"},
	} {
		if f := test.shell.refused(test.exit, test.code, strings.Fields(test.args)...); f.Error == "" || f.Hint == "" {
			t.Errorf("millrace %s: error %q, hint %q, want both", test.args, f.Error, f.Hint)
		}
	}
}
