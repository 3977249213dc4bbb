package api_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/jsontype"
	"github.com/millrace/millrace/internal/ops"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/server/internal/api"
)

// TestNames: a path can contain any name that a structure can have.
func TestNames(t *testing.T) {
	t.Parallel()
	s := serve(t, api.Config{})
	for _, part := range []string{"a/b", "/", "a//b/", " ", "100%", "%2F", "größer", "日本", "\xff\xfe", "a?b#c", "a+b&c=d;e", "..a", "...", `"\`, "stats", "messages"} {
		name := redistest.Name(t) + part
		path := "/v1/queues/" + url.PathEscape(name)
		s.ask("POST", path+"/messages", object{"tenant": jsontype.Text(part), "body": "b"}).want(201, "")
		if got := read[ops.QueueStats](s.ask("GET", path+"/stats", nil).want(200, "")).Name; string(got) != name {
			t.Errorf("queue %q is %q in its stats", name, got)
		}
		query := "?tenant=" + url.QueryEscape(part)
		if got := s.ask("GET", path+"/browse?tenant="+url.QueryEscape(part), nil).want(200, ""); !strings.Contains(string(got.body), `"body":"b"`) {
			t.Errorf("nothing of the tenant %q in %s", part, got.body)
		}
		s.ask("GET", path+"/stats"+query, nil).refused(400, "bad_request") // which has no tenant
		if got := read[ops.Queues](s.ask("GET", "/v1/queues", nil).want(200, "")).Queues; !slices.Contains(got, jsontype.Text(name)) {
			t.Errorf("%q is not among the queues", name)
		}
		s.ask("DELETE", path, nil).want(200, "")
	}
	for _, name := range []string{"a\x00b", "a\nb", "{a}", strings.Repeat("n", 600)} {
		s.ask("POST", "/v1/queues/"+url.PathEscape(name)+"/messages", object{"tenant": "a"}).refused(400, "bad_name")
	}
	s.ask("POST", "/v1/icks/"+url.PathEscape("{tag}:"+redistest.Name(t))+"/marks", object{"members": []string{"a"}}).want(200, "")
}

// TestPathTricks: a path never reaches another resource than the one it names, and
// never redirects.
func TestPathTricks(t *testing.T) {
	t.Parallel()
	s := serve(t, api.Config{})
	for path, code := range map[string]string{
		"/v1/queues/../icks":              "bad_path",
		"/v1/queues/%2e%2e/icks":          "bad_path",
		"/v1/queues/%2E%2E/stats":         "bad_path",
		"/v1/queues/./stats":              "bad_path",
		"/v1/queues/%2e/stats":            "bad_path",
		"/v1//queues":                     "bad_path",
		"//v1/queues":                     "bad_path",
		"/v1/queues//stats":               "bad_path",
		"/v1/queues/":                     "bad_path",
		"/v1/queues/a/stats/..":           "bad_path",
		"/v1/queues/a/stats/%2e%2e/stats": "bad_path",
		"/v1":                             "not_found",
		"/":                               "bad_path",
		"/v1/queues/a":                    "method_not_allowed",
		"/v1/queues/a/nothing":            "not_found",
		"/v1/queues/a%2Fstats":            "method_not_allowed",
		"/v2/queues":                      "not_found",
		"/openapi.yaml":                   "not_found",
		"/docs":                           "not_found",
		"/schemas/Text.json":              "not_found",
	} {
		status := map[string]int{"bad_path": 400, "not_found": 404, "method_not_allowed": 405}[code]
		got := s.ask("GET", path, nil)
		got.refused(status, code)
		if got.header.Get("Location") != "" {
			t.Errorf("%s is sent to %s", path, got.header.Get("Location"))
		}
	}
}

// TestMethods: a path refuses other methods and names its own; a GET of receive is one of them.
func TestMethods(t *testing.T) {
	t.Parallel()
	s := serve(t, api.Config{})
	for _, tt := range []struct{ method, path, allow string }{
		{"GET", "/v1/queues/a/messages", "POST"},
		{"GET", "/v1/queues/a/receive", "POST"}, // it would take messages
		{"HEAD", "/v1/queues/a/receive", "POST"},
		{"OPTIONS", "/v1/queues", "GET, HEAD"},
		{"POST", "/v1/queues", "GET, HEAD"},
		{"PATCH", "/v1/hashes/a/b", "DELETE, GET, HEAD"},
		{"get", "/v1/queues", "GET, HEAD"},
	} {
		got := s.ask(tt.method, tt.path, nil)
		got.refused(405, "method_not_allowed")
		if allow := got.header.Get("Allow"); allow != tt.allow {
			t.Errorf("%s %s: allowed are %q, want %q", tt.method, tt.path, allow, tt.allow)
		}
	}
	for _, path := range []string{"/v1/queues", "/openapi.json"} {
		if got := s.ask("HEAD", path, nil); got.status != 200 {
			t.Errorf("%s: %d, want 200", got.what, got.status)
		}
	}
}

// TestStrictRequests sends requests that a lenient reader would accept or correct.
func TestStrictRequests(t *testing.T) {
	t.Parallel()
	s := serve(t, api.Config{MaxBody: 1000})
	q := "/v1/queues/" + redistest.Name(t)
	for _, tt := range []struct {
		name, body, code string
		location         string
	}{
		{"no body", "", "bad_request", ""},
		{"no JSON", "tenant=a", "bad_request", ""},
		{"half a document", `{"tenant":"a"`, "bad_request", ""},
		{"two documents", `{"tenant":"a"}{"tenant":"b"}`, "bad_request", ""},
		{"something behind", `{"tenant":"a"} x`, "bad_request", ""},
		{"no object", `["a"]`, "bad_request", "body"},
		{"null", `null`, "bad_request", "body"},
		{"null for none", `{"tenant":"a","delay":null}`, "bad_request", "body.delay"},
		{"other letters", `{"Tenant":"a"}`, "bad_request", "body.Tenant"},
		{"other letters besides", `{"tenant":"a","TENANT":"b"}`, "bad_request", "body.TENANT"},
		{"a name twice", `{"tenant":"a","tenant":"b"}`, "bad_request", "body.tenant"},
		{"a name twice below", `{"tenant":"a","headers":{"k":"1","k":"2"}}`, "bad_request", "body.headers.k"},
		{"a name nobody knows", `{"tenant":"a","delya":"1s"}`, "bad_request", "body.delya"},
		{"no tenant", `{"body":"a"}`, "bad_request", "body"},
		{"a number", `{"tenant":17}`, "bad_request", "body.tenant"},
		{"an object for text", `{"tenant":"a","body":{"order":17}}`, "bad_request", "body.body"},
		{"no base64", `{"tenant":"a","body":{"base64":"?"}}`, "bad_request", "body.body"},
		{"bad base64", `{"tenant":"a","body":{"base64":"YQ"}}`, "bad_request", "body"},
		{"no duration", `{"tenant":"a","delay":"soon"}`, "bad_request", "body.delay"},
		{"a number for a duration", `{"tenant":"a","delay":60}`, "bad_request", "body.delay"},
		{"a negative duration", `{"tenant":"a","delay":"-1s"}`, "bad_request", "body.delay"},
		{"too long a duration", `{"tenant":"a","delay":"99999999999h"}`, "bad_request", "body"},
		{"a fraction", `{"tenant":"a","streams":1.5}`, "bad_request", "body.streams"},
		{"a large number", `{"tenant":"a","streams":1e999}`, "bad_request", "body"},
		{"too many", `{"tenant":"a","streams":1025}`, "bad_request", "body.streams"},
		{"no UTF-8", "{\"tenant\":\"a\",\"body\":\"\xff\"}", "bad_utf8", ""},
		{"UTF-8 of a surrogate", "{\"tenant\":\"a\",\"body\":\"\xed\xa0\x80\"}", "bad_utf8", ""},
		{"half a pair", `{"tenant":"a","body":"\ud800"}`, "bad_utf8", ""},
		{"the other half", `{"tenant":"a","body":"\uDC00"}`, "bad_utf8", ""},
		{"two first halves", `{"tenant":"a","body":"\ud800\ud800"}`, "bad_utf8", ""},
		{"nested deeply", `{"tenant":` + strings.Repeat("[", 15) + "1" + strings.Repeat("]", 15) + "}", "bad_request", "body.tenant"},
		{"nested too deeply", `{"tenant":` + strings.Repeat("[", 16) + "1" + strings.Repeat("]", 16) + "}", "bad_request", "body.tenant" + strings.Repeat("[0]", 15)},
		{"nested objects", `{"tenant":` + strings.Repeat(`{"a":`, 100), "bad_request", "body.tenant" + strings.Repeat(".a", 15)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := s.in(t)
			p := s.ask("POST", q+"/messages", tt.body).refused(400, tt.code)
			if p.Hint == "" || strings.Contains(p.Detail, "Go ") || strings.Contains(p.Detail, "struct") {
				t.Errorf("problem %+v, want a hint, and nothing of Go", p)
			}
			if tt.location != "" && (len(p.Errors) != 1 || p.Errors[0].Location != tt.location) {
				t.Errorf("errors %+v, want one at %s", p.Errors, tt.location)
			}
		})
	}
	for name, tt := range map[string]struct {
		path   string
		change change
		status int
		code   string
	}{
		"too large":             {"/messages", func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader(strings.Repeat(" ", 2000))) }, 413, "too_large"},
		"too large, and said":   {"/messages", func(r *http.Request) { r.ContentLength = 1001 }, 413, "too_large"},
		"no media type":         {"/messages", header("Content-Type", ""), 415, "media_type"},
		"another media type":    {"/messages", header("Content-Type", "text/plain"), 415, "media_type"},
		"a form":                {"/messages", header("Content-Type", "application/x-www-form-urlencoded"), 415, "media_type"},
		"another charset":       {"/messages", header("Content-Type", "application/json; charset=latin1"), 415, "media_type"},
		"an unknown parameter":  {"/messages?max=1", func(*http.Request) {}, 400, "bad_request"},
		"a query of no form":    {"/messages?a=%zz", func(*http.Request) {}, 400, "bad_request"},
		"a GET with a body":     {"/stats", func(r *http.Request) { r.Method = "GET" }, 400, "bad_request"},
		"a client that is gone": {"/messages", func(r *http.Request) { r.Body = io.NopCloser(brokenReader{}) }, 400, "bad_request"},
	} {
		t.Run(name, func(t *testing.T) {
			s.in(t).ask("POST", q+tt.path, object{"tenant": "a"}, tt.change).refused(tt.status, tt.code)
		})
	}
	s.ask("GET", q+"/browse?tenant=a&tenant=b", nil).refused(400, "bad_request")
	s.ask("GET", q+"/stats", nil).refused(404, "not_found") // nothing was written

	for _, fine := range []string{
		`{"tenant":"a","body":"\ud83d\ude00 \\ud800 \u0000"}`, " {\"tenant\" : \"a\"}\r\n", `{"tenant":"a","headers":{"k":"1","K":"2"}}`, `{"tenant":"a","body":{"base64":""}}`,
	} {
		s.ask("POST", q+"/messages", fine, header("Content-Type", "Application/JSON; charset=UTF-8"), header("Accept", "text/html")).want(201, "")
	}
	if got := s.take(q, object{"max": 10}); !slices.ContainsFunc(got, func(m ops.Message) bool { return m.Body == "\U0001f600 \\ud800 \x00" }) {
		t.Errorf("read %+v, want the text with its pair", got)
	}
}

// TestProblemsAreShort: a problem does not repeat the whole of a wrong value, and does
// not list all wrong values.
func TestProblemsAreShort(t *testing.T) {
	t.Parallel()
	s := serve(t, api.Config{})
	q := "/v1/queues/" + redistest.Name(t)
	long, headers := strings.Repeat("A", 1<<16)+"A", make(map[string]int)
	for i := range 1000 {
		headers[fmt.Sprint(i)] = i
	}
	for name, tt := range map[string]struct {
		path string
		body any
		most int // bytes of the answer
	}{
		"no base64":       {"/messages", object{"tenant": "a", "body": object{"base64": long}}, 700},
		"no duration":     {"/messages", object{"tenant": "a", "delay": strings.Repeat("9", 1<<16) + "h"}, 700},
		"no receipt":      {"/ack", object{"receipts": []string{long}}, 2000},
		"no id":           {"/cancel", object{"ids": []string{"x" + strings.Repeat("ü", 1<<16)}}, 2000},
		"no field":        {"/messages", object{"tenant": "a", long: 1}, 4000},
		"no field either": {"/messages", object{"tenant": "a", "headers": object{long: 1}}, 4000},
		"no messages":     {"/messages/batch", `{"messages":[` + strings.Repeat("1,", 1<<14) + "1]}", 1000},
		"no headers":      {"/messages", object{"tenant": "a", "headers": headers}, 15_000},
	} {
		got := s.ask("POST", q+tt.path, tt.body)
		if p := read[problem](got); got.status != 400 || len(got.body) > tt.most || strings.Contains(p.Detail, "\ufffd") {
			t.Errorf("%s: %d with %d bytes, want 400 with %d at most: %.300s", name, got.status, len(got.body), tt.most, got.body)
		}
	}
}

// brokenReader is the body of a client that goes.
type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// TestSlowBody: a client that sends a byte now and then is refused in time, and so is
// one that sends nothing; others are served meanwhile.
func TestSlowBody(t *testing.T) {
	t.Parallel()
	s := serve(t, api.Config{BodyTimeout: 200 * time.Millisecond})
	base := s.listen()
	for _, sends := range []string{"{", ""} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "POST /v1/queues/q/messages HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n%s", sends)
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("no answer: %v", err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != http.StatusRequestTimeout || !strings.Contains(string(body), `"slow_body"`) || !response.Close {
			t.Errorf("a slow body is answered %d %s (closes: %v), %v", response.StatusCode, body, response.Close, err)
		}
	}
}

// TestWaitsLongerThanTheBody: the timeout of a body does not limit how long a request waits.
func TestWaitsLongerThanTheBody(t *testing.T) {
	t.Parallel()
	s := serve(t, api.Config{BodyTimeout: 100 * time.Millisecond})
	base, name := s.listen(), redistest.Name(t)
	held := read[ops.Acquired](s.ask("POST", "/v1/leases/"+name+"/acquire", object{"ttl": "1h"}).want(200, ""))
	go func() {
		time.Sleep(500 * time.Millisecond) // longer than a body may take
		s.ask("POST", "/v1/leases/"+name+"/release", object{"token": held.Token}).want(200, "")
	}()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/v1/leases/"+name+"/acquire", strings.NewReader(`{"ttl":"1h","wait":"30s"}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", name)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if body, err := io.ReadAll(response.Body); err != nil || response.StatusCode != http.StatusOK {
		t.Errorf("acquired: %d %s, %v", response.StatusCode, body, err)
	}
}
