package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/redistest"
)

// What an endpoint answers decides when a webhook comes again.
func TestAnswersAndWhatTheyMean(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		status  int
		after   string
		delayed time.Duration // at least, but for what a timer's rounding takes
		dead    bool
	}{
		{"taken", http.StatusOK, "", 0, false},
		{"gone", http.StatusGone, "", 0, true},
		{"too many", http.StatusTooManyRequests, "60", time.Minute, false},
		{"away", http.StatusServiceUnavailable, "60", time.Minute, false},
		{"too many, until a date", http.StatusTooManyRequests, "Fri, 31 Dec 2027 23:59:59 GMT", 100 * time.Millisecond, false},
		{"broken", http.StatusInternalServerError, "60", 100 * time.Millisecond, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				asked.Add(1)
				w.Header().Set("Retry-After", test.after)
				w.WriteHeader(test.status)
			}))
			defer server.Close()
			queue, err := fairqueue.New(redistest.Shared(t).Client(t), redistest.Name(t), fairqueue.Config{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := queue.Write(t.Context(), fairqueue.Draft{Tenant: "one"}); err != nil {
				t.Fatal(err)
			}
			c := &courier{endpoints: map[string]endpoint{"one": {url: server.URL}}, client: server.Client(), failed: func(string) {}}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { defer close(done); _ = c.run(ctx, queue) }()
			var s fairqueue.Stats
			redistest.Eventually(t, "the webhook is settled", func() bool {
				s, err = queue.Stats(t.Context())
				return err == nil && asked.Load() > 0 && s.Waiting+s.InFlight == 0 &&
					(s.Delayed > 0 || s.Dead > 0 || s.Counters.Acked > 0)
			})
			cancel()
			<-done
			if got, want := s.Dead > 0, test.dead; got != want {
				t.Errorf("dead = %v, want %v", got, want)
			}
			if got, want := s.Delayed > 0, test.delayed > 0; got != want {
				t.Errorf("comes again = %v, want %v", got, want)
			}
			if test.delayed == time.Minute && asked.Load() != 1 {
				t.Errorf("asked %d times, want once a minute", asked.Load())
			}
		})
	}
}

func TestAnEndpointThatIsTooSlow(t *testing.T) {
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
	c := &courier{endpoints: map[string]endpoint{"one": {url: server.URL}}, client: server.Client()}
	err := c.deliver(t.Context(), fairqueue.Message{Tenant: "one"})
	if err == nil || !strings.HasPrefix(err.Error(), "no answer within") {
		t.Errorf("deliver = %v, want no answer", err)
	}
	if err := c.deliver(t.Context(), fairqueue.Message{Tenant: "other"}); err == nil || !strings.Contains(err.Error(), "no endpoint any more") {
		t.Errorf("deliver for a tenant that has left = %v, want that it has no endpoint", err)
	}
}

func TestSignatures(t *testing.T) {
	t.Parallel()
	// As openssl dgst -sha256 -hmac secret tells of "1-0.3.1700000000.{}".
	if got, want := sign([]byte("secret"), "1-0.3", "1700000000", []byte("{}")), "v1=d0936a1ad685ad40c6e474e6fe8a38d7546df17b9beda9a1ffa953d4b9ba9dcc"; got != want {
		t.Errorf("sign = %q, want %q", got, want)
	}
	for _, test := range []struct {
		name  string
		spoil func(http.Header) []byte
		want  bool
	}{
		{"sound", func(http.Header) []byte { return []byte("{}") }, true},
		{"another body", func(http.Header) []byte { return []byte("[]") }, false},
		{"another id", func(h http.Header) []byte { h.Set(idHeader, "1-0.4"); return []byte("{}") }, false},
		{"another time", func(h http.Header) []byte { h.Set(timeHeader, "1700000001"); return []byte("{}") }, false},
		{"none", func(h http.Header) []byte { h.Del(signatureHeader); return []byte("{}") }, false},
	} {
		h := http.Header{}
		h.Set(idHeader, "1-0.3")
		h.Set(timeHeader, "1700000000")
		h.Set(signatureHeader, sign([]byte("secret"), "1-0.3", "1700000000", []byte("{}")))
		body := test.spoil(h)
		if got := signed([]byte("secret"), h, body); got != test.want {
			t.Errorf("%s: signed = %v, want %v", test.name, got, test.want)
		}
	}
}
