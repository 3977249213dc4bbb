package server_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/server"
)

const (
	token    = "0123456789abcdef"
	password = "correct horse battery"
)

// service returns a service on the shared Redis.
func service(t *testing.T, cfg server.Config) *server.Server {
	t.Helper()
	cfg.Client = redistest.Shared(t).Client(t)
	s, err := server.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// answer sends a request, changed by each of the changes, past the network.
func answer(h http.Handler, method, target string, changes ...func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, http.NoBody)
	for _, change := range changes {
		change(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func with(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

// code returns the code of a problem.
func code(t *testing.T, response *httptest.ResponseRecorder) string {
	t.Helper()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	var problem struct{ Code string }
	if got, want := response.Header().Get("Content-Type"), "application/problem+json"; got != want {
		t.Errorf("Content-Type = %q, want %q: %s", got, want, body)
	} else if err := json.Unmarshal(body, &problem); err != nil {
		t.Errorf("problem %q: %v", body, err)
	}
	return problem.Code
}

// TestCredentials: no path answers without the right credentials.
func TestCredentials(t *testing.T) {
	t.Parallel()
	auth, err := server.ParseAuth("bearer " + token + "\nbasic ops:" + password)
	if err != nil {
		t.Fatal(err)
	}
	s := service(t, server.Config{Auth: auth})
	basic := func(user, password string) func(*http.Request) {
		return func(r *http.Request) { r.SetBasicAuth(user, password) }
	}
	for _, path := range []string{"/", "/v1/queues", "/openapi.json", "/metrics", "/nowhere"} {
		for name, change := range map[string]func(*http.Request){
			"nothing":             func(*http.Request) {},
			"another token":       with("Authorization", "Bearer "+token+"0"),
			"the start of it":     with("Authorization", "Bearer "+token[:8]),
			"no token":            with("Authorization", "Bearer"),
			"another scheme":      with("Authorization", "Digest "+token),
			"another password":    basic("ops", "wrong horse battery"),
			"another user":        basic("root", password),
			"the token as basic":  basic("bearer", token),
			"the basic as bearer": with("Authorization", "Bearer ops:"+password),
		} {
			response := answer(s, "GET", path, change)
			if response.Code != http.StatusUnauthorized || len(response.Header().Values("WWW-Authenticate")) != 2 {
				t.Errorf("%s with %s: %d %v, want 401 with two challenges", path, name, response.Code, response.Header())
				continue
			}
			if got := code(t, response); got != "unauthorized" {
				t.Errorf("%s with %s: code %q, want unauthorized", path, name, got)
			}
		}
		for name, change := range map[string]func(*http.Request){
			"the token":          with("Authorization", "Bearer "+token),
			"its scheme in caps": with("Authorization", "BEARER "+token),
			"the password":       basic("ops", password),
		} {
			if response := answer(s, "GET", path, change); response.Code == http.StatusUnauthorized {
				t.Errorf("%s with %s: 401", path, name)
			}
		}
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if response := answer(s, "GET", path); response.Code != http.StatusOK {
			t.Errorf("%s without credentials: %d, want 200: what watches has none", path, response.Code)
		}
	}
}

// TestRoles: each role does what it may, and the next one more; a client with a prefix sees only its own.
func TestRoles(t *testing.T) {
	t.Parallel()
	const secret = "0123456789abcdef"
	auth, err := server.ParseAuth("viewer bearer v" + secret + "\nworker bearer w" + secret + "\nbearer o" + secret + "\nworker acme-* bearer a" + secret)
	if err != nil {
		t.Fatal(err)
	}
	s := service(t, server.Config{Auth: auth})
	as := func(letter string) func(*http.Request) { return with("Authorization", "Bearer "+letter+secret) }
	json := with("Content-Type", "application/json")
	send := func(letter, method, path, body string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		as(letter)(r)
		json(r)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w
	}
	const message = `{"tenant":"t","body":"b"}`
	for _, queue := range []string{"acme-orders", "other"} {
		if w := send("o", "POST", "/v1/queues/"+queue+"/messages", message); w.Code != http.StatusCreated {
			t.Fatal(w.Code, w.Body)
		}
	}
	for _, tc := range []struct {
		method, path, body string
		may                string // the letters of those that may
	}{
		{"GET", "/v1/queues/acme-orders/stats", "", "vwoa"},
		{"GET", "/v1/queues/other/stats", "", "vwo"},
		{"POST", "/v1/queues/acme-orders/messages", message, "woa"},
		{"POST", "/v1/queues/other/receive", "{}", "wo"},
		{"POST", "/v1/leases/acme-nightly/acquire", `{"ttl":"1m"}`, "woa"},
		{"POST", "/v1/hashes/other/h/set", `{"fields":{"f":"v"}}`, "wo"},
		{"POST", "/v1/counters", `{"counts":{"acme-clicks":1}}`, "woa"},
		{"POST", "/v1/counters", `{"counts":{"acme-clicks":1,"other":1}}`, "wo"},
		{"POST", "/v1/counters", `{"counts":{"{\"base64\":\"b3RoZXI=\"}":1}}`, "wo"},
		{"GET", "/v1/counters?name=acme-clicks", "", "vwoa"},
		{"GET", "/v1/counters?name=acme-clicks&name=other", "", "vwo"},
		{"POST", "/v1/channels/acme-pages/work", `{"worker":"w","max":1}`, "woa"},
		{"POST", "/v1/channels/other/work", `{"worker":"w","max":1}`, "wo"},
		{"POST", "/v1/channels/acme-pages/resize", `{"size":2}`, "o"},
		{"POST", "/v1/pinned/acme-flags/f/set", `{"value":"v","ttl":"1m"}`, "woa"},
		{"GET", "/v1/trackers/acme-tasks/queued?id=a", "", "vwoa"},
		{"POST", "/v1/trackers/other/add", `{"ids":["a"]}`, "wo"},
		{"POST", "/v1/queues/acme-orders/pause", "", "o"},
		{"DELETE", "/v1/queues/other", "", "o"},
		{"GET", "/", "", "vwo"},
		{"GET", "/metrics", "", "vwo"},
		{"GET", "/v1/audit", "", "vwoa"},
	} {
		for _, letter := range []string{"v", "w", "a", "o"} {
			w := send(letter, tc.method, tc.path, tc.body)
			if may := strings.Contains(tc.may, letter); may == (w.Code == http.StatusForbidden) {
				t.Errorf("%s %s of %s: %d %s, want that it may: %v", tc.method, tc.path, letter, w.Code, w.Body, may)
			} else if !may && code(t, w) != "forbidden" {
				t.Errorf("%s %s of %s is refused with another code", tc.method, tc.path, letter)
			}
		}
	}
	for _, letter := range []string{"v", "a"} {
		names := send(letter, "GET", "/v1/queues", "").Body.String()
		if !strings.Contains(names, "acme-orders") || strings.Contains(names, "other") && letter == "a" {
			t.Errorf("the queues of %s are %s", letter, names)
		}
		actions := send(letter, "GET", "/v1/audit", "").Body.String()
		if !strings.Contains(actions, "acme-orders") || strings.Contains(actions, "other") != (letter == "v") {
			t.Errorf("the audit log of %s is %s", letter, actions)
		}
	}
}

// TestPagesOfOthers: requests that a page of another site makes are refused, and those of the own pages are not.
func TestPagesOfOthers(t *testing.T) {
	t.Parallel()
	s := service(t, server.Config{Actions: true})
	for _, tt := range []struct {
		method, path string
		header, says string
		refused      bool
	}{
		{"POST", "/v1/queues/orders/messages", "Sec-Fetch-Site", "cross-site", true},
		{"POST", "/v1/queues/orders/messages", "Sec-Fetch-Site", "same-site", true},
		{"POST", "/v1/queues/orders/messages", "Origin", "https://evil.example", true},
		{"DELETE", "/v1/queues/orders", "Origin", "https://evil.example", true},
		{"GET", "/v1/queues/orders/browse", "Sec-Fetch-Site", "cross-site", true},
		{"GET", "/v1/queues/orders/browse", "Sec-Fetch-Site", "same-site", true},
		{"GET", "/v1/queues/orders/browse", "Sec-Fetch-Site", "same-origin", false},
		{"GET", "/v1/queues/orders/browse", "Sec-Fetch-Site", "none", false},
		{"GET", "/", "Sec-Fetch-Site", "cross-site", false}, // a link
		{"POST", "/v1/queues/orders/ack", "Origin", "http://example.com", false},
		// Over plain HTTP to another machine browsers send no Sec-Fetch-Site.
		{"GET", "/v1/queues/orders/browse", "Origin", "http://evil.example", true},
		{"GET", "/v1/queues/orders/browse", "Origin", "null", true},
		{"GET", "/v1/queues/orders/browse", "Referer", "http://evil.example/page", true},
		{"GET", "/v1/queues/orders/browse", "Referer", "http://example.com:8421/", true}, // another port
		{"GET", "/v1/queues/orders/browse", "Referer", "http://Example.com/queues", false},
		{"POST", "/queues/orders/pause", "Referer", "http://evil.example/page", true},
		{"GET", "/", "Referer", "http://evil.example/page", false}, // a link
	} {
		response := answer(s, tt.method, tt.path, with(tt.header, tt.says))
		if got := response.Code == http.StatusForbidden; got != tt.refused {
			t.Errorf("%s %s with %s: %s: %d, refused %v, want %v", tt.method, tt.path, tt.header, tt.says, response.Code, got, tt.refused)
		}
		if tt.refused {
			if got := code(t, response); got != "cross_origin" {
				t.Errorf("%s %s: code %q, want cross_origin", tt.method, tt.path, got)
			}
		}
	}
	// Behind a proxy that sends another Host, Sec-Fetch-Site counts.
	proxied := answer(s, "POST", "/v1/queues/orders/ack", with("Sec-Fetch-Site", "same-origin"), with("Origin", "https://mill.example"))
	if proxied.Code == http.StatusForbidden {
		t.Errorf("our own page behind a proxy: %d: %s", proxied.Code, proxied.Body)
	}
}

// TestNamesOfOthers has a foreign host name resolve to this server, as its owner can
// arrange: a browser would then treat this server as that host's own site.
func TestNamesOfOthers(t *testing.T) {
	t.Parallel()
	s := service(t, server.Config{Hosts: []string{"localhost", "127.0.0.1", "::1"}})
	for host, want := range map[string]int{
		"localhost:8420": http.StatusOK, "127.0.0.1:8420": http.StatusOK, "[::1]:8420": http.StatusOK, "LOCALHOST": http.StatusOK,
		"evil.example:8420": http.StatusMisdirectedRequest, "127.0.0.1.evil.example": http.StatusMisdirectedRequest,
		"": http.StatusMisdirectedRequest,
	} {
		response := answer(s, "GET", "/v1/queues", func(r *http.Request) { r.Host = host })
		if response.Code != want {
			t.Errorf("asked for as %q: %d, want %d", host, response.Code, want)
		}
	}
}

func TestPrefix(t *testing.T) {
	t.Parallel()
	s := service(t, server.Config{Prefix: "/mill"})
	for path, want := range map[string]int{
		"/mill/": 200, "/mill/healthz": 200, "/mill/v1/queues": 200, "/mill/openapi.json": 200, "/mill/metrics": 200,
		"/": 404, "/v1/queues": 404, "/millrace": 404,
	} {
		if response := answer(s, "GET", path); response.Code != want {
			t.Errorf("%s: %d, want %d", path, response.Code, want)
		}
	}
	page, err := io.ReadAll(answer(s, "GET", "/mill/").Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, attribute := range []string{`href="/`, `src="/`, `action="/`} {
		all := strings.Count(string(page), attribute)
		if below := strings.Count(string(page), attribute+"mill/"); below != all {
			t.Errorf("%d of %d times %s is below the prefix", below, all, attribute)
		}
	}
	for _, prefix := range []string{"mill", "/mill/", "/"} {
		if _, err := server.New(server.Config{Client: redistest.Shared(t).Client(t), Prefix: prefix}); err == nil {
			t.Errorf("the prefix %q was taken", prefix)
		}
	}
}

func TestReady(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, redistest.Options{})
	s, err := server.New(server.Config{Client: redis.Client(t)})
	if err != nil {
		t.Fatal(err)
	}
	want := func(when string, healthz, readyz int) {
		t.Helper()
		if got := answer(s, "GET", "/healthz").Code; got != healthz {
			t.Errorf("%s: /healthz %d, want %d", when, got, healthz)
		}
		if got := answer(s, "GET", "/readyz").Code; got != readyz {
			t.Errorf("%s: /readyz %d, want %d", when, got, readyz)
		}
	}
	want("while Redis runs", 200, 200)
	redis.Kill()
	want("while Redis is away", 200, 503)
	redis.Restart()
	redistest.Eventually(t, "ready again", func() bool { return answer(s, "GET", "/readyz").Code == 200 })
	s.Drain()
	want("while it drains", 200, 503)
}
