package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/overview"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/observe/doctor"
)

// quickly are settings for tests that shorten waits. The other limits
// are as they are, for machines that are busy.
var quickly = []string{"--placement-life", "1s"}

// member starts a server that can become a member of a fleet.
func member(t *testing.T, args ...string) *redistest.Server {
	t.Helper()
	return redistest.Start(t, redistest.Options{TCP: true, Args: append([]string{"--repl-diskless-sync-delay", "0"}, args...)})
}

// fleetShell returns a shell for a fleet that is not there yet.
func fleetShell(t *testing.T) shell {
	t.Helper()
	return shell{t: t, url: fleetURL(redistest.Durable(t))}
}

func fleetURL(s *redistest.Server) string { return "fleet://" + s.Addr() }

// init makes a fleet.
func (s shell) init(args ...string) fleet.Status {
	s.t.Helper()
	return s.grow(append(append([]string{"fleet", "init"}, quickly...), args...)...)
}

// grow runs a command that makes or adds partitions, and checks that it says so.
func (s shell) grow(args ...string) fleet.Status {
	s.t.Helper()
	got := s.run(append(args, "--skip-restart", "--json")...)
	var status fleet.Status
	if err := json.Unmarshal([]byte(got.stdout), &status); err != nil || got.code != 0 {
		s.t.Fatalf("millrace %v = %+v, want a document", args, got)
	}
	for line := range strings.Lines(got.stderr) {
		var entry struct{ Msg string }
		if err := json.Unmarshal([]byte(line), &entry); err != nil || entry.Msg == "" {
			s.t.Errorf("millrace %v says %q, want lines of JSON", args, got.stderr)
		}
	}
	return status
}

// specs returns the flags for partitions that have a master alone.
func specs(servers ...*redistest.Server) []string {
	var flags []string
	for _, s := range servers {
		flags = append(flags, "--partition", s.Addr())
	}
	return flags
}

func TestFleetGrows(t *testing.T) {
	t.Parallel()
	s := fleetShell(t)
	master, replica, second := member(t), member(t), member(t)
	status := s.init("--partition", master.Addr()+"@a,"+replica.Addr()+"@b", "--partition", second.Addr()+"@b,weight=2")
	if status.State != fleet.Healthy || status.Epoch != 1 || len(status.Partitions) != 2 {
		t.Fatalf("init = %+v, want two partitions, healthy", status)
	}
	first := status.Partitions[0]
	if first.Master.PID != master.PID() || first.Master.Node != "a" || first.Replicas[0].PID != replica.PID() || first.Replicas[0].Node != "b" {
		t.Errorf("partition 0 = %+v, want it on %d and %d", first, master.PID(), replica.PID())
	}
	if got := status.Partitions[1].Share; got < 0.66 || got > 0.67 {
		t.Errorf("share of partition 1 = %v, want two thirds", got)
	}

	// Every noun runs on it.
	const names = 6 // some of which belong to new partitions later
	for i := range names {
		name := fmt.Sprint("lease", i)
		held := answer[grantDoc](s, "lease", "acquire", name, "--ttl", "1h")
		if shown := answer[shownDoc](s, "lease", "show", name); shown.Token != held.Token {
			t.Errorf("show %s = %+v, want the token %s", name, shown, held.Token)
		}
	}

	added := member(t).Addr()
	status = s.grow("fleet", "add", "--partition", added+"@c", "--partition", member(t).Addr())
	if got := s.refused(2, "bad_argument", "fleet", "add", "--partition", added+"@c"); !strings.Contains(got.Error, "of partition 2 already") || !strings.Contains(got.Hint, "fleet show") {
		t.Errorf("the same partition again: %+v, want that it was added", got)
	}
	if len(status.Partitions) != 4 || status.Partitions[3].Generation != 1 || status.Partitions[3].Phase != directory.Open {
		t.Fatalf("add = %+v, want four partitions, the last of generation 1 and open", status)
	}
	if got := answer[fleet.Status](s, "fleet", "show"); got.Epoch != status.Epoch || len(got.Partitions) != 4 {
		t.Errorf("show = %+v, want what add printed: %+v", got, status)
	}
	older := ""
	for i := range names {
		name := fmt.Sprint("lease", i)
		if shown := answer[shownDoc](s, "lease", "show", name); !shown.Held {
			t.Errorf("%s is lost: %+v", name, shown)
		}
		if l := answer[overview.Location](s, "fleet", "locate", name); l.How == fleet.Older {
			older = name
			if l.Asked[0] < 2 || l.Partition > 1 || l.Partition != l.Asked[len(l.Asked)-1] {
				t.Errorf("locate %s = %+v, want a new partition asked first, and an old one that has it", name, l)
			}
		}
	}
	if older == "" {
		t.Fatal("none of the tags belongs to a new partition now")
	}
	got := s.run("fleet", "locate", older)
	for _, part := range []string{older + " is on partition ", "\nasked ", ", then ", " has it: it was placed before partition ", "\nposition on the ring: "} {
		if !strings.Contains(got.stdout, part) {
			t.Errorf("locate %s prints no %q:\n%s", older, part, got.stdout)
		}
	}
}

func TestFleetLocate(t *testing.T) {
	t.Parallel()
	s := fleetShell(t)
	servers := []*redistest.Server{member(t), member(t)}
	s.init(append(specs(servers...), "--max-tags", "3")...)

	for range 2 { // a tag that is nowhere, and stays nowhere
		l := answer[overview.Location](s, "fleet", "locate", "{tag}:key")
		want := servers[l.Partition].Addr()
		if l.Tag != "tag" || l.How != fleet.Nowhere || l.Addr != want || len(l.Position) != 16 {
			t.Errorf("locate = %+v, want tag nowhere, and to go to %s", l, want)
		}
	}
	if got := s.run("fleet", "locate", "tag").stdout; !strings.HasPrefix(got, "tag has no place yet: it would go to partition ") {
		t.Errorf("locate prints %q", got)
	}

	// Each partition takes three, and sends on the others that are its own.
	hows := map[string]string{}
	f, err := fleet.Dial(t.Context(), s.url, fleet.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for i := range 6 {
		name := fmt.Sprint("k", i)
		if err := f.Client().Do(t.Context(), f.Client().B().Set().Key(name).Value("x").Build()).Error(); err != nil {
			t.Fatal(err)
		}
		hows[answer[overview.Location](s, "fleet", "locate", name).How] = name
	}
	s.refused(1, "full", "ick", "add", "one too many", "1", "a")
	if owner := hows[fleet.Owner]; owner == "" || !strings.Contains(s.run("fleet", "locate", owner).stdout, "), its owner\n") {
		t.Errorf("locate %q does not say that it is at its owner", owner)
	}
	if sent := hows[fleet.Forwarded]; sent != "" {
		if got := s.run("fleet", "locate", sent).stdout; !strings.Contains(got, "was full when it was placed, and sent it on\n") {
			t.Errorf("locate %s prints %q", sent, got)
		}
	}
}

func TestFleetForget(t *testing.T) {
	t.Parallel()
	s := fleetShell(t)
	s.init(specs(member(t), member(t))...)
	s.want("1 new, 0 lowered\n", "ick", "add", "gone", "1", "a")
	s.want("1 new, 0 lowered\n", "ick", "add", "kept", "1", "a")
	answer[struct{ Deleted int }](s, "ick", "rm", "gone", "--force")
	if f := s.refused(1, "in_use", "fleet", "forget", "gone", "kept"); !strings.Contains(f.Error, `"kept"`) || strings.Contains(f.Error, `"gone"`) {
		t.Errorf("forget says %q, want kept named alone", f.Error)
	}
	for name, want := range map[string]string{"gone": fleet.Nowhere, "kept": fleet.Owner} {
		if l := answer[overview.Location](s, "fleet", "locate", name); l.How != want {
			t.Errorf("locate %s = %+v, want %s", name, l, want)
		}
	}
	s.want("forgotten: 1 tag\n", "fleet", "forget", "gone", "{gone}:key")
}

func TestFleetShow(t *testing.T) {
	t.Parallel()
	s := fleetShell(t)
	var masters, replicas []*redistest.Server
	var flags []string
	for range 2 {
		m, r := member(t, "--maxmemory", "64mb"), member(t, "--maxmemory", "64mb")
		masters, replicas = append(masters, m), append(replicas, r)
		flags = append(flags, "--partition", m.Addr()+"@a,"+r.Addr()+"@b")
	}
	s.init(flags...)
	var got outcome
	redistest.Eventually(t, "the replicas are in step", func() bool {
		got = s.run("fleet", "show")
		return strings.Count(got.stdout, "@b\n") == 2
	})
	for _, part := range []string{
		"healthy: 2 partitions, 4 servers, 2 nodes, epoch ", " 50.0%  healthy ", " of 64 MB ",
		"  " + masters[0].Addr() + "@a ", "  " + replicas[1].Addr() + "@b\n",
	} {
		if !strings.Contains(got.stdout, part) {
			t.Errorf("show prints no %q:\n%s", part, got.stdout)
		}
	}

	replicas[0].Kill()
	masters[1].Kill()
	status := answer[fleet.Status](s, "fleet", "show")
	if status.State != fleet.ReadOnly || status.Partitions[0].State != fleet.Partial || status.Partitions[1].State != fleet.ReadOnly {
		t.Errorf("show = %+v, want partial and read-only", status)
	}
	got = s.run("fleet", "show")
	for _, part := range []string{
		replicas[0].Addr() + "@b DOWN\n", masters[1].Addr() + "@a DOWN ",
		replicas[0].Addr() + " (partition 0): the replica is down: ", "read-only: 2 partitions",
	} {
		if !strings.Contains(got.stdout, part) {
			t.Errorf("show prints no %q:\n%s", part, got.stdout)
		}
	}

	r, code := examined(t, s.url)
	if state := severities(r.Fleet)["state"]; code != 1 || state != doctor.Critical {
		t.Errorf("doctor exits with %d and finds %+v", code, r.Fleet)
	}
	for _, f := range r.Fleet {
		if f.Check != "members" {
			continue
		}
		want := doctor.Warning
		if strings.Contains(f.Text, "master") && strings.HasPrefix(f.Text, masters[1].Addr()) {
			want = doctor.Critical
		}
		if f.Severity != want {
			t.Errorf("finding %+v, want the severity %s", f, want)
		}
	}
}

func TestFleetBadInput(t *testing.T) {
	t.Parallel()
	none := fleetShell(t) // a directory, and no fleet
	servers := []*redistest.Server{member(t), member(t), member(t)}
	a, b, c := servers[0].Addr(), servers[1].Addr(), servers[2].Addr()
	full, evicting := member(t), member(t, "--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru")
	if err := full.Client(t).Do(t.Context(), full.Client(t).B().Set().Key("k").Value("v").Build()).Error(); err != nil {
		t.Fatal(err)
	}
	dead := member(t)
	dead.Kill()
	nowhere := shell{t: t, url: fleetURL(dead)}
	tests := []struct {
		shell shell
		exit  int
		code  string
		args  string
	}{
		{nowhere, 2, "bad_argument", "fleet init --partition nohost"},
		{nowhere, 2, "bad_argument", "fleet init --partition :7001"},
		{nowhere, 2, "bad_argument", "fleet init --partition h:0"},
		{nowhere, 2, "bad_argument", "fleet init --partition h:65536"},
		{nowhere, 2, "bad_argument", "fleet init --partition h:redis"},
		{nowhere, 2, "bad_argument", "fleet init --partition h:7001@"},
		{nowhere, 2, "bad_argument", "fleet init --partition h:7001@a@b"},
		{nowhere, 2, "bad_argument", "fleet init --partition h:7001,"},
		{nowhere, 2, "bad_argument", "fleet init --partition h:7001,weight=0"},
		{nowhere, 2, "bad_argument", "fleet init --partition h:7001,weight=x"},
		{nowhere, 2, "bad_argument", "fleet init --partition h:7001,weight=1,weight=2"},
		{nowhere, 2, "bad_argument", "fleet init --partition weight=2"},
		{nowhere, 2, "bad_argument", "fleet init --partition="},
		{nowhere, 2, "bad_usage", "fleet init"},
		{nowhere, 2, "bad_usage", "fleet add"},
		{nowhere, 2, "bad_usage", "fleet add --restart-timeout -1s --partition h:7001"},
		{nowhere, 2, "bad_usage", "fleet spare add h:7001 --restart-timeout -1s"},
		{nowhere, 2, "bad_usage", "fleet replica add 0 h:7001 --restart-timeout -1s"},
		{nowhere, 2, "bad_usage", "fleet locate"},
		{nowhere, 2, "bad_usage", "fleet forget"},
		{nowhere, 1, "unreachable", "fleet init --partition " + a},
		{nowhere, 1, "unreachable", "fleet show"},
		{nowhere, 1, "unreachable", "doctor"},
		{nowhere, 1, "unreachable", "ick ls"},
		{shell{t: t, url: "fleet://nowhere.invalid:1"}, 1, "unreachable", "fleet show"},
		{shell{t: t, url: "fleet://"}, 2, "bad_url", "fleet show"},
		{shell{t: t, url: "fleets://h:notaport"}, 2, "bad_url", "ick ls"},
		{sharedShell(t), 2, "bad_url", "fleet show"},
		{sharedShell(t), 2, "bad_url", "fleet init --partition h:1"},
		{none, 1, "not_found", "fleet show"},
		{none, 1, "not_found", "fleet add --partition " + a},
		{none, 1, "not_found", "ick add K 1 a"},
		{none, 2, "bad_argument", "fleet init --partition " + a + "@n," + b + "@n"},
		{none, 2, "bad_argument", "fleet init --partition " + a + "," + a},
		{none, 2, "bad_argument", "fleet init --view-life 1ms --partition " + a},
		{none, 2, "bad_argument", "fleet init --confirmed -1 --partition " + a},
		{none, 2, "bad_usage", "fleet init --confirmed 2 --partition " + a},
		{none, 2, "bad_argument", "fleet init --max-fill 101 --partition " + a},
		{none, 2, "bad_argument", "fleet init --max-tags -1 --partition " + a},
		{none, 1, "unfit", "fleet init --partition " + a + " --partition " + full.Addr()},
		{none, 1, "unfit", "fleet init --partition " + evicting.Addr()},
		{none, 1, "unavailable", "fleet init --partition " + a + " --partition " + dead.Addr()},
		{none, 0, "", "fleet init --skip-restart --partition " + a},
		{none, 1, "exists", "fleet init --partition " + b},
		{none, 2, "bad_argument", "fleet add --partition " + a},
		{none, 2, "bad_argument", "fleet add --partition " + b + "@n," + c + "@n"},
		{none, 2, "bad_usage", "fleet plan --nodes 3"},
	}
	for _, test := range tests {
		got := test.shell.run(append(strings.Fields(test.args), "--json")...)
		lines := strings.Split(strings.TrimSpace(got.stderr), "\n")
		var f failure
		if test.exit > 0 {
			if err := json.Unmarshal([]byte(lines[len(lines)-1]), &f); err != nil || f.Error == "" || f.Hint == "" {
				t.Errorf("millrace %s says %q, want error and hint in the last line", test.args, got.stderr)
			}
		}
		if got.code != test.exit || f.Code != test.code {
			t.Errorf("millrace %s exits with %d, code %q (%s), want %d, %q", test.args, got.code, f.Code, f.Error, test.exit, test.code)
		}
	}
}

// TestFleetOfSilentDirectory has a directory that hangs.
func TestFleetOfSilentDirectory(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{TCP: true})
	server.Pause()
	t.Cleanup(server.Resume)
	s := shell{t: t, url: strings.Replace(fleetURL(server), "fleet://", "fleet://user:secret@", 1)}
	for _, args := range [][]string{{"fleet", "show"}, {"fleet", "init", "--partition", "127.0.0.1:1"}, {"ick", "ls"}} {
		began := time.Now()
		f := s.refused(1, "unreachable", args...)
		if took := time.Since(began); took > 2*directory.AnswerTimeout {
			t.Errorf("%v gave up after %s, want about %s", args, took, directory.AnswerTimeout)
		}
		if !strings.Contains(f.Error, server.Addr()) || strings.Contains(f.Error, "secret") {
			t.Errorf("%v says %q, want the directory's address, and no password", args, f.Error)
		}
	}
}

func TestFleetAddInterrupted(t *testing.T) {
	t.Parallel()
	s := fleetShell(t)
	s.init(specs(member(t))...)
	added := specs(member(t))
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	stderr := &watched{until: "look for tags", then: interrupt}
	a := &app{env: s.env, stdout: io.Discard, stderr: stderr}
	if code := a.run(ctx, append([]string{"fleet", "add", "--skip-restart", "--json"}, added...)); code != 1 {
		t.Errorf("an interrupted add exits with %d, want 1", code)
	}
	if got := stderr.text.String(); !strings.Contains(got, `"code":"interrupted","hint":"Repeat the command`) {
		t.Errorf("an interrupted add says %q, want what to do", got)
	}
	r, _ := examined(t, s.url)
	if !slices.ContainsFunc(r.Fleet, func(f doctor.Finding) bool {
		return f.Severity == doctor.Warning && strings.HasPrefix(f.Text, "an addition of partitions is not finished")
	}) {
		t.Errorf("doctor finds %+v, want a warning of what is not open yet", r.Fleet)
	}
	if got := s.run("fleet", "show").stdout; !strings.Contains(got, "being added") {
		t.Errorf("show does not say that a partition is being added:\n%s", got)
	}
	status := s.grow(append([]string{"fleet", "add"}, added...)...)
	if len(status.Partitions) != 2 || status.Partitions[1].Phase != directory.Open {
		t.Errorf("add, repeated = %+v, want two partitions, open", status)
	}
}

// watched is an output that does something when it has seen a word.
type watched struct {
	text  strings.Builder
	until string
	then  func()
}

func (w *watched) Write(b []byte) (int, error) {
	w.text.Write(b)
	if strings.Contains(w.text.String(), w.until) {
		w.then()
	}
	return len(b), nil
}
