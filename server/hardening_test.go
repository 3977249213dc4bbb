package server_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/redistest"
	"github.com/millrace/millrace/server"
)

// dial opens a connection to a service, by hand.
func dial(t *testing.T, base string) net.Conn {
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
		slow[i] = dial(t, base)
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

// TestRawRequests sends what no client of good will does. Each is refused with a
// status of its own, or the connection ends; nothing is written.
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
			conn := dial(t, base)
			go io.WriteString(conn, tt.raw) // which may hang up in the middle
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
