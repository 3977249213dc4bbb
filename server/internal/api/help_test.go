package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/server/internal/api"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// service is an API as a test asks it. All that is asked and answered is held
// against the API's own description.
type service struct {
	t    *testing.T
	api  *api.API
	spec *spec
}

// serve returns a service on the shared server, or with the client of cfg.
func serve(t *testing.T, cfg api.Config) service {
	t.Helper()
	if cfg.Client == nil {
		cfg.Client = redistest.Shared(t).Client(t)
	}
	a, err := api.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Wait) // before its client is closed
	return service{t, a, readSpec(t, a)}
}

// listen serves on a port of 127.0.0.1 until the test ends, and returns its URL.
func (s service) listen() string {
	server := httptest.NewServer(s.api)
	s.t.Cleanup(server.Close)
	return server.URL
}

// in returns the same service for a subtest.
func (s service) in(t *testing.T) service { return service{t, s.api, s.spec} }

// answer is an answer of the service.
type answer struct {
	t      *testing.T
	what   string
	status int
	header http.Header
	body   []byte
}

// change alters a request.
type change func(*http.Request)

func header(name, value string) change {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

func key(value string) change { return header("Idempotency-Key", value) }

// ask sends a request: a body that is no string is sent as JSON.
func (s service) ask(method, path string, body any, changes ...change) answer {
	s.t.Helper()
	var sent []byte
	switch b := body.(type) {
	case nil:
	case string:
		sent = []byte(b)
	default:
		var err error
		if sent, err = json.Marshal(b); err != nil {
			s.t.Fatal(err)
		}
	}
	r := httptest.NewRequestWithContext(s.t.Context(), method, path, bytes.NewReader(sent))
	if len(sent) > 0 {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, alter := range changes {
		alter(r)
	}
	return s.send(r, sent)
}

// send sends a request whose body is known.
func (s service) send(r *http.Request, sent []byte) answer {
	s.t.Helper()
	w := httptest.NewRecorder()
	s.api.ServeHTTP(w, r)
	got, err := io.ReadAll(w.Result().Body)
	if err != nil {
		s.t.Fatal(err)
	}
	a := answer{s.t, fmt.Sprintf("%s %s %.200s", r.Method, r.URL, sent), w.Code, w.Result().Header, got}
	s.spec.check(a, r, sent)
	return a
}

// want fails the test unless the status is as given, and the body is the document, if one is
// given.
func (a answer) want(status int, document string) answer {
	a.t.Helper()
	if got := strings.TrimSpace(string(a.body)); a.status != status || document != "" && got != document {
		a.t.Errorf("%s: %d %s, want %d %s", a.what, a.status, got, status, document)
	}
	return a
}

// problem is a problem as a program reads it.
type problem struct {
	Type, Title  string
	Status       int
	Detail       string
	Code         string
	Hint         string
	Errors       []struct{ Location, Message string }
	Remaining    *int64 `json:"remaining_ms"`
	Metadata     string
	Fence, Value int64
	Missing      []string
}

// refused fails the test unless the answer is a problem of that status and code.
func (a answer) refused(status int, code string) problem {
	a.t.Helper()
	p := read[problem](a)
	if a.status != status || p.Code != code {
		a.t.Errorf("%s: %d %s, want %d with the code %s", a.what, a.status, bytes.TrimSpace(a.body), status, code)
	}
	return p
}

// read reads the document of an answer.
func read[T any](a answer) T {
	a.t.Helper()
	var doc T
	if err := json.Unmarshal(a.body, &doc); err != nil {
		a.t.Fatalf("%s: %d %q: %v", a.what, a.status, a.body, err)
	}
	return doc
}

// object is a JSON object in a request.
type object map[string]any
