package main

import (
	"context"
	"io"
	"io/fs"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/test/redistest"
)

// TestSpellings: people type help and --version first.
func TestSpellings(t *testing.T) {
	t.Parallel()
	s := shell{t: t}
	for typed, is := range map[string]string{
		"help": "--help", "help queue": "queue --help", "help queue write": "queue write --help", "--version": "version", "--version --json": "version --json",
	} {
		got, want := s.run(strings.Fields(typed)...), s.run(strings.Fields(is)...)
		if got != want || got.code != 0 {
			t.Errorf("millrace %s = %+v, want what millrace %s prints: %+v", typed, got, is, want)
		}
	}
	s.refused(2, "bad_usage", "queue", "help")
}

func TestHelp(t *testing.T) {
	t.Parallel()
	commands := [][]string{nil, {"ick"}, {"ick", "parked"}, {"lease"}, {"queue"}, {"queue", "dead"}, {"fleet"}, {"fleet", "replica"}, {"fleet", "node"}}
	for _, node := range leaves(t) {
		commands = append(commands, strings.Fields(node.FullPath())[1:])
	}
	if got, least := len(commands), 15; got < least {
		t.Fatalf("%d commands, want at least %d", got, least)
	}
	s := shell{t: t}
	for _, command := range commands {
		for _, flag := range []string{"--help", "-h"} {
			args := append(command, flag)
			got := s.run(args...)
			if got.code != 0 || got.stderr != "" {
				t.Errorf("millrace %v exits with %d and says %q, want 0 and nothing", args, got.code, got.stderr)
			}
			for _, part := range []string{"Usage: millrace", "Examples:", "\n    millrace "} {
				if !strings.Contains(got.stdout, part) {
					t.Errorf("millrace %v prints no %q:\n%s", args, part, got.stdout)
				}
			}
		}
	}
}

func TestURLs(t *testing.T) {
	t.Parallel()
	unix := redistest.Shared(t).URL()
	urls := map[string]string{
		"unix with three slashes": unix,
		"unix with one slash":     strings.Replace(unix, "unix://", "unix:", 1),
		"redis":                   redistest.Start(t, redistest.Options{TCP: true}).URL(),
	}
	for kind, url := range urls {
		name := redistest.Name(t)
		shell{t: t, url: url}.want("1 new, 0 lowered\n", "ick", "add", name, "1", "a")
		shell{t: t, url: ""}.want("0 new, 1 lowered\n", "ick", "add", name, "0", "a", "--redis", url)
		if got := (shell{t: t, url: "redis://nowhere.invalid"}).run("--redis="+url, "ick", "stats", name); got.code != 0 {
			t.Errorf("%s: the flag does not win over the environment: %+v", kind, got)
		}
	}
}

func TestNoServer(t *testing.T) {
	t.Parallel()
	for _, node := range leaves(t) {
		args := strings.Fields(node.FullPath())[1:]
		switch strings.Join(args, " ") {
		case "bench", "completion", "demo", "serve", "version", "fleet plan":
			continue
		case "fleet init", "fleet add":
			args = append(args, "--partition", "h:1")
		case "fleet locate", "fleet forget":
			args = append(args, "K")
		case "counter add":
			args = append(args, "K", "1")
		case "counter get":
			args = append(args, "K")
		case "fleet rebalance":
			args = append(args, "K", "--to", "0")
		case "fleet failover":
			args = append(args, "0")
		case "fleet replica add":
			args = append(args, "0", "h:1")
		case "fleet spare add", "fleet spare rm":
			args = append(args, "h:1")
		case "fleet replica rm":
			args = append(args, "0", "h:1")
		case "fleet replica move":
			args = append(args, "0", "h:1", "h:2")
		case "fleet node replace":
			args = append(args, "a", "h:1")
		case "fleet node drain", "fleet cancel":
			args = append(args, "a")
		case "fleet recover":
			args = append(args, "--member", "h:1")
		case "fleet show": // of no name
			args = append(args, "--json")
		case "schedule set":
			args = append(args, "K", "n", "--every", "1m", "--tenant", "t", "--body", "b")
		case "schedule show", "schedule next", "schedule run":
			args = append(args, "K", "n")
		case "schedule pause", "schedule resume":
			args = append(args, "K", "n")
		case "schedule rm":
			args = append(args, "K", "n", "--yes")
		case "context ls", "context set", "context use", "context rm":
			continue
		case "lease ls":
			args = append(args, "--most", "1")
		case "fleet restore":
			args = append(args, "0", "--from", "h:1")
		case "lease run":
			args = append(args, "K", "true")
		case "batch create":
			args = append(args, "K", "--tenant", "t")
		case "batch ls":
			args = append(args, "K")
		case "batch close":
			args = append(args, "K", "1795226400140077")
		case "queue work":
			args = append(args, "K", "--exec", "true")
		case "queue tenant set":
			args = append(args, "K", "t", "--rate", "1/s")
		case "queue tenant show", "queue tenant clear", "queue tenant pause", "queue tenant resume":
			args = append(args, "K", "t")
		case "queue tenant purge":
			args = append(args, "K", "t", "--yes")
		}
		if args[0] == "hash" {
			args = append(args, "NS", "K")
		}
		switch strings.TrimSuffix(strings.Join(args, " "), " NS K") {
		case "hash set":
			args = append(args, "f", "v")
		case "hash get", "hash ttl":
			args = append(args, "f")
		case "pinned set":
			args = append(args, "K", "k", "v", "--ttl", "1s")
		case "pinned get", "pinned ttl", "pinned rm", "tracker queued":
			args = append(args, "K", "k")
		}
		switch args[len(args)-1] {
		case "add":
			args = append(args, "K", "1", "a")
		case "reserve", "exchange":
			args = append(args, "K", "1")
		case "commit":
			args = append(args, "K", "1", "a")
		case "rm":
			if args = append(args, "K"); args[1] == "parked" {
				args = append(args, "--all")
			}
		case "retry", "redrive", "purge":
			args = append(args, "K", "--all")
		case "work":
			args = append(args, "K", "--exec", "true")
		case "browse", "groups", "failures", "stats", "show", "pause", "resume", "read", "keep", "after":
			if args = append(args, "K"); args[0]+args[1] == "queueshow" || args[0] == "batch" {
				args = append(args, "1795226400140077")
			}
		case "write":
			args = append(args, "K", "--tenant", "t")
		case "position":
			args = append(args, "K", "s")
		case "tenants":
			args = append(args, "K")
		case "ack", "nack":
			args = append(args, "K", "1:1-1")
		case "extend":
			args = append(args, "K", "1:1-1", "1s")
		case "cancel":
			args = append(args, "K", "1-1.1")
		case "resize":
			args = append(args, "K", "1")
		case "acquire":
			args = append(args, "K", "--ttl", "1s")
		case "refresh":
			args = append(args, "K", "--token", "t", "--ttl", "1s")
		case "release":
			args = append(args, "K", "--token", "t")
		case "ls":
			if len(args) == 3 && args[1] != "channel" { // of something with a name
				args = append(args, "K")
			}
		}
		f := shell{t: t}.refused(2, "bad_url", args...)
		if !strings.Contains(f.Hint, "--redis") || !strings.Contains(f.Hint, "MILLRACE_REDIS_URL") {
			t.Errorf("millrace %v: hint %q, want one that names --redis and MILLRACE_REDIS_URL", args, f.Hint)
		}
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	nowhere := shell{t: t, url: "unix:///nonexistent/redis.sock"}
	tests := []struct {
		shell shell
		exit  int
		code  string
		args  string
	}{
		{nowhere, 1, "unreachable", "ick ls"},
		{nowhere, 1, "unreachable", "ick add K 1 a"},
		{shell{t: t, url: "bogus://x"}, 2, "bad_url", "ick ls"},
		{shell{t: t, url: "fleet://"}, 2, "bad_url", "ick ls"},
		{shell{t: t, url: "fleet:x"}, 2, "bad_url", "ick ls"},
		// Faults of the command line are found before Redis is asked.
		{nowhere, 2, "bad_usage", "ick add K 1 a 2"},
		{nowhere, 2, "bad_usage", "ick add K now a 2 b"},
		{nowhere, 2, "bad_score", "ick add K 1 a x b"},
		{nowhere, 2, "bad_score", "ick add K nan a"},
		{nowhere, 2, "bad_score", "ick add K 0x1p4 a"},
		{nowhere, 2, "bad_name", "ick add a{ 1 a"},
		{nowhere, 2, "bad_name", "ick add mr:audit 1 a"},
		{nowhere, 2, "bad_name", "queue read mr:q"},
		{nowhere, 2, "bad_name", "lease acquire mr:l --ttl 1s"},
		{nowhere, 2, "bad_name", "hash set mr:n h f v"},
		{nowhere, 2, "bad_name", "counter add mr:audit 1"},
		{nowhere, 2, "bad_name", "ick stats " + strings.Repeat("x", 513)},
		{nowhere, 2, "bad_argument", "ick reserve K 1 --settle -1s"},
		{nowhere, 2, "bad_usage", "ick exchange K 1 --commit a"},
		{nowhere, 2, "bad_usage", "ick parked retry K"},
		{nowhere, 2, "bad_usage", "ick parked rm K a --all"},
		{nowhere, 2, "bad_usage", "no such command"},
		{sharedShell(t), 2, "bad_argument", "ick reserve K -1"},
		{sharedShell(t), 2, "bad_argument", "ick exchange K -1"},
		{sharedShell(t), 2, "bad_argument", "ick commit K token a"},
		{sharedShell(t), 1, "not_found", "ick stats no-such-ick"},
		{sharedShell(t), 1, "not_found", "ick parked no-such-ick"},
		{sharedShell(t), 1, "not_found", "ick parked rm no-such-ick --all"},
		{sharedShell(t), 1, "stale", "ick commit no-such-ick 5-ABCDEFGH a"},
	}
	for _, test := range tests {
		f := test.shell.refused(test.exit, test.code, strings.Fields(test.args)...)
		if f.Error == "" || f.Hint == "" {
			t.Errorf("millrace %s: error %q, hint %q, want both", test.args, f.Error, f.Hint)
		}
	}
}

func TestErrorsForPeople(t *testing.T) {
	t.Parallel()
	got := sharedShell(t).run("ick", "stats", "no-such-ick")
	want := outcome{
		code: 1,
		stderr: "millrace: there is no such Ick\n" +
			"Try: The first add creates an Ick. A channel's Icks are NAME/0, NAME/1 and so on. List all with: millrace ick ls\n",
	}
	if got != want {
		t.Errorf("ick stats of none = %+v, want %+v", got, want)
	}
}

func TestRefusalsByRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{TCP: true})
	client := server.Client(t)
	setUser := client.B().AclSetuser().Username("reader").Rule("on", ">secret", "~*", "+@read", "+@connection").Build()
	if err := client.Do(t.Context(), setUser).Error(); err != nil {
		t.Fatal(err)
	}
	s := shell{t: t, url: server.URL()}
	s.want("1 new, 0 lowered\n", "ick", "add", "K", "1", "a")

	reader := shell{t: t, url: strings.Replace(server.URL(), "redis://", "redis://reader:secret@", 1)}
	reader.refused(1, "no_permission", "ick", "add", "K", "1", "a")

	wrong := shell{t: t, url: strings.Replace(server.URL(), "redis://", "redis://reader:hush@", 1)}
	if f := wrong.refused(1, "unreachable", "ick", "ls"); strings.Contains(f.Error+f.Hint, "hush") {
		t.Errorf("the error shows the password: %+v", f)
	}

	limit := client.B().ConfigSet().ParameterValue().ParameterValue("maxmemory", "1").Build()
	if err := client.Do(t.Context(), limit).Error(); err != nil {
		t.Fatal(err)
	}
	s.refused(1, "full", "ick", "add", "K", "1", "b")
}

func TestInterrupt(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	server.Pause()
	ctx, cancel := context.WithCancel(t.Context())
	var stderr strings.Builder
	start := time.Now()
	time.AfterFunc(50*time.Millisecond, cancel)
	a := &app{env: shell{t: t, url: server.URL()}.env, stdout: io.Discard, stderr: &stderr}
	code := a.run(ctx, []string{"ick", "ls", "--json"})
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("an interrupted command took %s", took)
	}
	if want := `{"error":"interrupted","code":"interrupted","hint":""}` + "\n"; code != 1 || stderr.String() != want {
		t.Errorf("an interrupted command exits with %d and says %q, want 1 and %q", code, stderr.String(), want)
	}
	server.Resume()
}

// full is an output that takes nothing.
type full struct{}

func (full) Write([]byte) (int, error) {
	return 0, &fs.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.ENOSPC}
}

func TestUnwrittenResult(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"--json", "--json=false"} {
		var stderr strings.Builder
		a := &app{env: sharedShell(t).env, stdout: full{}, stderr: &stderr}
		if code := a.run(t.Context(), []string{"version", flag}); code != 1 || stderr.Len() == 0 {
			t.Errorf("version %s without a place to write exits with %d and says %q, want 1 and why", flag, code, stderr.String())
		}
		if got := stderr.String(); strings.Contains(got, "unreachable") {
			t.Errorf("version %s without a place to write blames Redis: %s", flag, got)
		}
	}
}
