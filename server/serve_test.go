package server_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/server"
)

// TestDrain ends a service while programs wait for messages and a request is in
// progress: long polls are answered at once, the request is finished, and new
// connections are refused.
func TestDrain(t *testing.T) {
	t.Parallel()
	var taken atomic.Int64 // requests that a handler has
	s := service(t, server.Config{Wrap: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			taken.Add(1)
			next.ServeHTTP(w, r)
		})
	}})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	defer end()
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, listener) }()
	base := "http://" + listener.Addr().String()
	queue := "/v1/queues/" + redistest.Name(t)

	type reply struct {
		status int
		body   string
		err    error
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	ask := func(r *http.Request) <-chan reply {
		done := make(chan reply, 1)
		go func() {
			response, err := client.Do(r)
			if err != nil {
				done <- reply{err: err}
				return
			}
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			done <- reply{response.StatusCode, string(body), err}
		}()
		return done
	}
	poll, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+queue+"/receive", strings.NewReader(`{"block":"50s"}`))
	if err != nil {
		t.Fatal(err)
	}
	poll.Header.Set("Content-Type", "application/json")
	waiting := ask(poll)
	body, rest := io.Pipe()
	half, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+queue+"/messages", body)
	if err != nil {
		t.Fatal(err)
	}
	half.Header.Set("Content-Type", "application/json")
	writing := ask(half)
	io.WriteString(rest, `{"tenant":"acme",`) // the answer tells whether it came
	redistest.Eventually(t, "both requests are under way", func() bool { return taken.Load() == 2 })

	end()
	begun := time.Now()
	switch got := <-waiting; {
	case got.err != nil || got.status != http.StatusOK || !strings.Contains(got.body, `"messages":[]`):
		t.Errorf("who waited has %+v, want an empty list", got)
	case time.Since(begun) > 10*time.Second:
		t.Errorf("who waited was answered after %s", time.Since(begun))
	}
	io.WriteString(rest, `"body":"hello"}`) // the answer tells whether it came
	rest.Close()
	if got := <-writing; got.err != nil || got.status != http.StatusCreated {
		t.Errorf("the request under way has %d %s, %v, want 201", got.status, got.body, got.err)
	}
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
	if conn, err := net.Dial("tcp", listener.Addr().String()); err == nil {
		conn.Close()
		t.Error("somebody still listens")
	}
}
