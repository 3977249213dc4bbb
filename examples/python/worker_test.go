package python_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/server"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// service is millrace serve, on a Redis of its own.
type service struct {
	url      string
	queue    *fairqueue.Queue // of the worker
	extended chan struct{}    // one for each call that extends messages
}

func serve(t *testing.T, wrap func(http.Handler) http.Handler) service {
	t.Helper()
	client := redistest.Start(t, redistest.Options{}).Client(t)
	extended := make(chan struct{}, 1000)
	s, err := server.New(server.Config{Client: client, Wrap: func(next http.Handler) http.Handler {
		if wrap != nil {
			next = wrap(next)
		}
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(w, r)
			if strings.HasSuffix(r.URL.Path, "/extend") {
				extended <- struct{}{}
			}
		})
	}, Logger: slog.New(slog.DiscardHandler)})
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
	q, err := fairqueue.New(client, "orders", fairqueue.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return service{"http://" + listener.Addr().String(), q, extended}
}

func (s service) write(t *testing.T, bodies ...string) {
	t.Helper()
	for _, body := range bodies {
		if _, err := s.queue.Write(t.Context(), fairqueue.Draft{Tenant: body, Body: []byte(body)}); err != nil {
			t.Fatal(err)
		}
	}
}

// empty waits until nothing waits and nothing is in flight.
func (s service) empty(t *testing.T) {
	t.Helper()
	redistest.Eventually(t, "all messages are settled", func() bool {
		stats, err := s.queue.Stats(t.Context())
		return err == nil && stats.Waiting+stats.Delayed+stats.InFlight == 0
	})
}

// extends waits until the worker has kept its messages so many times.
func (s service) extends(t *testing.T, times int) {
	t.Helper()
	for range times {
		select {
		case <-s.extended:
		case <-time.After(time.Minute):
			t.Fatal("after a minute the worker has not extended its messages")
		}
	}
}

// worker is a process of worker.py with the handler of testdata.
type worker struct {
	t       *testing.T
	process *exec.Cmd
	stdin   io.Writer
	lines   chan string // that it has printed
	ended   chan error
}

func (s service) work(t *testing.T, args ...string) *worker {
	t.Helper()
	python, err := exec.LookPath("python3")
	switch {
	case err == nil:
	case os.Getenv("CI") != "":
		t.Fatalf("this test needs python3, and CI must not skip it: %v", err)
	default:
		t.Skipf("this test needs python3: %v", err)
	}
	p := exec.CommandContext(t.Context(), python, append([]string{"-B", filepath.Join("testdata", "handlers.py"), "orders", "--url", s.url}, args...)...)
	p.Env = append(os.Environ(), "PYTHONPATH=.")
	p.Stderr = t.Output()
	stdin, err := p.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	w := &worker{t, p, stdin, make(chan string, 1000), make(chan error, 1)}
	go func() {
		for printed := bufio.NewScanner(stdout); printed.Scan(); {
			w.lines <- printed.Text()
		}
		w.ended <- p.Wait()
	}()
	return w
}

// starts waits until the worker has started all of these, in any order.
func (w *worker) starts(want ...string) {
	w.t.Helper()
	missing := make(map[string]bool)
	for _, line := range want {
		missing["start "+line] = true
	}
	for len(missing) > 0 {
		select {
		case line := <-w.lines:
			if !missing[line] {
				w.t.Fatalf("the worker says %q, want one of %v", line, missing)
			}
			delete(missing, line)
		case err := <-w.ended:
			w.t.Fatalf("the worker has ended: %v, want %v", err, missing)
		case <-time.After(time.Minute):
			w.t.Fatalf("after a minute the worker has not started %v", missing)
		}
	}
}

// goOn ends a hold.
func (w *worker) goOn() {
	w.t.Helper()
	if _, err := io.WriteString(w.stdin, "\n"); err != nil {
		w.t.Fatal(err)
	}
}

func (w *worker) signal(s syscall.Signal) {
	w.t.Helper()
	if err := w.process.Process.Signal(s); err != nil {
		w.t.Fatal(err)
	}
}

// TestAnswersOfAProxy: the worker outlives a date in Retry-After, and a page instead of JSON.
func TestAnswersOfAProxy(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	tries := map[string]int{} // by path
	s := serve(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			tries[r.URL.Path]++
			try := tries[r.URL.Path]
			mu.Unlock()
			switch try {
			case 1:
				w.Header().Set("Retry-After", "Wed, 21 Oct 2099 07:28:00 GMT")
				w.WriteHeader(http.StatusServiceUnavailable)
			case 2:
				_, _ = io.WriteString(w, "<html>maintenance</html>") // the client may have gone
			default:
				next.ServeHTTP(w, r)
			}
		})
	})
	w := s.work(t, "--visibility", "60", "--block", "0.1")
	s.write(t, "fine")
	w.starts("fine 1")
	s.empty(t)
	w.signal(syscall.SIGTERM)
	if err := <-w.ended; err != nil {
		t.Errorf("the worker ended with %v", err)
	}
}

// TestWorker kills a worker while it has a message, which the next one gets; that one keeps a
// message for longer than the visibility, settles messages in all ways, and drains.
func TestWorker(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	first := s.work(t, "--visibility", "1", "--block", "0.1")
	s.write(t, "hold")
	first.starts("hold 1")
	first.signal(syscall.SIGKILL)
	<-first.ended

	second := s.work(t, "--visibility", "3", "--block", "0.1")
	second.starts("hold 2")
	s.write(t, "fine", "later", "fails", "dead")
	second.starts("fine 1", "later 1", "fails 1", "dead 1")
	second.starts("later 2", "fails 2")
	for len(s.extended) > 0 {
		<-s.extended
	}
	s.extends(t, 4) // a third of the visibility apart
	second.goOn()
	s.empty(t)
	var dead []string
	for m, err := range s.queue.Dead().All(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		dead = append(dead, string(m.Body)+": "+m.Reason)
	}
	if len(dead) != 1 || dead[0] != "dead: Dead: no such address" {
		t.Errorf("dead are %q", dead)
	}

	s.write(t, "hold")
	second.starts("hold 1")
	second.signal(syscall.SIGTERM)
	s.extends(t, 2) // it keeps the message while it drains
	second.goOn()
	if err := <-second.ended; err != nil {
		t.Errorf("the drained worker ended with %v", err)
	}
	stats, err := s.queue.Stats(t.Context())
	if err != nil || stats.InFlight != 0 || stats.Waiting != 0 || len(second.lines) != 0 {
		t.Errorf("after the drain %d are in flight and %d wait, %v; it printed %d more lines", stats.InFlight, stats.Waiting, err, len(second.lines))
	}
}

// lossy does the work of requests, and loses the answer to the first try of each; the first
// ack is refused before, with Retry-After.
type lossy struct {
	t    *testing.T
	next http.Handler

	mu      sync.Mutex
	seen    map[string]bool
	refused string // that ack
	at      time.Time
	again   time.Duration // after which it came again
	lost    int
}

func (l *lossy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		l.t.Error(err)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	key := r.URL.Path + r.Header.Get("Idempotency-Key") // of this request and its repeats
	if !strings.HasSuffix(r.URL.Path, "/receive") {
		key += string(body)
	}
	l.mu.Lock()
	refuse := l.refused == "" && strings.HasSuffix(r.URL.Path, "/ack")
	lose := !refuse && !l.seen[key]
	if refuse {
		l.refused, l.at = key, time.Now()
	} else {
		l.seen[key] = true
		if key == l.refused && l.again == 0 {
			l.again = time.Since(l.at)
		}
	}
	l.mu.Unlock()
	switch {
	case refuse:
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
	case lose:
		l.next.ServeHTTP(httptest.NewRecorder(), r)
		l.mu.Lock()
		l.lost++
		l.mu.Unlock()
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			err = conn.Close()
		}
		if err != nil && !errors.Is(err, net.ErrClosed) {
			l.t.Error(err)
		}
	default:
		l.next.ServeHTTP(w, r)
	}
}

// TestLostAnswers loses the first answer to each request: all messages are still handled in
// their first attempt, because the worker repeats a receive under the same key.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	l := &lossy{t: t, seen: make(map[string]bool)}
	s := serve(t, func(next http.Handler) http.Handler { l.next = next; return l })
	s.write(t, "a", "b", "c", "later")
	w := s.work(t, "--visibility", "600", "--block", "0.1", "--concurrency", "2")
	w.starts("a 1", "b 1", "c 1", "later 1", "later 2")
	s.empty(t)
	w.signal(syscall.SIGTERM)
	if err := <-w.ended; err != nil {
		t.Errorf("the worker ended with %v", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost < 5 || l.again < time.Second {
		t.Errorf("%d answers were lost; what was refused for a second came again after %s", l.lost, l.again)
	}
}
