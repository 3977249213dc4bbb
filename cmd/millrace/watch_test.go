package main

import (
	"context"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/test/redistest"
)

// watching runs a command with --watch until the test ends or stop is called, which returns the
// exit code.
func (s shell) watching(args ...string) (stdout, stderr *locked, stop func() int) {
	stdout, stderr = &locked{}, &locked{}
	ctx, interrupt := context.WithCancel(s.t.Context())
	ended := make(chan int, 1)
	go func() { ended <- run(ctx, args, s.env, strings.NewReader(""), stdout, stderr) }()
	return stdout, stderr, func() int {
		interrupt()
		return <-ended
	}
}

// TestWatch shows a result again and again, also after an error.
func TestWatch(t *testing.T) {
	t.Parallel()
	s, name := sharedShell(t), redistest.Name(t)
	stdout, stderr, stop := s.watching("queue", "stats", name, "--json", "--watch=100ms")
	redistest.Eventually(t, "there is no queue", func() bool { return strings.Contains(stderr.String(), `"code":"not_found"`) })
	if got := stdout.String(); got != "" {
		t.Errorf("without a queue it prints %q", got)
	}
	s.run("queue", "write", name, "--tenant", "a", "--body", "x")
	redistest.Eventually(t, "there is one message", func() bool { return strings.Contains(stdout.String(), `"waiting":1`) })
	s.run("queue", "write", name, "--tenant", "a", "--body", "x")
	redistest.Eventually(t, "there are two", func() bool { return strings.Contains(stdout.String(), `"waiting":2`) })
	if code := stop(); code != 0 {
		t.Errorf("it exits with %d", code)
	}
	for line := range strings.SplitSeq(strings.TrimSuffix(stdout.String(), "\n"), "\n") {
		if !strings.HasPrefix(line, "{") || !strings.HasSuffix(line, "}") {
			t.Errorf("a line is %q, want a document", line)
		}
	}

	stdout, _, stop = s.watching("queue", "ls", "--watch=100ms")
	redistest.Eventually(t, "an empty line is between results", func() bool { return strings.Count(stdout.String(), "\n\n") >= 2 })
	if code := stop(); code != 0 {
		t.Errorf("it exits with %d", code)
	}
	s.refused(2, "bad_usage", "queue", "ls", "--watch=1ms")
	s.refused(2, "bad_usage", "queue", "rm", name, "--watch")
	s.refused(2, "bad_name", "queue", "stats", "a{b", "--watch")
}

// TestWatchOnATerminal draws on a screen of its own, which it leaves as it was.
func TestWatchOnATerminal(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	s := shell{t: t, url: server.URL()}
	for tenant := range strings.SplitSeq("abcdefghijklmnopqrstuvwxyz", "") { // more than the screen has lines
		s.run("queue", "write", "orders", "--tenant", tenant, "--body", "x")
	}
	term := startTerminal(t, []string{"MILLRACE_REDIS_URL=" + server.URL()}, "queue", "tenants", "orders", "--watch=100ms")
	screen := term.await("the tenants are shown", func(screen string) bool {
		return strings.Contains(screen, "Every 100ms: millrace queue tenants orders --watch=100ms") && strings.Contains(screen, "…")
	})
	if lines := strings.Split(strings.TrimRight(screen, "\n"), "\n"); len(lines) != 24 || strings.TrimSpace(lines[23]) != "…" {
		t.Errorf("the screen is\n%s", screen)
	}
	s.run("queue", "tenant", "purge", "orders", "a", "--yes")
	s.run("queue", "tenant", "pause", "orders", "b")
	term.await("a tenant is paused", func(screen string) bool { return strings.Contains(screen, "paused") })
	term.keys("C-c")
	screen = term.await("it ends", func(screen string) bool { return strings.Contains(screen, "ended with 0") })
	if strings.Contains(screen, "Every") {
		t.Errorf("it leaves\n%s", screen)
	}
}
