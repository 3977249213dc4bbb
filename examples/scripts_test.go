// Package examples_test runs the examples in languages that need no compiler.
package examples_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/lease"
	"github.com/millrace/millrace/server"
	"github.com/millrace/millrace/tracker"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// losing does the work of requests, and loses the answer to the first try of each that changes something.
type losing struct {
	next http.Handler

	mu   sync.Mutex
	seen map[string]bool // Idempotency-Keys
}

func (l *losing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := r.Header.Get("Idempotency-Key")
	l.mu.Lock()
	lose := r.Method == http.MethodPost && !l.seen[key]
	l.seen[key] = true
	l.mu.Unlock()
	if !lose {
		l.next.ServeHTTP(w, r)
		return
	}
	l.next.ServeHTTP(httptest.NewRecorder(), r)
	if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
		_ = conn.Close() // nothing was written
	}
}

// serve runs the service, which loses answers, on a Redis of the test's own, and returns its URL.
func serve(t *testing.T) (client rueidis.Client, url string) {
	t.Helper()
	client = redistest.Start(t, redistest.Options{}).Client(t)
	s, err := server.New(server.Config{
		Client: client, Logger: slog.New(slog.DiscardHandler),
		Wrap: func(next http.Handler) http.Handler { return &losing{next: next, seen: make(map[string]bool)} },
	})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, listener) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return client, "http://" + listener.Addr().String()
}

// script returns a command with an interpreter, which may be missing where CI is not set.
func script(t *testing.T, url, interpreter string, args ...string) *exec.Cmd {
	t.Helper()
	path, err := exec.LookPath(interpreter)
	switch {
	case err == nil:
	case os.Getenv("CI") != "":
		t.Fatalf("this test needs %s, and CI must not skip it: %v", interpreter, err)
	default:
		t.Skipf("this test needs %s; internal/repo/scripts/test-deps installs it: %v", interpreter, err)
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Env, cmd.Stderr = append(os.Environ(), "MILLRACE_URL="+url), t.Output()
	return cmd
}

// output runs a command to its end.
func output(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v, %s", cmd, err, out)
	}
	return string(out)
}

// TestPHP shows the page of an item twice, while the answers to all changes are lost once.
func TestPHP(t *testing.T) {
	t.Parallel()
	client, url := serve(t)
	tasks, err := tracker.New(client, "tasks", tracker.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := tasks.Add(t.Context(), "item-17"); err != nil {
		t.Fatal(err)
	}
	page := func() string { return output(t, script(t, url, "php", "php/item.php", "item-17")) }
	const session = "csrf: 3f9a, expires\ntheme: dark\n"
	if got, want := page(), "tasks of item-17: queued\n"+session+"visits: 1\nchecked out\nrebuilding\n"; got != want {
		t.Errorf("the page is\n%s\nwant\n%s", got, want)
	}
	locker, err := lease.New(client, lease.Config{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = locker.Do(t.Context(), "derive item-17", time.Minute, lease.AcquireConfig{Wait: -1}, func(context.Context, int64) error {
		if got, want := page(), "tasks of item-17: queued\n"+session+"visits: 2\nchecked out by user:17\nanother process rebuilds\n"; got != want {
			t.Errorf("the page is then\n%s\nwant\n%s", got, want)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestRuby marks documents and indexes them, while the answers to all requests are lost once and an indexer is killed.
func TestRuby(t *testing.T) {
	t.Parallel()
	client, url := serve(t)
	if got := output(t, script(t, url, "ruby", "ruby/indexer.rb", "mark", "doc:1", "doc:2", "doc:1")); got != "2\n" {
		t.Errorf("marking says %q, want 2 new marks", got)
	}
	killed := script(t, url, "ruby", "ruby/indexer.rb", "work")
	said, err := killed.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := killed.Start(); err != nil {
		t.Fatal(err)
	}
	const both = "indexed doc:1\nindexed doc:2\n"
	var first bytes.Buffer
	if _, err := io.CopyN(&first, said, int64(len(both))); err != nil || first.String() != both {
		t.Errorf("the indexer says %q, %v, want both documents", &first, err)
	}
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = killed.Wait() // it was killed

	output(t, script(t, url, "ruby", "ruby/indexer.rb", "mark", "doc:3"))
	work := script(t, url, "ruby", "ruby/indexer.rb", "work")
	work.Env = append(work.Env, "UNTIL_EMPTY=1")
	if got := output(t, work); !strings.Contains(got, "indexed doc:3\n") {
		t.Errorf("the next indexer says %q, want the new document, too", got)
	}
	dirty, err := ick.New(client, "search", ick.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if s, err := dirty.Stats(t.Context()); err != nil || s.Total != 0 || s.Counters.Committed != 3 {
		t.Errorf("the list has %+v, %v, want three committed", s, err)
	}
}

// TestRubyQueue runs the program of docs/FROM_SIDEKIQ.md, while the answers to all requests are lost once: each mail is sent
// once, one is dead, and others come again.
func TestRubyQueue(t *testing.T) {
	t.Parallel()
	client, url := serve(t)
	var mu sync.Mutex
	sent, refused := map[string]int{}, map[string]int{}
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		for name, status := range map[string]int{"no@": http.StatusNotFound, "busy@": http.StatusTooManyRequests, "fails@": http.StatusInternalServerError} {
			if strings.Contains(string(body), name) && (name == "no@" || refused[name] == 0) {
				refused[name]++
				w.Header().Set("Retry-After", "1")
				w.WriteHeader(status)
				return
			}
		}
		if err == nil {
			sent[r.Header.Get("Idempotency-Key")]++
		}
	}))
	t.Cleanup(service.Close)
	for _, to := range []string{"ann", "no", "busy", "fails"} {
		first := output(t, script(t, url, "ruby", "ruby/mailer.rb", "enqueue", to, to+"@a.example", "order-"+to))
		if again := output(t, script(t, url, "ruby", "ruby/mailer.rb", "enqueue", to, to+"@a.example", "order-"+to)); again != first {
			t.Errorf("the same request has the messages %q and %q, want one", first, again)
		}
	}
	q, err := fairqueue.New(client, "mails", fairqueue.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := q.Write(t.Context(), fairqueue.Draft{
		Tenant: "us", Headers: map[string]string{"type": "digest", fairqueue.HeaderTick: "2026-11-28T07:00:00Z"}, Body: []byte("{}"),
	}); err != nil {
		t.Fatal(err)
	}
	work := script(t, url, "ruby", "ruby/mailer.rb", "work")
	work.Env = append(work.Env, "MAIL_URL="+service.URL)
	if err := work.Start(); err != nil {
		t.Fatal(err)
	}
	redistest.Eventually(t, "all are settled", func() bool {
		s, err := q.Stats(t.Context())
		return err == nil && s.Waiting+s.Delayed+s.InFlight == 0
	})
	if err := work.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := work.Wait(); err != nil {
		t.Errorf("the worker ended with %v", err)
	}
	mu.Lock()
	defer mu.Unlock()
	want := map[string]int{"order-ann": 1, "order-busy": 1, "order-fails": 1, "digest-2026-11-28": 1}
	if s, err := q.Stats(t.Context()); err != nil || s.Dead != 1 || !maps.Equal(sent, want) {
		t.Errorf("sent are %v, and %d are dead (%v), want %v, and one", sent, s.Dead, err, want)
	}
}
