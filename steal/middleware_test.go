package steal

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace"
)

// The one unlucky client of the originals waits for the upkeep of all (W10 in
// docs/DEFECTS.md).
func TestClientDoesNotWaitForUpkeep(t *testing.T) {
	t.Parallel()
	type key struct{}
	r := New(Config{Budget: time.Minute})
	received, seen := make(chan struct{}), make(chan any, 1)
	install(t, r, 1, millrace.Job{Name: "x", Slice: func(ctx context.Context) (millrace.Progress, error) {
		<-received
		seen <- ctx.Value(key{})
		return millrace.Worked, ctx.Err()
	}})
	body := strings.Repeat("a long answer ", 10_000)
	pages := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		for range 1000 {
			r.Enlist(req.Context())
		}
		io.WriteString(w, body)
	})
	around := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		ctx := context.WithValue(req.Context(), key{}, "a value")
		Middleware(r)(Middleware(r)(pages)).ServeHTTP(w, req.WithContext(ctx))
	})
	server := httptest.NewServer(around)
	defer server.Close()

	response, err := server.Client().Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(response.Body)
	response.Body.Close()
	if err != nil || string(got) != body {
		t.Errorf("the client read %d bytes and %v, want %d and no error", len(got), err, len(body))
	}
	if got, want := jobStats(t, r, "x").Running, 1; got != want {
		t.Errorf("slices under way when the client has the response = %d, want %d", got, want)
	}
	close(received)
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := <-seen, "a value"; got != want {
		t.Errorf("the slice's context has the value %v, want %v", got, want)
	}
	s := jobStats(t, r, "x")
	if s.Worked != 1 || s.Recruited() != 1 {
		t.Errorf("stats = %+v, want one recruit that worked, from 1000 enlistments", s)
	}
}

// TestFailuresStayOutOfTheResponse: whatever a slice does, the worker goes on and
// the response is as it was (W2 and W10 in docs/DEFECTS.md).
func TestFailuresStayOutOfTheResponse(t *testing.T) {
	t.Parallel()
	for name, slice := range map[string]func(context.Context) (millrace.Progress, error){
		"error": answers("", millrace.Idle, errTrouble).Slice,
		"panic": func(context.Context) (millrace.Progress, error) { panic("at the mill") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := New(Config{})
			install(t, r, 1, millrace.Job{Name: "x", Slice: slice})
			page := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				r.Enlist(context.Background()) // there and then
				io.WriteString(w, "the page")
				r.Enlist(req.Context()) // afterwards
			})
			server := httptest.NewServer(Middleware(r)(page))
			defer server.Close()
			for range 2 {
				response, err := server.Client().Get(server.URL)
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(response.Body)
				response.Body.Close()
				if err != nil || string(body) != "the page" || response.StatusCode != http.StatusOK {
					t.Errorf("response = %q, %s, %v, want the page alone", body, response.Status, err)
				}
			}
			if err := r.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := jobStats(t, r, "x").Aborted; got < 2 {
				t.Errorf("aborted = %d, want a slice to fail for each request", got)
			}
		})
	}
}

func TestMiddlewareRecruitsOnlyForMoments(t *testing.T) {
	t.Parallel()
	r := New(Config{})
	install(t, r, 1, answers("x", millrace.Worked, nil))
	serve := func(handler http.HandlerFunc) {
		defer func() {
			if p := recover(); p != nil && !errors.Is(p.(error), http.ErrAbortHandler) {
				panic(p)
			}
		}()
		Middleware(r)(handler).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
	}
	serve(func(http.ResponseWriter, *http.Request) {})
	serve(func(_ http.ResponseWriter, req *http.Request) {
		r.Enlist(req.Context())
		panic(http.ErrAbortHandler)
	})
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := jobStats(t, r, "x").Recruited(); got != 0 {
		t.Errorf("recruited = %d, want 0", got)
	}
}
