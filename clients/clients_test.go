package clients_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/server"
)

// serveEnv has a child process of a test serve: "REDIS LISTEN".
const serveEnv = "MILLRACE_CLIENTS_SERVE"

func TestMain(m *testing.M) {
	if where := os.Getenv(serveEnv); where != "" {
		serveChild(where)
		return
	}
	redistest.Main(m)
}

func serveChild(where string) {
	redis, address, _ := strings.Cut(where, " ")
	client, err := rueidis.NewClient(rueidis.MustParseURL(redis))
	if err != nil {
		panic(err)
	}
	s, err := server.New(server.Config{Client: client, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		panic(err)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		panic(err)
	}
	fmt.Println("serves")
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // ends with the test
		os.Exit(0)
	}()
	panic(s.Serve(context.Background(), listener))
}

// client is one of clients/.
type client struct {
	name       string
	language   string                                       // of the program in its README
	executable string                                       // the end of the names of its programs
	command    func(t *testing.T, program string) *exec.Cmd // runs a program of folder or testdata
	folder     string                                       // for programs
}

// need returns the path of a program. Without it the test is skipped, or fails with CI set.
func need(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	switch {
	case err == nil:
	case os.Getenv("CI") != "":
		t.Fatalf("this test needs %s, and CI must not skip it: %v", name, err)
	default:
		t.Skipf("this test needs %s: %v", name, err)
	}
	return path
}

// clients returns the clients. What is compiled is in a folder, with the programs of testdata.
func clients(folder string) []client {
	build := sync.OnceValues(func() ([]byte, error) { return compile(folder) })
	return []client{
		{"typescript", "typescript", ".js", func(t *testing.T, program string) *exec.Cmd {
			t.Helper()
			node := need(t, "node")
			need(t, "tsc")
			if output, err := build(); err != nil {
				t.Fatalf("compiling: %v\n%s", err, output)
			}
			return exec.CommandContext(t.Context(), node, filepath.Join(folder, program+".js"))
		}, folder},
		{"python", "python", ".py", func(t *testing.T, program string) *exec.Cmd {
			t.Helper()
			path := filepath.Join("testdata", program+".py")
			if _, err := os.Stat(path); err != nil {
				path = filepath.Join(folder, program+".py")
			}
			cmd := exec.CommandContext(t.Context(), need(t, "python3"), "-B", path)
			cmd.Env = append(os.Environ(), "PYTHONPATH=python", "PYTHONUNBUFFERED=1")
			return cmd
		}, folder},
	}
}

// program returns the program in the README of a client.
func program(name, language string) (string, error) {
	text, err := os.ReadFile(filepath.Join(name, "README.md"))
	_, code, ok := strings.Cut(string(text), "```"+language+"\n")
	code, _, ends := strings.Cut(code, "```")
	if err == nil && (!ok || !ends) {
		err = fmt.Errorf("the README of %s has no program", name)
	}
	return code, err
}

// compile compiles the client in TypeScript as it is published, and the programs that use it.
func compile(folder string) ([]byte, error) {
	client := filepath.Join(folder, "node_modules", "millrace")
	output, err := exec.Command("tsc", "--project", "typescript", "--outDir", filepath.Join(client, "dist")).CombinedOutput()
	if err != nil {
		return output, err
	}
	if err := os.CopyFS(folder, os.DirFS("testdata")); err != nil {
		return nil, err
	}
	code, err := program("typescript", "typescript")
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(folder, "readme.ts"), []byte(code), 0o600); err != nil {
		return nil, err
	}
	text, err := os.ReadFile("typescript/package.json")
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(client, "package.json"), text, 0o600); err != nil {
		return nil, err
	}
	return exec.Command("tsc", "--project", folder).CombinedOutput()
}

// shop is a queue with everything around it: a Redis, and a service that a test hurts.
type shop struct {
	t       *testing.T
	redis   *redistest.Server
	queue   *fairqueue.Queue // orders
	address string           // of the service
	auth    *server.Auth
	stop    func() // the service

	mu       sync.Mutex
	requests map[string]int // answered ones, by the end of their path
	fault    func(w http.ResponseWriter, r *http.Request, next http.Handler) (struck bool)
	workers  []*worker
}

func open(t *testing.T, options redistest.Options) *shop {
	t.Helper()
	s := &shop{t: t, redis: redistest.Start(t, options), address: "127.0.0.1:0", requests: map[string]int{}}
	q, err := fairqueue.New(s.redis.Client(t), "orders", fairqueue.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	s.queue = q
	t.Cleanup(func() {
		if t.Failed() {
			stats, err := q.Stats(context.WithoutCancel(t.Context()))
			t.Logf("the queue: %+v, %v", stats, err)
		}
	})
	return s
}

// serve starts the service, at its old address if it had one.
func (s *shop) serve() {
	s.t.Helper()
	redis := s.redis.Client(s.t)
	served, err := server.New(server.Config{Client: redis, Auth: s.auth, Logger: slog.New(slog.DiscardHandler), Wrap: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.mu.Lock()
			fault := s.fault
			s.mu.Unlock()
			if fault == nil || !fault(w, r, next) {
				next.ServeHTTP(w, r)
			}
			s.mu.Lock()
			s.requests[filepath.Base(r.URL.Path)]++
			s.mu.Unlock()
		})
	}})
	if err != nil {
		s.t.Fatal(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(s.t.Context(), "tcp", s.address)
	if err != nil {
		s.t.Fatal(err)
	}
	s.address = listener.Addr().String()
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- served.Serve(ctx, listener) }()
	s.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			s.t.Error(err)
		}
	})
	s.t.Cleanup(s.stop)
}

// strike sets what happens to requests.
func (s *shop) strike(fault func(w http.ResponseWriter, r *http.Request, next http.Handler) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = fault
}

// answers waits until so many more requests were answered.
func (s *shop) answers(path string, more int) {
	s.t.Helper()
	before := s.answered(path)
	redistest.Eventually(s.t, fmt.Sprintf("%d more answers to %s", more, path), func() bool { return s.answered(path) >= before+more })
}

func (s *shop) answered(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests[path]
}

func (s *shop) write(bodies ...string) {
	s.t.Helper()
	for _, body := range bodies {
		if _, err := s.queue.Write(s.t.Context(), fairqueue.Draft{Tenant: body, Body: []byte(body)}); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *shop) stats() fairqueue.Stats {
	s.t.Helper()
	stats, err := s.queue.Stats(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return stats
}

func (s *shop) do(words ...string) {
	s.t.Helper()
	redis := s.redis.Client(s.t)
	if err := redis.Do(s.t.Context(), redis.B().Arbitrary(words...).Build()).Error(); err != nil {
		s.t.Fatal(err)
	}
}

// settled waits until nothing waits and nothing is in flight, for as long as there is progress.
func (s *shop) settled() {
	s.t.Helper()
	for acked, done := int64(-1), false; !done; {
		redistest.Eventually(s.t, "all messages are settled, or more than before", func() bool {
			stats, err := s.queue.Stats(s.t.Context())
			more := stats.Counters.Acked > acked
			acked, done = stats.Counters.Acked, stats.Waiting+stats.Delayed+stats.InFlight == 0
			return err == nil && (done || more)
		})
	}
}

// finish drains the workers, and examines the queue: nothing is left, and it is consistent.
func (s *shop) finish() {
	s.t.Helper()
	s.settled()
	for _, w := range s.workers {
		w.drain()
	}
	wrong, err := s.queue.Check(s.t.Context())
	if err != nil || len(wrong) > 0 {
		s.t.Errorf("the queue: %v, %q", err, wrong)
	}
}

// object is JSON.
type object map[string]any

// worker is a process of a client.
type worker struct {
	t       *testing.T
	process *exec.Cmd
	stdin   io.Writer
	lines   chan string   // that it has printed
	said    []string      // those that linesOf has read
	stopped atomic.Bool   // by SIGKILL or so
	gone    chan struct{} // closed when it has ended
	err     error         // with which it ended
}

// run starts a program that uses a client, with options for its work.
func (s *shop) run(c client, options object) *worker {
	s.t.Helper()
	all := object{"url": "http://" + s.address}
	maps.Copy(all, options)
	text, err := json.Marshal(all)
	if err != nil {
		s.t.Fatal(err)
	}
	p := c.command(s.t, "driver")
	p.Args = append(p.Args, string(text))
	w := start(s.t, p)
	s.workers = append(s.workers, w)
	return w
}

func start(t *testing.T, p *exec.Cmd) *worker {
	t.Helper()
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
	w := &worker{t: t, process: p, stdin: stdin, lines: make(chan string, 10000), gone: make(chan struct{})}
	go func() {
		defer close(w.gone)
		for printed := bufio.NewScanner(stdout); printed.Scan(); {
			if printed.Text() != "" { // line returns that at the end
				w.lines <- printed.Text()
			}
		}
		w.err = p.Wait()
	}()
	t.Cleanup(func() {
		_ = p.Process.Kill() // a failed test leaves it
		<-w.gone
	})
	return w
}

// line returns the next line, "" after the last one.
func (w *worker) line() string {
	w.t.Helper()
	select {
	case line := <-w.lines:
		return line
	case <-w.gone:
		select {
		case line := <-w.lines:
			return line
		default:
			return ""
		}
	case <-time.After(time.Minute):
		w.t.Fatal("after a minute the worker has said nothing")
		return ""
	}
}

// says waits until the worker has said all of these, in any order, and nothing else.
func (w *worker) says(want ...string) {
	w.t.Helper()
	missing := map[string]int{}
	for _, line := range want {
		missing[line]++
	}
	for range want {
		line := w.line()
		if missing[line] == 0 {
			w.t.Fatalf("the worker says %q, want of each %v", line, missing)
		}
		missing[line]--
	}
}

// tell has handlers that hold a message go on.
func (w *worker) tell(gates ...string) {
	w.t.Helper()
	for _, gate := range gates {
		if _, err := io.WriteString(w.stdin, gate+"\n"); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *worker) signal(s syscall.Signal) {
	w.t.Helper()
	if err := w.process.Process.Signal(s); err != nil {
		w.t.Fatal(err)
	}
}

// kill ends the worker with SIGKILL.
func (w *worker) kill() {
	w.t.Helper()
	w.stopped.Store(true)
	w.signal(syscall.SIGKILL)
	<-w.gone
}

// drain ends the worker with SIGTERM, unless it has ended.
func (w *worker) drain() {
	w.t.Helper()
	select {
	case <-w.gone:
	default:
		w.signal(syscall.SIGTERM)
	}
	w.ends()
}

// ends waits until a worker has ended, without an error unless it was stopped.
func (w *worker) ends() {
	w.t.Helper()
	select {
	case <-w.gone:
	case <-time.After(time.Minute):
		w.t.Fatal("after a minute the worker has not ended")
	}
	if w.err != nil && !w.stopped.Load() {
		w.t.Errorf("the worker ended with %v", w.err)
	}
}

// rest returns the lines that nobody waited for, once the worker has ended.
func (w *worker) rest() (lines []string) {
	for line := w.line(); line != ""; line = w.line() {
		lines = append(lines, line)
	}
	return lines
}

// number returns a text with a number.
func number(text string, n int) string { return text + strconv.Itoa(n) }
