package clients_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/server"
)

// rows are the faults of TestClients. Those that are long run in `make more` only.
var rows = []struct {
	name  string
	long  bool
	redis redistest.Options
	auth  string
	run   func(s *shop, c client)
}{
	{name: "handlers that end in each way", run: outcomes},
	{name: "a handler that takes longer than the visibility, and a drain", run: longHandler},
	{name: "a result while a request waits", run: settledSoon},
	{name: "lost answers", run: lostAnswers},
	{name: "a batch", run: batch},
	{name: "a killed worker", run: killedWorker},
	{name: "a worker that was stopped for longer than the visibility", run: stoppedWorker},
	{name: "requests that are refused", auth: "bearer " + secret, run: refusals},
	{name: "a full Redis", run: fullRedis},
	{name: "the program of its README", run: readme},
	{name: "the program of FROM_BULLMQ", run: fromBullMQ},

	{name: "a second signal", long: true, run: secondSignal},
	{name: "a restarted service", long: true, run: restartedService},
	{name: "a killed service", long: true, run: killedService},
	{name: "a killed Redis", long: true, redis: redistest.Options{AOF: true, Args: []string{"--appendfsync", "always"}}, run: killedRedis},
	{name: "a slow tenant", long: true, run: slowTenant},
	{name: "Retry-After, and pages of a proxy", long: true, run: proxy},
	{name: "a paused queue", long: true, run: paused},
	{name: "a Redis that is full for workers", long: true, run: fullForWorkers},
}

// TestClients runs each client with each fault. Most of them wait, so more run at a time than tests do otherwise.
func TestClients(t *testing.T) {
	t.Parallel()
	const most = 6
	turns := make(chan struct{}, most)
	var all sync.WaitGroup
	for _, c := range clients(t.TempDir()) {
		for _, row := range rows {
			all.Go(func() {
				turns <- struct{}{}
				defer func() { <-turns }()
				t.Run(c.name+"/"+row.name, func(t *testing.T) { //nolint:paralleltest // see above
					if row.long {
						redistest.Long(t)
					}
					s := open(t, row.redis)
					if row.auth != "" {
						auth, err := server.ParseAuth(row.auth)
						if err != nil {
							t.Fatal(err)
						}
						s.auth = auth
					}
					s.serve()
					row.run(s, c)
					s.finish()
				})
			})
		}
	}
	all.Wait()
}

// quick is the work of most rows.
var quick = object{"concurrency": 4, "block": 0.2}

func outcomes(s *shop, c client) {
	w := s.run(c, quick)
	s.write("fine", "later", "dead", "throttle")
	w.says("start fine 1", "end fine", "start later 1", "start later 2", "end later", "start dead 1",
		"start throttle 1", "start throttle 1", "end throttle") // it was no attempt
	s.write("fails")
	w.says("start fails 1")
	redistest.Eventually(s.t, "the message that failed is delayed", func() bool { return s.stats().Delayed == 1 })
	delayed, _, err := s.queue.Browse(s.t.Context(), fairqueue.BrowseConfig{State: fairqueue.Delayed})
	if err != nil || len(delayed) != 1 || time.Until(delayed[0].Until) > time.Second || !strings.Contains(delayed[0].Reason, "an accident") {
		s.t.Errorf("delayed are %+v, %v, want the message that failed, for a second", delayed, err)
	}
	w.says("start fails 2", "end fails")
	var dead []string
	for m, err := range s.queue.Dead().All(s.t.Context()) {
		if err != nil {
			s.t.Fatal(err)
		}
		dead = append(dead, string(m.Body)+": "+m.Reason)
	}
	if !slices.Equal(dead, []string{"dead: no such address"}) {
		s.t.Errorf("dead are %q", dead)
	}
	if counters := s.stats().Counters; counters.Reclaimed != 0 {
		s.t.Errorf("%d messages were not settled in time", counters.Reclaimed)
	}
}

// longHandler has handlers for twice the visibility, before and in a drain.
func longHandler(s *shop, c client) {
	w := s.run(c, object{"concurrency": 2, "block": 0.2, "visibility": 2})
	s.write("hold1", "hold2")
	w.says("start hold1 1", "start hold2 1")
	rounds := s.answered("work")
	s.answers("extend", 4)
	redistest.Eventually(s.t, "rounds by which it stays known", func() bool { return s.answered("work") >= rounds+2 })
	w.tell("hold1")
	w.says("end hold1")
	redistest.Eventually(s.t, "hold1 is settled", func() bool { return s.stats().InFlight == 1 })
	w.signal(syscall.SIGTERM)
	s.answers("extend", 1)
	s.write("hold3") // which it no longer takes
	w.tell("hold2")
	w.says("end hold2", "done")
	w.ends()
	if stats := s.stats(); stats.InFlight != 0 || stats.Waiting != 1 || stats.Counters.Reclaimed != 0 {
		s.t.Errorf("after the drain %d are in flight and %d wait; %d were redelivered, want one that waits", stats.InFlight, stats.Waiting, stats.Counters.Reclaimed)
	}
	last := s.run(c, quick)
	last.says("start hold3 1")
	last.tell("hold3")
	last.says("end hold3")
}

// settledSoon: what ends while a request waits for messages does not wait for it.
func settledSoon(s *shop, c client) {
	waits := make(chan struct{}, 100)
	s.strike(func(_ http.ResponseWriter, r *http.Request, _ http.Handler) bool {
		if takes(s.t, r) {
			waits <- struct{}{}
		}
		return false
	})
	w := s.run(c, object{"concurrency": 2, "block": 50})
	<-waits
	s.write("hold")
	w.says("start hold 1")
	<-waits // the next request waits, for longer than this test does
	w.tell("hold")
	w.says("end hold")
	s.settled()
	began := time.Now()
	w.drain() // nor does the end of the worker
	if took := time.Since(began); took > 40*time.Second {
		s.t.Errorf("an idle worker took %s to end", took)
	}
}

// body returns the body of a request, which can be read again.
func body(t *testing.T, r *http.Request) []byte {
	text, err := io.ReadAll(r.Body)
	if err != nil && !errors.Is(err, net.ErrClosed) {
		t.Log(err)
	}
	r.Body = io.NopCloser(bytes.NewReader(text))
	return text
}

// takes reports whether a request takes messages.
func takes(t *testing.T, r *http.Request) bool {
	var round struct{ Max int }
	return strings.HasSuffix(r.URL.Path, "/work") && json.Unmarshal(body(t, r), &round) == nil && round.Max > 0
}

// lose does the work of a request, and loses its answer.
func lose(w http.ResponseWriter, r *http.Request, next http.Handler) {
	next.ServeHTTP(httptest.NewRecorder(), r)
	cut(w)
}

func cut(w http.ResponseWriter) {
	if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
		_ = conn.Close()
	}
}

// lostAnswers loses the first answer to each request: all is written once, and handled in its first attempt.
func lostAnswers(s *shop, c client) {
	var mu sync.Mutex
	seen, lost := map[string]bool{}, map[string]int{}
	s.strike(func(w http.ResponseWriter, r *http.Request, next http.Handler) bool {
		key := r.Header.Get("Idempotency-Key")
		if key == "" {
			key = string(body(s.t, r))
		}
		mu.Lock()
		loses := !seen[key]
		seen[key] = true
		if loses {
			lost[r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]]++
		}
		mu.Unlock()
		if loses {
			lose(w, r, next)
		}
		return loses
	})
	const n = 5
	writer := s.run(c, object{"write": n})
	writer.ends()
	ids := writer.rest()
	slices.Sort(ids)
	if written := s.stats().Counters.Written; written != 2*n || len(ids) != 2*n+1 || len(slices.Compact(ids)) != 2*n+1 {
		s.t.Errorf("%d messages were written, and the client says %q, want %d", written, ids, 2*n)
	}
	s.write("later")
	w := s.run(c, object{"concurrency": 4, "block": 0.2, "visibility": 60})
	s.settled()
	w.drain()
	// A read that takes longer than it may block returns what it took.
	if counters := s.stats().Counters; counters.Delivered-counters.Returned != 2*n+2 || counters.Acked != 2*n+1 || counters.Reclaimed != 0 {
		s.t.Errorf("want each delivered once, and again what asked for it: %+v", counters)
	}
	for i := range n {
		if lines := w.linesOf(number("m", i)); !slices.Equal(lines, []string{number("start m", i) + " 1", number("end m", i)}) {
			s.t.Errorf("message %d: %q", i, lines)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if lost["work"] < 5 || lost["messages"] != n || lost["batch"] != n/5 {
		s.t.Errorf("too few answers were lost: %v", lost)
	}
}

// batch has two messages counted, with lost answers, and hears that they have ended.
func batch(s *shop, c client) {
	seen := map[string]bool{}
	var mu sync.Mutex
	s.strike(func(w http.ResponseWriter, r *http.Request, next http.Handler) bool {
		mu.Lock()
		defer mu.Unlock()
		again := seen[r.URL.Path]
		seen[r.URL.Path] = true
		if !again {
			lose(w, r, next)
		}
		return !again
	})
	writer := s.run(c, object{"batch": true})
	writer.ends()
	_, id, _ := strings.Cut(strings.Join(writer.rest(), " "), "batch ")
	id, _, _ = strings.Cut(id, " ")
	w := s.run(c, quick)
	s.settled()
	w.drain()
	for body, handled := range map[string]string{"m1": "-", "m2": "-", "all": "2"} {
		want := []string{"start " + body + " 1", "of " + body + " " + id + " " + handled, "end " + body}
		if lines := w.linesOf(body); !slices.Equal(lines, want) {
			s.t.Errorf("message %s: %q, want %q", body, lines, want)
		}
	}
}

func killedWorker(s *shop, c client) {
	first := s.run(c, object{"concurrency": 2, "block": 0.2, "visibility": 2})
	s.write("hold")
	first.says("start hold 1")
	first.kill()
	second := s.run(c, quick)
	second.says("start hold 2")
	second.tell("hold")
	second.says("end hold")
}

// stoppedWorker stops a worker until another one has its message.
func stoppedWorker(s *shop, c client) {
	first := s.run(c, object{"concurrency": 2, "block": 0.2, "visibility": 2})
	s.write("hold")
	first.says("start hold 1")
	first.signal(syscall.SIGSTOP)
	second := s.run(c, quick)
	second.says("start hold 2")
	first.signal(syscall.SIGCONT)
	first.says("lost hold")
	second.tell("hold")
	second.says("end hold")
	s.settled()
	if counters := s.stats().Counters; counters.Acked != 1 || counters.Nacked != 0 {
		s.t.Errorf("%d acknowledged, %d returned, want that of the second worker only", counters.Acked, counters.Nacked)
	}
}

const secret = "a-secret-of-32-characters-or-more"

// refusals: what a repeat would not help ends the call with a code and a hint.
func refusals(s *shop, c client) {
	for _, options := range []object{{"token": "wrong"}, {"write": 1}} {
		w := s.run(c, options)
		if line := w.line(); !strings.HasPrefix(line, "error unauthorized") {
			s.t.Errorf("with %v the client says %q", options, line)
		}
		w.kill()
	}
	w := s.run(c, object{"token": secret, "visibility": 100000})
	if line := w.line(); !strings.HasPrefix(line, "error bad_argument hint:") {
		s.t.Errorf("with a visibility of a day the client says %q", line)
	}
	w.ends()
	nobody, err := (&net.ListenConfig{}).Listen(s.t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	_ = nobody.Close()
	w = s.run(c, object{"url": "http://" + nobody.Addr().String(), "write": 1, "timeout": 0.2})
	if line := w.line(); line != "error unreachable" {
		s.t.Errorf("without a service the client says %q", line)
	}
	w.kill()
	if _, err := s.queue.Write(s.t.Context(), fairqueue.Draft{Tenant: "a", Body: []byte("fine")}); err != nil {
		s.t.Fatal(err)
	}
	w = s.run(c, object{"token": secret, "block": 0.2})
	w.says("start fine 1", "end fine")
}

// fullRedis: a write says that it is full; with its key it is written once, later.
func fullRedis(s *shop, c client) {
	s.write("hold")
	w := s.run(c, quick)
	w.says("start hold 1")
	s.do("CONFIG", "SET", "maxmemory", "1")
	const n = 5
	writer := s.run(c, object{"write": n})
	writer.says("error full")
	w.tell("hold")
	w.says("end hold")
	s.settled() // also on a full server
	s.do("CONFIG", "SET", "maxmemory", "0")
	writer.tell("full")
	writer.ends()
	if lines := writer.rest(); len(lines) != 2*n+1 || s.stats().Counters.Written != 2*n+1 {
		s.t.Errorf("the writer says %q, and %d messages were written, want %d", lines, s.stats().Counters.Written, 2*n)
	}
	s.settled()
	if counters := s.stats().Counters; counters.Reclaimed != 0 || counters.Delivered-counters.Returned != counters.Written {
		s.t.Errorf("want each delivered once: %+v", counters)
	}
}

// fullForWorkers: rounds that are refused with 507 are repeated, with growing delays.
func fullForWorkers(s *shop, c client) {
	refused := make(chan time.Time, 100)
	s.write("hold")
	w := s.run(c, object{"concurrency": 1, "block": 0.2})
	w.says("start hold 1")
	s.strike(func(w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
		if !strings.HasSuffix(r.URL.Path, "/work") {
			return false
		}
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusInsufficientStorage)
		_, _ = io.WriteString(w, `{"code":"full"}`)
		refused <- time.Now()
		return true
	})
	w.tell("hold")
	w.says("end hold")
	first := <-refused
	<-refused
	<-refused
	if took := (<-refused).Sub(first); took < (100+200+400)/2*time.Millisecond {
		s.t.Errorf("four tries took %s", took)
	}
	s.strike(nil)
}

// secondSignal ends a worker at once.
func secondSignal(s *shop, c client) {
	w := s.run(c, object{"concurrency": 2, "block": 50, "visibility": 2})
	s.write("hold")
	w.says("start hold 1")
	w.stopped.Store(true)
	w.signal(syscall.SIGTERM)
	s.answers("extend", 1) // it has seen the signal, and goes on
	w.signal(syscall.SIGTERM)
	w.ends()
	if w.err == nil {
		s.t.Error("the worker has ended by itself")
	}
	second := s.run(c, quick)
	second.says("start hold 2")
	second.tell("hold")
	second.says("end hold")
}

// traffic writes and handles n messages of each kind around a fault, which has to end. All are written once.
func traffic(s *shop, c client, fault func()) {
	const n = 200
	writer := s.run(c, object{"write": n, "timeout": 60})
	w := s.run(c, object{"concurrency": 4, "block": 0.5, "visibility": 2})
	for range n / 4 {
		writer.line()
	}
	fault()
	writer.ends()
	if lines := writer.rest(); len(lines) != 2*n+1-n/4 || lines[len(lines)-1] != "done" {
		s.t.Errorf("the writer says %q", lines)
	}
	s.settled()
	w.drain()
	if counters := s.stats().Counters; counters.Written != 2*n || counters.Acked != 2*n {
		s.t.Errorf("%d were written and %d acknowledged, want %d", counters.Written, counters.Acked, 2*n)
	}
	for i := range n {
		if lines := w.linesOf(number("m", i)); !slices.Contains(lines, number("end m", i)) {
			s.t.Errorf("message %d was not handled: %q", i, lines)
		}
	}
}

func restartedService(s *shop, c client) {
	traffic(s, c, func() {
		for range 3 {
			s.stop()
			s.serve()
			s.answers("work", 1)
		}
	})
}

func killedService(s *shop, c client) {
	s.stop()
	serve := func() *redistest.Child {
		child := redistest.StartChild(s.t, fmt.Sprintf("%s=%s %s", serveEnv, s.redis.URL(), s.address))
		child.Lines(1)
		return child
	}
	child := serve()
	traffic(s, c, func() {
		for range 3 {
			delivered := s.stats().Counters.Delivered
			child.Kill()
			child = serve()
			redistest.Eventually(s.t, "it goes on", func() bool { return s.stats().Counters.Delivered > delivered })
		}
	})
}

func killedRedis(s *shop, c client) {
	traffic(s, c, func() {
		for range 2 {
			s.redis.Kill()
			s.redis.Restart()
			s.answers("work", 2)
		}
	})
}

// slowTenant: in a worker with 8 handlers, a tenant whose handlers do not end leaves some to another one.
func slowTenant(s *shop, c client) {
	const slow, quiet = 20, 40
	drafts := []fairqueue.Draft{{Tenant: "quiet", Body: []byte("q0")}}
	for i := range slow {
		drafts = append(drafts, fairqueue.Draft{Tenant: "slow", Body: []byte(number("hold", i))})
	}
	if _, err := s.queue.WriteBatch(s.t.Context(), drafts...); err != nil {
		s.t.Fatal(err)
	}
	w := s.run(c, object{"concurrency": 8, "block": 1})
	for i := range quiet {
		if i > 0 {
			if _, err := s.queue.Write(s.t.Context(), fairqueue.Draft{Tenant: "quiet", Body: []byte(number("q", i))}); err != nil {
				s.t.Fatal(err)
			}
		}
		for w.line() != number("end q", i) {
		}
	}
	for i := range slow {
		w.tell(number("hold", i))
	}
}

// proxy: a worker outlives a date in Retry-After and a page instead of JSON, and waits for as long as it is told.
func proxy(s *shop, c client) {
	var mu sync.Mutex
	tries := 0
	var told time.Time
	var waited time.Duration
	s.strike(func(w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
		mu.Lock()
		defer mu.Unlock()
		if !takes(s.t, r) {
			return false
		}
		switch tries++; tries {
		case 1:
			w.Header().Set("Retry-After", "Wed, 21 Oct 2099 07:28:00 GMT")
			w.WriteHeader(http.StatusServiceUnavailable)
		case 2:
			_, _ = io.WriteString(w, "<html>maintenance</html>")
		case 3:
			told = time.Now()
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
		case 4:
			waited = time.Since(told)
			w.WriteHeader(http.StatusTooManyRequests)
		default:
			return false
		}
		return true
	})
	w := s.run(c, quick)
	s.write("fine")
	w.says("start fine 1", "end fine")
	mu.Lock()
	defer mu.Unlock()
	if waited < time.Second {
		s.t.Errorf("what was refused for a second came again after %s", waited)
	}
}

// paused: a worker waits as for messages.
func paused(s *shop, c client) {
	s.write("fine")
	if err := s.queue.Pause(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	w := s.run(c, quick)
	s.answers("work", 3)
	if err := s.queue.Resume(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	w.says("start fine 1", "end fine")
}

// readme runs the program in the README of a client.
func readme(s *shop, c client) {
	c.command(s.t, "driver") // compiles
	code, err := os.ReadFile(filepath.Join(c.folder, "readme"+c.executable))
	if errors.Is(err, fs.ErrNotExist) {
		var text string
		text, err = program(c.name, c.language)
		code = []byte(text)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	code = bytes.ReplaceAll(code, []byte("http://127.0.0.1:8420"), []byte("http://"+s.address))
	if err := os.WriteFile(filepath.Join(c.folder, "here"+c.executable), code, 0o600); err != nil {
		s.t.Fatal(err)
	}
	w := start(s.t, c.command(s.t, "here"))
	s.workers = append(s.workers, w)
	said := ""
	for _, order := range []string{"acme 17", "globex 18", "globex 19"} { // threads may print their ends of lines later
		for !strings.Contains(said, order) {
			line := w.line()
			if said += line + "\n"; line == "" {
				s.t.Fatalf("it says %q", said)
			}
		}
	}
	s.settled()
}

// linesOf returns what an ended worker has said about a message.
func (w *worker) linesOf(body string) (lines []string) {
	w.said = append(w.said, w.rest()...)
	for _, line := range w.said {
		if words := strings.Fields(line); len(words) > 1 && words[1] == body {
			lines = append(lines, line)
		}
	}
	return lines
}
