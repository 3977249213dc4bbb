package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/millracetest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func newService(t *testing.T, cfg fairqueue.Config) *service {
	t.Helper()
	cfg.Logger = slog.New(slog.DiscardHandler)
	queue, err := fairqueue.New(millracetest.Redis(t), "webhooks", cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &service{queue: queue, endpoints: map[string]endpoint{"one": {}, "other": {}}, client: http.DefaultClient, timeout: time.Second}
}

// post posts a webhook and returns the status and the id.
func (s *service) post(t *testing.T, tenant, key, body string) (status int, id string) {
	t.Helper()
	req := httptest.NewRequest(http.MethodPost, "/hooks/"+tenant, strings.NewReader(body))
	if key != "" {
		req.Header.Set(keyHeader, key)
	}
	w := httptest.NewRecorder()
	s.handler().ServeHTTP(w, req)
	var answer struct{ ID string }
	if w.Code == http.StatusAccepted {
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || answer.ID == "" {
			t.Errorf("answer = %q, %v, want an id", w.Body.String(), err)
		}
	}
	return w.Code, answer.ID
}

func TestKeysBelongToTheirTenant(t *testing.T) {
	t.Parallel()
	s := newService(t, fairqueue.Config{})
	posts := []struct{ tenant, key string }{{"one", "k"}, {"one", "k"}, {"one", "j"}, {"other", "k"}, {"one", ""}, {"one", ""}}
	ids := make([]string, len(posts))
	for i, p := range posts {
		var status int
		if status, ids[i] = s.post(t, p.tenant, p.key, "{}"); status != http.StatusAccepted {
			t.Errorf("post %v answers %d, want %d", p, status, http.StatusAccepted)
		}
	}
	for i := range ids {
		for j := range i {
			same := posts[i] == posts[j] && posts[i].key != ""
			if got := ids[i] == ids[j]; got != same {
				t.Errorf("%v and %v have the same id: %v, want %v", posts[i], posts[j], got, same)
			}
		}
	}
	millracetest.WantCounts(t, s.queue, millracetest.Counts{Waiting: 5})
}

func TestRefusedPosts(t *testing.T) {
	t.Parallel()
	s := newService(t, fairqueue.Config{})
	for _, test := range []struct {
		name, tenant, key, body string
		want                    int
	}{
		{"unknown tenant", "nobody", "", "{}", http.StatusNotFound},
		{"too large", "one", "", strings.Repeat("x", maxBody+1), http.StatusRequestEntityTooLarge},
		{"key too long", "one", strings.Repeat("x", 600), "{}", http.StatusBadRequest},
	} {
		if got, _ := s.post(t, test.tenant, test.key, test.body); got != test.want {
			t.Errorf("%s: the service answers %d, want %d", test.name, got, test.want)
		}
	}
	millracetest.WantCounts(t, s.queue, millracetest.Counts{})

	client := millracetest.Redis(t)
	queue, err := fairqueue.New(client, "webhooks", fairqueue.Config{})
	if err != nil {
		t.Fatal(err)
	}
	s.queue = queue
	client.Close()
	if got, _ := s.post(t, "one", "", "{}"); got != http.StatusServiceUnavailable {
		t.Errorf("without Redis the service answers %d, want %d", got, http.StatusServiceUnavailable)
	}
}

// The answer of an endpoint decides when a webhook is delivered again.
func TestAnswersOfEndpoints(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		status  int
		after   string
		delayed time.Duration // at least; 0 for no retry
		paused  bool          // the tenant
		dead    bool
	}{
		{"accepted", http.StatusOK, "", 0, false, false},
		{"gone", http.StatusGone, "", 0, false, true},
		{"too many", http.StatusTooManyRequests, "60", 0, true, false},
		{"away", http.StatusServiceUnavailable, "60", 0, true, false},
		{"too many, until a date", http.StatusTooManyRequests, "Fri, 31 Dec 2027 23:59:59 GMT", 100 * time.Millisecond, false, false},
		{"broken", http.StatusInternalServerError, "60", 100 * time.Millisecond, false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				asked.Add(1)
				w.Header().Set("Retry-After", test.after)
				w.WriteHeader(test.status)
			}))
			defer server.Close()
			s := newService(t, fairqueue.Config{})
			s.endpoints["one"] = endpoint{URL: server.URL}
			s.client = server.Client()
			s.post(t, "one", "", "{}")
			got := millracetest.RunUntilEmpty(t, s.queue, s.deliver, millracetest.RunConfig{})
			if len(got.Dead) > 0 != test.dead {
				t.Errorf("dead letters = %v, want one: %v", got.Dead, test.dead)
			}
			if got, want := got.Delayed > 0, test.delayed > 0; got != want {
				t.Errorf("delivered again = %v, want %v", got, want)
			}
			if got := got.Waiting > 0; got != test.paused {
				t.Errorf("the tenant waits = %v, want %v", got, test.paused)
			}
			delayed, _, err := s.queue.Browse(t.Context(), fairqueue.BrowseConfig{State: fairqueue.Delayed})
			if err != nil {
				t.Fatal(err)
			}
			for _, msg := range delayed {
				if wait := msg.Until.Sub(msg.Written); wait < test.delayed {
					t.Errorf("it is delivered again after %s, want %s at least", wait, test.delayed)
				}
			}
			if asked.Load() != 1 {
				t.Errorf("asked %d times, want once", asked.Load())
			}
		})
	}
}

func TestEndpointWithoutAnswer(t *testing.T) {
	t.Parallel()
	hang := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		select {
		case <-hang:
		case <-req.Context().Done():
		}
	}))
	defer server.Close()
	defer close(hang)
	s := &service{endpoints: map[string]endpoint{"one": {URL: server.URL}}, client: server.Client(), timeout: 100 * time.Millisecond}
	if err := s.deliver(t.Context(), fairqueue.Message{Tenant: "one"}); err == nil || !strings.HasPrefix(err.Error(), "no answer within") {
		t.Errorf("deliver = %v, want no answer", err)
	}
	if err := s.deliver(t.Context(), fairqueue.Message{Tenant: "other"}); err == nil || !strings.Contains(err.Error(), "no endpoint any more") {
		t.Errorf("deliver for a tenant that has left = %v, want that it has no endpoint", err)
	}
}

func TestSignature(t *testing.T) {
	t.Parallel()
	// As openssl dgst -sha256 -hmac secret computes it for "1-0.3.1700000000.{}".
	good := "v1=d0936a1ad685ad40c6e474e6fe8a38d7546df17b9beda9a1ffa953d4b9ba9dcc"
	if got := sign("secret", "1-0.3", "1700000000", []byte("{}")); got != good {
		t.Errorf("sign = %q, want %q", got, good)
	}
	for _, other := range []string{
		sign("secret", "1-0.3", "1700000000", nil), sign("secret", "1-0.4", "1700000000", []byte("{}")),
		sign("secret", "1-0.3", "1700000001", []byte("{}")), sign("other", "1-0.3", "1700000000", []byte("{}")),
	} {
		if other == good {
			t.Error("another id, time, body or secret has the same signature")
		}
	}
}

// ledger has the webhooks that the tenants posted and received.
type ledger struct {
	mu       sync.Mutex
	posted   map[string]time.Time // by number
	received map[string]time.Duration
	forged   int
}

// endpoints serves an endpoint for each tenant: the noisy one's is slow and fails, the
// gone one's answers 410.
func (l *ledger) endpoints(s *service) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		tenant := strings.TrimPrefix(req.URL.Path, "/")
		body, _ := io.ReadAll(req.Body)
		number := string(body)
		signed := sign(s.endpoints[tenant].Secret, req.Header.Get(idHeader), req.Header.Get(timeHeader), body)
		l.mu.Lock()
		defer l.mu.Unlock()
		switch {
		case signed != req.Header.Get(signatureHeader):
			l.forged++
			w.WriteHeader(http.StatusForbidden)
			return
		case tenant == "gone":
			w.WriteHeader(http.StatusGone)
			return
		case tenant == "noisy" && strings.HasSuffix(number, "7"): // cannot be handled, however often it comes
			w.WriteHeader(http.StatusInternalServerError)
			return
		case tenant == "noisy":
			l.mu.Unlock()
			time.Sleep(20 * time.Millisecond)
			l.mu.Lock()
		}
		if _, again := l.received[number]; !again {
			l.received[number] = time.Since(l.posted[number])
		}
	})
}

// median returns the median delay of the webhooks that were received by tenants whose
// name begins so.
func (l *ledger) median(prefix string) time.Duration {
	var all []time.Duration
	for number, took := range l.received {
		if strings.HasPrefix(number, prefix) {
			all = append(all, took)
		}
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// flood posts webhooks of a noisy tenant and then of quiet ones, replaces the program in the
// middle, and returns the received webhooks when only dead letters are left.
func flood(t *testing.T, cfg fairqueue.Config) (l *ledger, dead map[string]string) {
	t.Helper()
	cfg.MaxAttempts = 3
	s := newService(t, cfg)
	s.backoff = func(int, error) time.Duration { return 10 * time.Millisecond }
	l = &ledger{posted: map[string]time.Time{}, received: map[string]time.Duration{}}
	server := httptest.NewServer(l.endpoints(s))
	t.Cleanup(server.Close)
	s.client = server.Client()
	s.timeout = 10 * time.Second
	post := func(tenant string, i int) {
		number := fmt.Sprintf("%s %d", tenant, i)
		s.endpoints[tenant] = endpoint{URL: server.URL + "/" + tenant, Secret: "secret of " + tenant}
		l.mu.Lock()
		l.posted[number] = time.Now()
		l.mu.Unlock()
		_, first := s.post(t, tenant, number, number)
		_, second := s.post(t, tenant, number, number) // its first answer was lost
		if first != second {
			t.Errorf("%s has the ids %s and %s, want one", number, first, second)
		}
	}
	for i := range 1000 {
		post("noisy", i)
	}
	for i := range 20 {
		post(fmt.Sprint("quiet-", i), i)
		post("gone", i)
	}

	var programs sync.WaitGroup
	start := func() context.CancelFunc {
		ctx, stop := context.WithCancel(t.Context())
		programs.Go(func() {
			if err := s.deliverAll(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("deliverAll = %v, want the end of its context", err)
			}
		})
		return stop
	}
	stopFirst := start()
	redistest.Eventually(t, "a third is delivered", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.received) > len(l.posted)/3
	})
	stopSecond := start()
	stopFirst()
	redistest.Eventually(t, "the queue is empty", func() bool {
		now, err := s.queue.Stats(t.Context())
		return err == nil && now.Waiting+now.InFlight+now.Delayed == 0
	})
	stopSecond()
	programs.Wait()
	dead = map[string]string{}
	for letter, err := range s.queue.Dead().All(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		dead[string(letter.Body)] = letter.Reason
	}
	return l, dead
}

// TestEveryWebhookIsAccountedFor: each is received or a dead letter with its reason, and
// quiet tenants do not wait for the noisy one.
func TestEveryWebhookIsAccountedFor(t *testing.T) {
	t.Parallel()
	l, dead := flood(t, fairqueue.Config{})
	if l.forged > 0 {
		t.Errorf("%d deliveries had a wrong signature", l.forged)
	}
	for number := range l.posted {
		_, received := l.received[number]
		switch reason := dead[number]; {
		case received == (reason != ""):
			t.Errorf("%s: received %v, dead letter %q, want one of the two", number, received, reason)
		case strings.HasPrefix(number, "gone") && reason != "the endpoint answered 410 Gone":
			t.Errorf("%s is a dead letter because of %q", number, reason)
		}
	}
	if quiet, noisy := l.median("quiet"), l.median("noisy"); 3*quiet > noisy {
		t.Errorf("quiet tenants wait %s in the median, and the noisy one %s, want three times as long at least", quiet, noisy)
	}
}

// TestOneLineForAll: with one stream the others wait behind the noisy tenant.
func TestOneLineForAll(t *testing.T) {
	t.Parallel()
	l, _ := flood(t, fairqueue.Config{Streams: 1})
	if quiet, noisy := l.median("quiet"), l.median("noisy"); 3*quiet < noisy {
		t.Errorf("in one line quiet tenants wait %s in the median, and the noisy one %s: want the same", quiet, noisy)
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]string{"none.json": "no such file", "main.go": "invalid character"} {
		if err := run(t.Context(), "redis://127.0.0.1:1", "127.0.0.1:0", file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("run with %s = %v, want %q", file, err, want)
		}
	}
}
