package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/server"
)

// TestLoadWhileRedisRestarts has programs write, read and acknowledge over HTTP
// while Redis is killed and comes back, again and again: for twelve seconds, or
// a minute with MILLRACE_SOAK, and until enough has happened. No request hangs,
// a failure is a 503 with a Retry-After, and each message that was acknowledged
// to its writer is read.
func TestLoadWhileRedisRestarts(t *testing.T) {
	t.Parallel()
	long, writers, readers := 12*time.Second, 4, 4
	if os.Getenv("MILLRACE_SOAK") != "" {
		long = time.Minute
	}
	redis := redistest.Start(t, redistest.Options{AOF: true})
	l := &load{t: t, base: start(t, server.Config{Client: redis.Client(t)}), written: map[string]bool{}, read: map[string]bool{}}
	transport := &http.Transport{MaxIdleConnsPerHost: writers + readers}
	defer transport.CloseIdleConnections()
	l.client.Transport = transport

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var writing, reading sync.WaitGroup
	for i := range writers {
		writing.Go(func() { l.write(ctx, i) })
	}
	readCtx, done := context.WithCancel(t.Context())
	defer done()
	for range readers {
		reading.Go(func() { l.consume(readCtx) })
	}
	begun, restarts := time.Now(), 0
	enough := func() bool { return restarts >= 3 && l.refused.Load() > 0 && l.acknowledged() >= 50 }
	for outage := 300 * time.Millisecond; time.Since(begun) < long || !enough(); restarts++ {
		before := l.acknowledged()
		redistest.Eventually(t, "messages are written", func() bool { return l.acknowledged() > before })
		wait(ctx, time.Second)
		redis.Kill()
		wait(ctx, outage)
		redis.Restart()
		if outage *= 5; outage > 10*time.Second { // the third is longer than calls are repeated
			outage = 300 * time.Millisecond
		}
	}
	stop()
	writing.Wait()
	redistest.Eventually(t, "every message that was acknowledged to its writer is read", func() bool { return len(l.missing()) == 0 })
	done()
	reading.Wait()

	t.Logf("%d messages written, %d requests, %d of them 503, longest %s, %d restarts",
		len(l.written), l.requests.Load(), l.refused.Load(), time.Duration(l.longest.Load()).Round(time.Millisecond), restarts)
}

// wait lets time pass in which Redis is there, or away.
func wait(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// load has the work of all programs.
type load struct {
	t        *testing.T
	base     string
	client   http.Client
	requests atomic.Int64
	refused  atomic.Int64 // 503
	longest  atomic.Int64 // nanoseconds

	mu            sync.Mutex
	written, read map[string]bool // by the bodies of the messages
}

// write writes messages, and repeats failed writes with the same key until ctx ends.
func (l *load) write(ctx context.Context, writer int) {
	for n := 0; ctx.Err() == nil; n++ {
		body := fmt.Sprintf("%d-%d", writer, n)
		for ctx.Err() == nil {
			status, _ := l.ask(http.MethodPost, "/v1/queues/orders/messages", "write-"+body,
				map[string]string{"tenant": fmt.Sprint("tenant", n%17), "body": body})
			if status == http.StatusCreated {
				l.mu.Lock()
				l.written[body] = true
				l.mu.Unlock()
				break
			}
		}
	}
}

// consume reads and acknowledges until ctx ends.
func (l *load) consume(ctx context.Context) {
	for ctx.Err() == nil {
		status, answer := l.ask(http.MethodPost, "/v1/queues/orders/receive", "", map[string]any{"max": 50, "block": "500ms", "visibility": "2s"})
		var page struct {
			Messages []struct{ Receipt, Body string }
		}
		if status != http.StatusOK {
			continue
		}
		if err := json.Unmarshal(answer, &page); err != nil {
			l.t.Errorf("a reading %q: %v", answer, err)
			return
		}
		var receipts []string
		l.mu.Lock()
		for _, m := range page.Messages {
			l.read[m.Body] = true
			receipts = append(receipts, m.Receipt)
		}
		l.mu.Unlock()
		if len(receipts) > 0 { // an unacknowledged message is delivered again
			l.ask(http.MethodPost, "/v1/queues/orders/ack", "", map[string]any{"receipts": receipts})
		}
	}
}

// acknowledged returns how many messages were acknowledged to their writers.
func (l *load) acknowledged() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.written)
}

// missing returns the messages that were acknowledged to their writer and not read yet.
func (l *load) missing() (missing []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for body := range l.written {
		if !l.read[body] {
			missing = append(missing, body)
		}
	}
	return missing
}

// ask makes one request, which must be answered within fifteen seconds, with success or
// with a 503 that says when to come again.
func (l *load) ask(method, path, key string, body any) (int, []byte) {
	var reader io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			l.t.Error(err)
			return 0, nil
		}
		reader = bytes.NewReader(b)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.t.Context()), 15*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, l.base+path, reader)
	if err != nil {
		l.t.Error(err)
		return 0, nil
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	begun := time.Now()
	response, err := l.client.Do(r)
	if err != nil {
		l.t.Errorf("%s %s: %v after %s", method, path, err, time.Since(begun))
		return 0, nil
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		l.t.Errorf("%s %s: %v", method, path, err)
	}
	l.requests.Add(1)
	for took := int64(time.Since(begun)); took > l.longest.Load(); {
		l.longest.Store(took)
	}
	switch status := response.StatusCode; {
	case status == http.StatusServiceUnavailable:
		l.refused.Add(1)
		if response.Header.Get("Retry-After") == "" {
			l.t.Errorf("%s %s: a 503 without Retry-After: %s", method, path, answer)
		}
	case status == http.StatusConflict: // stale, or the same request is under way
	case status >= 300:
		l.t.Errorf("%s %s: %d %s", method, path, status, answer)
	}
	return response.StatusCode, answer
}

// start serves on a port of 127.0.0.1 until the test ends, and returns its URL.
func start(t *testing.T, cfg server.Config) string {
	t.Helper()
	s, err := server.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, listener) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil && !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("Serve: %v", err)
		}
	})
	return "http://" + listener.Addr().String() + cfg.Prefix
}
