package redistest

import (
	"bufio"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Pipeline is many commands as they go over the wire. They are put together before the
// moment in which they matter, so that sending them costs a test next to nothing. The
// zero value has none.
type Pipeline struct {
	raw   []byte
	count int
}

// Add adds a command.
func (p *Pipeline) Add(words ...string) {
	p.raw = appendRequest(p.raw, words)
	p.count++
}

// Send sends all commands over a connection of its own and waits for the replies. It
// fails the test for errors among them, and shows the first.
func (p *Pipeline) Send(t testing.TB, s *Server) {
	t.Helper()
	conn, err := s.dial()
	if err != nil {
		t.Errorf("pipeline of %d commands: %v", p.count, err)
		return
	}
	defer conn.Close()
	sent := make(chan error, 1)
	go func() { // while replies are read, so that neither side waits for the other
		_, err := conn.Write(p.raw)
		sent <- err
	}()
	in := bufio.NewReaderSize(conn, 1<<16)
	var reply []byte
	first, errs := "", 0
	for i := range p.count {
		if reply, err = appendReply(reply[:0], in); err != nil {
			t.Errorf("reply %d of %d: %v", i+1, p.count, err)
			break
		}
		if reply[0] == '-' {
			if errs++; errs == 1 {
				first = strings.TrimSpace(string(reply))
			}
		}
	}
	if err != nil {
		_ = conn.Close() // which ends the sending
	}
	if err := <-sent; err != nil {
		t.Errorf("pipeline of %d commands: %v", p.count, err)
	}
	if errs > 0 {
		t.Errorf("%d of %d replies are errors, the first one %s", errs, p.count, first)
	}
}

// dial opens a connection to the server, for as long as a helper waits.
func (s *Server) dial() (net.Conn, error) {
	network := "unix"
	if !strings.HasPrefix(s.URL(), "unix:") {
		network = "tcp"
	}
	conn, err := net.DialTimeout(network, s.Addr(), waitTimeout)
	if err != nil {
		return nil, err
	}
	if err := conn.SetDeadline(time.Now().Add(waitTimeout)); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// appendRequest appends a command to dst.
func appendRequest(dst []byte, words []string) []byte {
	dst = append(dst, '*')
	dst = strconv.AppendInt(dst, int64(len(words)), 10)
	dst = append(dst, "\r\n"...)
	for _, word := range words {
		dst = append(dst, '$')
		dst = strconv.AppendInt(dst, int64(len(word)), 10)
		dst = append(dst, "\r\n"...)
		dst = append(dst, word...)
		dst = append(dst, "\r\n"...)
	}
	return dst
}
