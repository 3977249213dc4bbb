// Webhooks accepts webhooks for many tenants and delivers each to its tenant's
// endpoint, with a fair queue between the two: neither a flood nor a slow endpoint of
// one tenant delays the others.
//
//	POST /hooks/{tenant} ──▶ accept ──▶ queue ──▶ deliver ──▶ endpoint
//	       202 {"id"} ◀─────────┘         ▲          │
//	                                      └──────────┤ 500, no answer in time: later
//	                                                 │ 429: after Retry-After
//	                                 dead letters ◀──┘ 410, or too many attempts
//
// The endpoints come from a JSON file: {"acme": {"url": "https://...", "secret": "..."}}.
package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/dial"
	"github.com/millrace/millrace/fairqueue"
)

const (
	keyHeader       = "Idempotency-Key"   // of a post: a repeated request has the same
	idHeader        = "Webhook-Id"        // of a delivery: each attempt has the same
	timeHeader      = "Webhook-Timestamp" // of the attempt, in Unix seconds
	signatureHeader = "Webhook-Signature" // see sign

	maxBody = 64 << 10 // bytes
)

func main() {
	redis := flag.String("redis", "redis://127.0.0.1:6379", "URL of the Redis to use")
	listen := flag.String("listen", "127.0.0.1:8080", "address to accept webhooks on")
	file := flag.String("endpoints", "endpoints.json", "JSON file with the endpoints of the tenants")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *redis, *listen, *file)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

// run accepts and delivers until ctx ends.
func run(ctx context.Context, redis, listen, file string) error {
	s := service{client: http.DefaultClient, timeout: 10 * time.Second}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &s.endpoints); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	client, err := dial.Redis(ctx, redis)
	if err != nil {
		return err
	}
	defer client.Close()
	if s.queue, err = fairqueue.New(client, "webhooks", fairqueue.Config{MaxAttempts: 8}); err != nil {
		return err
	}

	server := &http.Server{Addr: listen, Handler: s.handler(), ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		failed <- server.ListenAndServe()
		cancel()
	}()
	err = s.deliverAll(ctx) // which finishes deliveries in flight
	last, end := context.WithTimeout(context.Background(), 10*time.Second)
	defer end()
	_ = server.Shutdown(last)
	if served := <-failed; !errors.Is(served, http.ErrServerClosed) {
		return served
	}
	if errors.Is(err, context.Canceled) && !errors.Is(err, fairqueue.ErrUnsettled) {
		return nil
	}
	return err
}

// endpoint is where a tenant's webhooks go.
type endpoint struct {
	URL    string `json:"url"`
	Secret string `json:"secret"` // shared with the tenant, for signatures
}

// service accepts and delivers. In production the two are often separate programs: only
// the queue connects them.
type service struct {
	queue     *fairqueue.Queue
	endpoints map[string]endpoint // by tenant
	client    *http.Client
	timeout   time.Duration // of a delivery

	// backoff is fairqueue.Backoff if nil.
	backoff func(attempt int, err error) time.Duration
}

func (s *service) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /hooks/{tenant}", s.accept)
	return mux
}

// accept answers 202 when the webhook is in the queue, and not before. A caller without an
// answer posts again with the same key, and the queue has the webhook once.
func (s *service) accept(w http.ResponseWriter, req *http.Request) {
	tenant := req.PathValue("tenant")
	if _, known := s.endpoints[tenant]; !known {
		http.Error(w, "unknown tenant", http.StatusNotFound)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxBody))
	if err != nil {
		status := http.StatusBadRequest
		if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
			status = http.StatusRequestEntityTooLarge
		}
		http.Error(w, err.Error(), status)
		return
	}
	id, err := s.queue.Write(req.Context(), fairqueue.Draft{
		Tenant: tenant, Body: body, DedupeID: req.Header.Get(keyHeader),
		Headers: map[string]string{"Content-Type": req.Header.Get("Content-Type")},
	})
	switch {
	case errors.Is(err, millrace.ErrBadArgument): // the key is too long
		http.Error(w, err.Error(), http.StatusBadRequest)
	case err != nil: // Redis is full or does not answer
		w.Header().Set("Retry-After", "10")
		http.Error(w, "not accepted: post again with the same "+keyHeader, http.StatusServiceUnavailable)
	default:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprintf(w, "{\"id\":%q}\n", id)
	}
}

// deliverAll delivers the queue's webhooks until ctx ends, and returns when the deliveries in
// flight have ended, too.
func (s *service) deliverAll(ctx context.Context) error {
	return s.queue.Consume(ctx, fairqueue.ConsumeConfig{Concurrency: 40, Drain: 2 * s.timeout, Backoff: s.backoff}, s.deliver)
}

// deliver makes one attempt. Its error decides about the webhook: see outcome.
func (s *service) deliver(ctx context.Context, m fairqueue.Message) error {
	to, known := s.endpoints[m.Tenant]
	if !known {
		return fairqueue.NoRetry(errors.New("the tenant has no endpoint any more"))
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.URL, bytes.NewReader(m.Body))
	if err != nil {
		return fairqueue.NoRetry(err)
	}
	now := strconv.FormatInt(time.Now().Unix(), 10)
	req.Header.Set("Content-Type", cmp.Or(m.Headers["Content-Type"], "application/json"))
	req.Header.Set(idHeader, m.ID)
	req.Header.Set(timeHeader, now)
	req.Header.Set(signatureHeader, sign(to.Secret, m.ID, now, m.Body))
	response, err := s.client.Do(req)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no answer within %s", s.timeout)
	case err != nil:
		return err
	}
	defer response.Body.Close()
	return outcome(response)
}

// outcome maps an answer to nil, to a retry with backoff, to a pause of the tenant for as long as its
// endpoint asks for, or to a dead letter.
func outcome(response *http.Response) error {
	if response.StatusCode/100 == 2 {
		return nil
	}
	err := fmt.Errorf("the endpoint answered %s", response.Status)
	switch response.StatusCode {
	case http.StatusGone:
		return fairqueue.NoRetry(err)
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		if seconds, wrong := strconv.Atoi(response.Header.Get("Retry-After")); wrong == nil {
			return fairqueue.Throttle(time.Duration(seconds)*time.Second, err)
		}
	}
	return err
}

// sign returns the HMAC-SHA256 of id, time and body with the tenant's secret, in
// hexadecimal. The time is signed so that an old attempt cannot be replayed as a new one.
func sign(secret, id, at string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(mac, "%s.%s.%s", id, at, body)
	return "v1=" + hex.EncodeToString(mac.Sum(nil))
}
