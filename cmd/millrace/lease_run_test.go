package main

import (
	"context"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/lease"
)

// TestLeaseRun passes on the program's input, output and exit code.
func TestLeaseRun(t *testing.T) {
	t.Parallel()
	s, name := sharedShell(t), redistest.Name(t)
	got := s.feed("hello", "lease", "run", name, "--metadata", "m", "--", "/bin/sh", "-c", `cat; echo " $MILLRACE_LEASE"; [ "$MILLRACE_FENCE" -gt 0 ] && echo --said >&2; exit 7`)
	if got.code != 7 || got.stdout != "hello "+name+"\n" || got.stderr != "--said\n" {
		t.Errorf("got %+v", got)
	}
	s.want(`{"leases":[],"next":""}`+"\n", "lease", "ls", name, "--json")
	for want, args := range map[int][]string{
		0:               {"true"},
		exitNotFound:    {"/nonexistent/program"},
		exitNoStart:     {t.TempDir()},
		exitSignal + 9:  {"/bin/sh", "-c", "kill -9 $$"},
		exitSignal + 15: {"/bin/sh", "-c", "kill $$"},
		2:               {},
	} {
		if got := s.run(append([]string{"lease", "run", name, "--"}, args...)...); got.code != want || (got.stderr == "") != (want == 0 || want > exitSignal) {
			t.Errorf("%q: %+v, want exit code %d", args, got, want)
		}
	}
	for _, flags := range []string{"--wait -1s", "--once-per 1h --wait 1s", "--timeout 0s", "--grace -1s", "--ttl 0s"} {
		s.refused(2, "bad_argument", append(append([]string{"lease", "run", name}, strings.Fields(flags)...), "--", "true")...)
	}
}

// TestLeaseRunHeld: while another holder has the lease, nothing runs, or it waits.
func TestLeaseRunHeld(t *testing.T) {
	t.Parallel()
	s, name := sharedShell(t), redistest.Name(t)
	token := answer[grantDoc](s, "lease", "acquire", name, "--ttl", "1h", "--metadata", "another").Token
	s.refused(exitHeld, "held", "lease", "run", name, "--", "echo", "no")
	type leases struct {
		Leases []struct{ Name, Metadata string }
	}
	if got := answer[leases](s, "lease", "ls", name[1:]).Leases; len(got) != 1 || got[0].Name != name || got[0].Metadata != "another" {
		t.Errorf("lease ls: %+v", got)
	}
	waits := make(chan outcome)
	go func() { waits <- s.run("lease", "run", name, "--wait", "1h", "--", "echo", "yes") }()
	s.run("lease", "release", name, "--token", token)
	if got := <-waits; got.code != 0 || got.stdout != "yes\n" {
		t.Errorf("after the release: %+v", got)
	}
}

// TestLeaseRunOnce: the first success of a period is the last run, and a failure is not.
func TestLeaseRunOnce(t *testing.T) {
	t.Parallel()
	s, name := sharedShell(t), redistest.Name(t)
	once := func(args ...string) outcome {
		return s.run(append([]string{"lease", "run", name, "--once-per", "8784h", "--"}, args...)...)
	}
	if got := once("false"); got.code != 1 || got.stderr != "" {
		t.Errorf("a failure: %+v", got)
	}
	if got := once("echo", "one"); got.code != 0 || got.stdout != "one\n" {
		t.Errorf("a success: %+v", got)
	}
	if got := once("echo", "two"); got.code != 0 || got.stdout != "" || !strings.Contains(got.stderr, "done in this period") {
		t.Errorf("again: %+v", got)
	}
}

// TestLeaseRunOnceStopped: a program that was stopped has not done the work of its period, though it
// ends with 0.
func TestLeaseRunOnceStopped(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		flags []string
		stops bool // by an interrupt
	}{{"timeout", []string{"--timeout", "2s"}, false}, {"interrupt", nil, true}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, name, started := sharedShell(t), redistest.Name(t), filepath.Join(t.TempDir(), "started")
			once := append([]string{"lease", "run", name, "--once-per", "8784h"}, c.flags...)
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			ended := make(chan int)
			go func() {
				args := append(once, "--", "/bin/sh", "-c", `trap "exit 0" TERM; : > "$0"; while :; do sleep 0.05 & wait; done`, started)
				ended <- run(ctx, args, s.env, strings.NewReader(""), io.Discard, io.Discard)
			}()
			awaitFile(t, started)
			if c.stops {
				interrupt()
			}
			if code := <-ended; code != exitStopped {
				t.Errorf("exit code %d of a program that was stopped, want %d", code, exitStopped)
			}
			if got := s.run("lease", "run", name, "--once-per", "8784h", "--", "echo", "again"); got.stdout != "again\n" {
				t.Errorf("the next call: %+v, want the program to run", got)
			}
		})
	}
}

// TestLeaseRunStops: a program gets SIGTERM at the timeout and at an interrupt, SIGKILL after
// its grace, and SIGKILL when the lease is lost. Its children get them too.
func TestLeaseRunStops(t *testing.T) {
	t.Parallel()
	const deaf = `trap "" TERM; : > "$0"; while :; do sleep 0.05 & wait; done`
	const kind = `trap "echo bye; exit 3" TERM; : > "$0"; while :; do sleep 0.05 & wait; done`
	const content = `trap "exit 0" TERM; : > "$0"; while :; do sleep 0.05 & wait; done`
	s := sharedShell(t)
	for _, c := range []struct {
		name, script string
		flags        string
		then         func(name string, interrupt func())
		code         int
		says, errs   string
	}{
		{"timeout", kind, "--timeout 2s", nil, exitStopped, "bye\n", "was stopped"},
		{"timeout, exit code 0", content, "--timeout 2s", nil, exitStopped, "", "was stopped"},
		{"interrupt, exit code 0", content, "", func(_ string, interrupt func()) { interrupt() }, exitStopped, "", "interrupted"},
		{"deaf", deaf, "--timeout 2s --grace 100ms", nil, exitStopped, "", "was stopped"},
		{"interrupt", kind, "", func(_ string, interrupt func()) { interrupt() }, 3, "bye\n", ""},
		{"lost", kind, "--ttl 3s", func(name string, _ func()) { loseLease(t, name) }, exitStopped, "", "the lease"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			name, started := redistest.Name(t), filepath.Join(t.TempDir(), "started")
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			var stdout, stderr strings.Builder
			ended := make(chan int)
			go func() {
				args := append(append([]string{"lease", "run", name}, strings.Fields(c.flags)...), "--", "/bin/sh", "-c", c.script, started)
				ended <- run(ctx, args, s.env, strings.NewReader(""), &stdout, &stderr)
			}()
			awaitFile(t, started)
			if c.then != nil {
				c.then(name, interrupt)
			}
			select {
			case code := <-ended:
				if code != c.code || stdout.String() != c.says || !strings.Contains(stderr.String(), c.errs) {
					t.Errorf("exit code %d, %q, %q; want %d, %q, %q", code, stdout.String(), stderr.String(), c.code, c.says, c.errs)
				}
			case <-time.After(time.Minute):
				t.Fatal("it does not end")
			}
		})
	}
}

// loseLease takes a lease away from its holder.
func loseLease(t *testing.T, name string) {
	t.Helper()
	l, err := lease.New(redistest.Shared(t).Client(t), lease.Config{})
	if err != nil {
		t.Fatal(err)
	}
	info, err := l.Show(t.Context(), name)
	if err == nil {
		err = l.Release(t.Context(), name, info.Token)
	}
	if err != nil {
		t.Error(err)
	}
}
