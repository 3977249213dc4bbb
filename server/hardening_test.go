package server_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/server"
)

// dial opens a connection to a service, by hand.
func dialTCP(t *testing.T, base string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// TestSlowHeader has clients send a header a byte a second: they are cut off after
// some seconds, and others are served all the time.
func TestSlowHeader(t *testing.T) {
	t.Parallel()
	base := start(t, server.Config{Client: redistest.Shared(t).Client(t)})
	slow := make([]net.Conn, 50)
	for i := range slow {
		slow[i] = dialTCP(t, base)
		fmt.Fprint(slow[i], "GET /v1/queues HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
	}
	if got := get(t, base+"/v1/queues"); got != http.StatusOK {
		t.Errorf("beside slow clients: %d, want 200", got)
	}
	begun := time.Now()
	for _, conn := range slow {
		if answer, err := io.ReadAll(conn); err != nil {
			t.Fatalf("a slow client is still connected after %s: %q, %v", time.Since(begun), answer, err)
		}
	}
}

// front serves with limits that are not the service's own, but as change has them,
// and returns the URL.
func front(t *testing.T, s *server.Server, change func(*http.Server)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	quick := &httptest.Server{Listener: listener, Config: s.HTTPServer()}
	change(quick.Config)
	quick.Start()
	t.Cleanup(quick.Close)
	return quick.URL
}

// TestBodyThatNobodyReads has clients announce bodies that they do not send, in
// requests that are refused before their body is read: the server ends these
// connections, and not the one of a long poll.
func TestBodyThatNobodyReads(t *testing.T) {
	t.Parallel()
	auth, err := server.ParseAuth("bearer " + token)
	if err != nil {
		t.Fatal(err)
	}
	base := front(t, service(t, server.Config{Auth: auth}), func(s *http.Server) { s.ReadTimeout /= 200 })
	const known, half = "Authorization: Bearer " + token + "\r\n", "Host: localhost\r\nContent-Length: 100\r\n\r\n{"
	for name, raw := range map[string]string{
		"401":           "POST /v1/queues/q/messages HTTP/1.1\r\n" + half,
		"403":           "POST /v1/queues/q/messages HTTP/1.1\r\n" + known + "Sec-Fetch-Site: cross-site\r\n" + half,
		"404":           "POST /v1/nowhere HTTP/1.1\r\n" + known + half,
		"415":           "POST /v1/queues/q/messages HTTP/1.1\r\n" + known + half,
		"400 of a GET":  "GET /v1/queues HTTP/1.1\r\n" + known + half,
		"200 of health": "POST /healthz HTTP/1.1\r\n" + half,
	} {
		conn := dialTCP(t, base)
		fmt.Fprint(conn, raw)
		if answer, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 "+name[:3]) {
			t.Fatalf("%s: %.80q, %v, want the answer and the end of the connection", name, answer, err)
		}
	}

	conn := dialTCP(t, base)
	const long = `{"block":"500ms"}`
	fmt.Fprintf(conn, "POST /v1/queues/%s/receive HTTP/1.1\r\nHost: localhost\r\n%sContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", redistest.Name(t), known, len(long), long)
	if answer, err := io.ReadAll(conn); err != nil || !strings.Contains(string(answer), `"messages":[]`) {
		t.Errorf("a long poll: %q, %v, want no messages", answer, err)
	}
}

// TestAnswerThatNobodyReads has a client ask for more than it reads: the handler of the
// request ends.
func TestAnswerThatNobodyReads(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	s := service(t, server.Config{Wrap: func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for line := make([]byte, 1<<20); ; {
				if _, err := w.Write(line); err != nil {
					ended <- err
					return
				}
			}
		})
	}})
	base := front(t, s, func(s *http.Server) { s.WriteTimeout /= 200 })
	fmt.Fprint(dialTCP(t, base), "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
	select {
	case err := <-ended:
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the answer ends with %v, want its deadline", err)
		}
	case <-time.After(20 * time.Second):
		t.Error("the answer is written still, to somebody who does not read")
	}
}

// TestStreamOutlivesAnswers: a page's stream goes on for longer than an answer may
// take.
func TestStreamOutlivesAnswers(t *testing.T) {
	t.Parallel()
	s := service(t, server.Config{})
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- s.Run(ctx) }()
	defer func() { stop(); <-ran }()
	base := front(t, s, func(s *http.Server) { s.ReadTimeout, s.WriteTimeout = s.ReadTimeout/200, s.WriteTimeout/200 })
	begun := time.Now()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/live/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	for events := bufio.NewScanner(response.Body); time.Since(begun) < 1200*time.Millisecond; {
		if !events.Scan() {
			t.Fatalf("the stream ended after %s: %v", time.Since(begun), events.Err())
		}
	}
}

func get(t *testing.T, url string) int {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	return response.StatusCode
}

// TestRawRequests sends malformed requests. The server answers each with its own
// status or ends the connection; it writes nothing.
func TestRawRequests(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, redistest.Options{})
	base := start(t, server.Config{Client: redis.Client(t)})
	post := func(path, body string) string {
		return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
			path, len(body), body)
	}
	message := `{"tenant":"a","body":"b"}`
	for name, tt := range map[string]struct {
		raw  string
		want []int
	}{
		"a huge header":          {"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 200<<10) + "\r\n\r\n", []int{431}},
		"a huge body, said":      {"POST /v1/queues/q/messages HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99999999999\r\n\r\n{", []int{413}},
		"bytes that are no text": {post("/v1/queues/q/messages", "{\"tenant\":\"a\",\"body\":\"\xff\"}"), []int{400}},
		"two documents":          {post("/v1/queues/q/messages", message+message), []int{400}},
		"no document":            {post("/v1/queues/q/messages", ""), []int{400}},
		"half a document":        {post("/v1/queues/q/messages", `{"tenant":"a",`), []int{400}},
		"a field nobody knows":   {post("/v1/queues/q/messages", `{"tenant":"a","body":"b","delya":"1s"}`), []int{400}},
		"deep nesting":           {post("/v1/queues/q/messages", strings.Repeat("[", 100_000)), []int{400}},
		"a path upwards":         {post("/v1/queues/../queues/q/messages", message), []int{400}},
		"an encoded path up":     {post("/v1/queues/%2e%2e/messages/%2e%2e", message), []int{400, 404, 405}},
		"a double slash":         {post("//v1/queues/q/messages", message), []int{400, 404, 405}},
		"a zero byte":            {post("/v1/queues/a%00b/messages", message), []int{400}},
		"a bad escape":           {post("/v1/queues/%zz/messages", message), []int{400}},
		"an absolute address":    {post("http://evil.example/v1/queues/../../etc/passwd", message), []int{400, 404, 405}},
		"no host":                {"GET /v1/queues HTTP/1.1\r\n\r\n", []int{400}},
		"another protocol":       {"SET key value\r\n\r\n", []int{400}},
		"two lengths":            {"POST /v1/queues/q/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello", []int{400}},
		"a length and chunks":    {"POST /v1/queues/q/messages HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", []int{400}},
		"a long name":            {post("/v1/queues/"+strings.Repeat("n", 600)+"/messages", message), []int{400}},
	} {
		t.Run(name, func(t *testing.T) {
			conn := dialTCP(t, base)
			go func() {
				io.WriteString(conn, tt.raw) // which may hang up in the middle
				if tcp, ok := conn.(*net.TCPConn); ok {
					tcp.CloseWrite() // a service that waits for more answers at once
				}
			}()
			response, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatalf("no answer: %v", err)
			}
			defer response.Body.Close()
			ok := false
			for _, status := range tt.want {
				ok = ok || status == response.StatusCode
			}
			if !ok {
				body, _ := io.ReadAll(response.Body)
				t.Errorf("%d, want one of %v: %s", response.StatusCode, tt.want, body)
			}
		})
	}
	c := redis.Client(t)
	if keys, err := c.Do(t.Context(), c.B().Keys().Pattern("mr:queue*").Build()).AsStrSlice(); err != nil || len(keys) > 0 {
		t.Errorf("Redis holds %v, %v, want no queue", keys, err)
	}
}
