package main

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/bench"
	"github.com/millrace/millrace/internal/test/redistest"
)

func TestBench(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	got := shell{t: t}.run("bench", "--redis", server.URL(), "--only", "ick_add", "--only", "lease", "--duration", "10ms", "--json")
	var report bench.Report
	if err := json.Unmarshal([]byte(got.stdout), &report); err != nil || got.code != 0 || strings.Count(got.stdout, "\n") != 1 {
		t.Fatalf("millrace bench = %+v, want a document in one line (%v)", got, err)
	}
	var names []string
	for _, f := range report.Figures {
		names = append(names, f.Name)
	}
	if want := []string{"ick_add", "lease_acquire", "lease_refresh"}; !slices.Equal(names, want) {
		t.Errorf("figures = %q, want %q", names, want)
	}
	if report.Server != server.URL() || report.DurationMS != 10 || len(report.NotMeasured) != 0 {
		t.Errorf("report = %+v, want the server, the duration and nothing that is measured elsewhere", report)
	}
	for _, want := range []string{"Putting load on " + server.URL(), "under the name bench-", "lease_refresh: "} {
		if !strings.Contains(got.stderr, want) {
			t.Errorf("progress does not say %q:\n%s", want, got.stderr)
		}
	}
	c := server.Client(t)
	if left, err := c.Do(t.Context(), c.B().Dbsize().Build()).AsInt64(); err != nil || left != 0 {
		t.Errorf("%d keys are left (%v)", left, err)
	}
}

func TestBenchForPeople(t *testing.T) {
	t.Parallel()
	got := sharedShell(t).run("bench", "--redis", redistest.Shared(t).URL(), "--only", "lease_refresh", "--duration", "10ms")
	for _, want := range []string{"Server: unix://", "lease refresh, 50 goroutines", "\n  against compare and PEXPIRE "} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("the table has no %q:\n%s", want, got.stdout)
		}
	}
	if got.code != 0 || strings.Contains(got.stdout, "round 1") {
		t.Errorf("millrace bench exits with %d and prints %q, want 0 and no progress", got.code, got.stdout)
	}
}

func TestBenchWithSecrets(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{TCP: true, Args: []string{"--requirepass", "secret"}})
	url := "redis://:secret@" + server.Addr()
	got := shell{t: t}.run("bench", "--redis", url, "--only", "lease_refresh", "--duration", "10ms", "--json")
	if got.code != 0 || strings.Contains(got.stdout+got.stderr, "secret") || !strings.Contains(got.stdout, server.Addr()) {
		t.Errorf("millrace bench = %+v, want the address, and no password", got)
	}
}

// A server that others work on is not for load unless it is named.
func TestBenchHeedsNoEnvironment(t *testing.T) {
	s := sharedShell(t)
	t.Setenv("PATH", t.TempDir()) // there is no server to start
	got := s.run("bench", "--only", "lease_refresh", "--duration", "10ms", "--json")
	var f failure
	if err := json.Unmarshal([]byte(got.stderr), &f); err != nil || got.code != 1 || f.Code != "no_server" || !strings.Contains(f.Hint, "--redis") {
		t.Errorf("millrace bench = %+v, want that there is no server (%v)", got, err)
	}
}

func TestBenchOnItsOwnServer(t *testing.T) {
	t.Parallel()
	redistest.Binary(t)
	s := shell{t: t, url: "redis://production"}
	got := s.run("bench", "--only", "lease_refresh", "--duration", "10ms", "--json")
	if got.code != 0 || !strings.Contains(got.stdout, "(embedded, unix socket)") {
		t.Errorf("millrace bench = %+v, want figures of a server of its own", got)
	}
	for _, want := range []string{"Started a private", "NOT THE FIGURES", "MILLRACE_REDIS_URL is ignored", "--redis URL"} {
		if !strings.Contains(got.stderr, want) {
			t.Errorf("standard error does not say %q:\n%s", want, got.stderr)
		}
	}
}

func TestBenchUsage(t *testing.T) {
	t.Parallel()
	s := sharedShell(t)
	for _, args := range [][]string{{"--only", "nothing"}, {"--only", "ick_add,queue_limits"}, {"--only", ""}} {
		f := s.refused(2, "bad_usage", append([]string{"bench", "--redis", s.url}, args...)...)
		for _, name := range bench.Names() {
			if !strings.Contains(f.Hint, name) {
				t.Errorf("millrace bench %v: hint %q, want one that lists %s", args, f.Hint, name)
			}
		}
	}
	for _, duration := range []string{"0s", "-1s"} {
		s.refused(2, "bad_usage", "bench", "--redis", s.url, "--duration", duration)
	}
	shell{t: t}.refused(2, "bad_url", "bench", "--redis", "bogus://x", "--only", "ick")
}

// An interrupt ends it, and nothing is left.
func TestBenchInterrupted(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	c := server.Client(t)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	var stdout, stderr strings.Builder
	ended := make(chan int, 1)
	go func() {
		args := []string{"bench", "--redis", server.URL(), "--only", "queue_cycle", "--duration", "1h", "--json"}
		ended <- run(ctx, args, shell{t: t}.env, strings.NewReader(""), &stdout, &stderr)
	}()
	size := func() int64 {
		n, err := c.Do(t.Context(), c.B().Dbsize().Build()).AsInt64()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	redistest.Eventually(t, "it has keys", func() bool { return size() > 0 })
	interrupt()
	if code := <-ended; code != 1 || stdout.String() != "" || !strings.Contains(stderr.String(), `"code":"interrupted"`) {
		t.Errorf("millrace bench exits with %d, prints %q and says %q, want an interrupt", code, stdout.String(), stderr.String())
	}
	if left := size(); left != 0 {
		t.Errorf("%d keys are left", left)
	}
}
