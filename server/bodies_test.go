package server_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/server"
)

// TestUnfinishedBodies has clients send all but the end of large bodies: the service holds a
// bounded part of them and refuses the others, and serves small requests meanwhile.
func TestUnfinishedBodies(t *testing.T) {
	t.Parallel()
	const clients, size, most = 100, 2 << 20, 48 << 20
	s := service(t, server.Config{Actions: true})
	base := front(t, s, func(*http.Server) {})
	var refused atomic.Int64
	bodies := make([]net.Conn, clients)
	for i := range bodies {
		bodies[i] = dialTCP(t, base)
		go func() {
			response, err := http.ReadResponse(bufio.NewReader(bodies[i]), nil)
			if err != nil {
				return // closed by this test
			}
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			if err != nil || response.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(body), `"code":"busy"`) || response.Header.Get("Retry-After") == "" {
				t.Errorf("an unfinished body is answered %d %s, %v, want 503 busy", response.StatusCode, body, err)
			}
			refused.Add(1)
		}()
		go func() {
			fmt.Fprintf(bodies[i], "POST /v1/queues/q/messages HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", size)
			io.WriteString(bodies[i], strings.Repeat(" ", size-1)) // or its connection ends
		}()
	}
	redistest.Eventually(t, "each body is held up to its end, or refused", func() bool {
		return s.HeldBodies() == (clients-refused.Load())*(size-1)
	})
	if held := s.HeldBodies(); held > most || held < most/4 || refused.Load() == 0 {
		t.Errorf("the service holds %d bytes and refuses %d, want at most %d bytes", held, refused.Load(), most)
	}
	small := "/v1/queues/" + redistest.Name(t) + "/messages"
	request := func(path, kind, body string) int {
		response, err := http.Post(base+path, kind, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		return response.StatusCode
	}
	if got := request(small, "application/json", `{"tenant":"acme","body":"`+strings.Repeat("x", 60<<10)+`"}`); got != http.StatusCreated {
		t.Errorf("a small request meanwhile is answered %d, want 201", got)
	}
	for _, conn := range bodies {
		conn.Close()
	}
	redistest.Eventually(t, "nothing is held", func() bool { return s.HeldBodies() == 0 })
	if got := request(small, "application/json", `{"tenant":"acme","body":"`+strings.Repeat("x", 512<<10)+`"}`); got != http.StatusCreated {
		t.Errorf("a large request afterwards is answered %d, want 201", got)
	}
}
