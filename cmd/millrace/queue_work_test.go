package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/ops"
	"github.com/millrace/millrace/internal/test/redistest"
)

// locked is a buffer that programs write and a test reads.
type locked struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *locked) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// work runs queue work until the test ends or stop is called, which returns the exit code.
func (s shell) work(name, command string, flags ...string) (stdout, stderr *locked, stop func() int) {
	s.t.Helper()
	return s.during(append([]string{"queue", "work", name, "--exec", command}, flags...)...)
}

// during runs a command until the test ends or stop is called, which returns the exit code.
func (s shell) during(args ...string) (stdout, stderr *locked, stop func() int) {
	s.t.Helper()
	stdout, stderr = &locked{}, &locked{}
	ctx, interrupt := context.WithCancel(s.t.Context())
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, args, s.env, strings.NewReader(""), stdout, stderr)
	}()
	return stdout, stderr, sync.OnceValue(func() int {
		interrupt()
		return <-ended
	})
}

func (s shell) eventually(what, name string, good func(ops.QueueStats) bool) {
	s.t.Helper()
	redistest.Eventually(s.t, what, func() bool { return good(answer[ops.QueueStats](s, "queue", "stats", name)) })
}

// TestQueueWork passes messages to commands, and their exit codes decide the outcome.
func TestQueueWork(t *testing.T) {
	t.Parallel()
	s, name := sharedShell(t), redistest.Name(t)
	s.refused(2, "bad_usage", "queue", "work", name)
	for _, flags := range []string{"--concurrency 0", "--max-attempts 0", "--timeout -1s", "--visibility 1ms"} {
		s.refused(2, "bad_argument", append([]string{"queue", "work", name, "--exec", "true"}, strings.Fields(flags)...)...)
	}
	s.written(`{"tenant":"a","body":"hello","headers":{"k":"v\u00e9"}}`+"\n"+`{"tenant":"b","body":"bad"}`+"\n"+`{"tenant":"b","body":"broken"}`+"\n"+
		`{"tenant":{"base64":"/w=="},"body":"bytes"}`, name)
	stdout, stderr, stop := s.work(name, `read body
case $body in
bad) echo first >&2; echo "not an order" >&2; exit 65;;
broken) exit 3;;
*) echo "$body $MILLRACE_QUEUE $MILLRACE_ID $MILLRACE_TENANT $MILLRACE_ATTEMPT $MILLRACE_HEADERS";;
esac`, "--max-attempts", "1", "--concurrency", "3")
	defer stop()
	s.eventually("all are handled", name, func(q ops.QueueStats) bool { return q.Dead == 2 && q.Waiting+q.InFlight == 0 })
	if code := stop(); code != 0 {
		t.Errorf("it exits with %d", code)
	}
	for _, want := range []string{"hello " + name + " ", ` a 1 {"k":"vé"}` + "\n", " \xff 1 {}\n"} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("commands print %q, want %q", stdout, want)
		}
	}
	for _, want := range []string{"first\nnot an order\n", "a handler failed", "exit code 3"} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("standard error has %q, want %q", stderr, want)
		}
	}
	reasons := map[string]string{}
	for _, m := range answer[struct{ Dead []ops.DeadMessage }](s, "queue", "dead", name).Dead {
		reasons[string(m.Body)] = string(m.Reason)
	}
	if reasons["bad"] != "not an order" || !strings.Contains(reasons["broken"], "exit code 3") {
		t.Errorf("reasons %q", reasons)
	}
}

// awaitFile waits until a program has written a file.
func awaitFile(t *testing.T, path string) {
	t.Helper()
	redistest.Eventually(t, "the program runs", func() bool { _, err := os.Stat(path); return err == nil })
}

// awaitEnd waits until the process with the number in a file has ended.
func awaitEnd(t *testing.T, path string) {
	t.Helper()
	redistest.Eventually(t, "the process has ended", func() bool {
		text, err := os.ReadFile(path)
		if err != nil {
			return false
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			return false
		}
		status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		return err != nil || strings.Contains(string(status), ") Z ")
	})
}

// TestQueueWorkStops: at the timeout, and when its message is cancelled, a command and its
// processes are stopped, and a drain lets it go on.
func TestQueueWorkStops(t *testing.T) {
	t.Parallel()
	s := sharedShell(t)
	t.Run("timeout", func(t *testing.T) {
		t.Parallel()
		s, name, path := shell{t: t, url: s.url}, redistest.Name(t), filepath.Join(t.TempDir(), "pid")
		s.run("queue", "write", name, "--tenant", "a", "--body", "x")
		_, stderr, stop := s.work(name, `(while :; do sleep 0.05; done) & echo $! > '`+path+`'; wait`, "--timeout", "1s", "--max-attempts", "1")
		defer stop()
		s.eventually("it is dead", name, func(q ops.QueueStats) bool { return q.Dead == 1 })
		awaitEnd(t, path)
		if stop(); !strings.Contains(stderr.String(), "too long") {
			t.Errorf("standard error has %q", stderr)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		t.Parallel()
		s, name, path := shell{t: t, url: s.url}, redistest.Name(t), filepath.Join(t.TempDir(), "started")
		id := answer[ops.Written](s, "queue", "write", name, "--tenant", "a", "--body", "x").ID
		stdout, _, stop := s.work(name, `trap "echo bye; exit 1" TERM; : > '`+path+`'; while :; do sleep 0.05 & wait; done`, "--visibility", "1s")
		defer stop()
		awaitFile(t, path)
		s.run("queue", "cancel", name, id)
		redistest.Eventually(t, "the command is stopped", func() bool { return stdout.String() == "bye\n" })
	})
	t.Run("exit code 0", func(t *testing.T) {
		t.Parallel()
		s, name := shell{t: t, url: s.url}, redistest.Name(t)
		s.run("queue", "write", name, "--tenant", "a", "--body", "x")
		_, _, stop := s.work(name, `trap "exit 0" TERM; while :; do sleep 0.05 & wait; done`, "--timeout", "2s", "--max-attempts", "1")
		defer stop()
		s.eventually("it is settled", name, func(q ops.QueueStats) bool { return q.Waiting+q.InFlight == 0 })
		if q := answer[ops.QueueStats](s, "queue", "stats", name); q.Dead != 1 {
			t.Errorf("a message whose command was stopped and ended with 0 is done, want it dead: %+v", q)
		}
	})
	t.Run("the drain ends", func(t *testing.T) {
		t.Parallel()
		s, name, path := shell{t: t, url: s.url}, redistest.Name(t), filepath.Join(t.TempDir(), "started")
		s.run("queue", "write", name, "--tenant", "a", "--body", "x")
		_, _, stop := s.work(name, `trap "exit 0" TERM; : > '`+path+`'; while :; do sleep 0.05 & wait; done`, "--drain", "0s")
		awaitFile(t, path)
		if code := stop(); code != 0 {
			t.Errorf("exit code %d", code)
		}
		if q := answer[ops.QueueStats](s, "queue", "stats", name); q.Waiting != 1 {
			t.Errorf("the message of a command that was stopped with the drain: %+v, want it to wait", q)
		}
	})
	t.Run("drain", func(t *testing.T) {
		t.Parallel()
		s, name, dir := shell{t: t, url: s.url}, redistest.Name(t), t.TempDir()
		s.run("queue", "write", name, "--tenant", "a", "--body", "x")
		path, goes := filepath.Join(dir, "started"), filepath.Join(dir, "go")
		stdout, _, stop := s.work(name, `: > '`+path+`'; while [ ! -e '`+goes+`' ]; do sleep 0.05; done; echo done`)
		awaitFile(t, path)
		code := make(chan int)
		go func() { code <- stop() }()
		if err := os.WriteFile(goes, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if code := <-code; code != 0 || stdout.String() != "done\n" {
			t.Errorf("exit code %d, %q", code, stdout)
		}
		if q := answer[ops.QueueStats](s, "queue", "stats", name); q.Waiting+q.InFlight+q.Dead != 0 {
			t.Errorf("left: %+v", q)
		}
	})
}

// TestQueueWorkCannotPass: a message that no environment can pass to a command is dead at once.
func TestQueueWorkCannotPass(t *testing.T) {
	t.Parallel()
	s, name := sharedShell(t), redistest.Name(t)
	s.written(`{"tenant":{"base64":"YQBi"},"body":"zero"}`+"\n"+
		`{"tenant":"a","body":"large","headers":{"k":"`+strings.Repeat("x", 200_000)+`"}}`, name)
	stdout, _, stop := s.work(name, "cat")
	defer stop()
	s.eventually("both are dead", name, func(q ops.QueueStats) bool { return q.Dead == 2 })
	for _, m := range answer[struct{ Dead []ops.DeadMessage }](s, "queue", "dead", name).Dead {
		want := map[string]string{"zero": "MILLRACE_TENANT would have a zero byte", "large": "argument list too long"}[string(m.Body)]
		if !strings.Contains(string(m.Reason), want) || m.Attempts != 1 {
			t.Errorf("%s is dead after %d attempts: %q, want after one: %q", m.Body, m.Attempts, m.Reason, want)
		}
	}
	if stdout.String() != "" {
		t.Errorf("a command ran: %q", stdout)
	}
}

// TestBrokenQueueIsToldAfterAnInterrupt: a queue that ended the work is told, also if a signal comes while
// the last commands run.
func TestBrokenQueueIsToldAfterAnInterrupt(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancelCause(t.Context())
	signalled := errors.New("a signal")
	interrupt(signalled)
	if err := unlessInterrupted(ctx, millrace.ErrBroken, fairqueue.ErrUnsettled); !errors.Is(err, millrace.ErrBroken) {
		t.Errorf("a broken queue: %v, want %v", err, millrace.ErrBroken)
	}
	if err := unlessInterrupted(ctx, signalled, fairqueue.ErrUnsettled); err != nil {
		t.Errorf("a signal: %v, want no error", err)
	}
}

// TestQueueWorkDoesNotSettle: a command whose last message is not settled says so, and does not exit as if it were.
func TestQueueWorkDoesNotSettle(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{}) // its queue is broken, which lists of all queues would tell
	s, name, dir := shell{t: t, url: server.URL()}, redistest.Name(t), t.TempDir()
	s.run("queue", "write", name, "--tenant", "a", "--body", "x")
	started, goes, client := filepath.Join(dir, "started"), filepath.Join(dir, "go"), server.Client(t)
	command, stderr := `: > '`+started+`'; while [ ! -e '`+goes+`' ]; do sleep 0.05; done`, &locked{}
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, []string{"queue", "work", name, "--exec", command}, s.env, strings.NewReader(""), &locked{}, stderr)
	}()
	awaitFile(t, started)
	interrupt()
	if err := client.Do(t.Context(), client.B().Hdel().Key("mr:queue:{"+name+"}:hot").Field("t").Build()).Error(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(goes, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, text := <-code, "1 message was not settled before the end, and comes again after its visibility"; code != 1 || !strings.Contains(stderr.String(), text) {
		t.Errorf("exit code %d, %q, want 1 and %q", code, stderr, text)
	}
}
