package redistest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/info"
	"github.com/millrace/millrace/internal/redis/redisproc"
)

const (
	// waitTimeout is how long a helper waits for something that must happen.
	waitTimeout = 20 * time.Second

	// pollEvery is the first interval of a poll.
	pollEvery = 2 * time.Millisecond

	// pollSlowly is its longest interval.
	pollSlowly = 20 * time.Millisecond
)

// Options says how to run a server. The zero value is a private one on a unix socket,
// without persistence and without a memory limit.
type Options = redisproc.Config

// Server is one real server as one test sees it.
type Server struct {
	t      testing.TB
	proc   *redisproc.Proc
	shared bool
}

// Start runs a server of the test's own, which ends with the test.
func Start(t testing.TB, opts Options) *Server {
	t.Helper()
	return startAll(t, 1, opts)[0]
}

// Durable runs a server on TCP that writes each change to its disk before it answers, as a fleet's
// directory must.
func Durable(t testing.TB) *Server {
	t.Helper()
	return Start(t, Options{TCP: true, AOF: true, Args: []string{"--appendfsync", "always"}})
}

// startAll starts n servers at once.
func startAll(t testing.TB, n int, opts Options) []*Server {
	t.Helper()
	opts.Binary = Binary(t)
	servers := make([]*Server, n)
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { servers[i], errs[i] = launch(t, opts) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return servers
}

// Binary returns the server binary that tests run: MILLRACE_TEST_SERVER, else
// the one on PATH. Without one it skips the test, or fails it when CI is set.
func Binary(t testing.TB) string {
	t.Helper()
	path, err := redisproc.FindForTests()
	switch {
	case err == nil:
	case os.Getenv("CI") != "":
		t.Fatalf("this test needs a Redis server, and CI must not skip it: %v. %s", err, millrace.Hint(err))
	default:
		t.Skipf("this test needs a Redis server: %v. %s", err, millrace.Hint(err))
	}
	return path
}

// launch may be called by several goroutines of a test.
func launch(t testing.TB, cfg Options) (*Server, error) {
	proc, err := startProc(cfg)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		// Nothing is worth saving, and a kill is faster than a shutdown.
		if err := errors.Join(proc.Kill(), proc.Stop()); err != nil {
			t.Errorf("end of the test's server: %v", err)
		}
	})
	return &Server{t: t, proc: proc}, nil
}

func startProc(cfg Options) (*redisproc.Proc, error) {
	ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
	defer cancel()
	return redisproc.Start(ctx, cfg)
}

// Addr returns the path of the server's socket, or its host:port.
func (s *Server) Addr() string { return s.proc.Addr() }

// URL returns the address in rueidis.ParseURL's syntax.
func (s *Server) URL() string { return s.proc.URL() }

// PID returns the server's process id.
func (s *Server) PID() int { return s.proc.PID() }

// Client returns a client of the server, closed when the test ends. Each
// change may alter the options before the client is made.
func (s *Server) Client(t testing.TB, changes ...func(*rueidis.ClientOption)) rueidis.Client {
	t.Helper()
	c := newClient(t, rueidis.MustParseURL(s.URL()), changes)
	t.Cleanup(func() {
		s.proc.Resume() // a client's Close waits for the replies to its calls
		c.Close()
	})
	return c
}

// newClient makes a client with buffers that suit a test, and room for 128 commands on
// their way on each connection.
func newClient(t testing.TB, opt rueidis.ClientOption, changes []func(*rueidis.ClientOption)) rueidis.Client {
	t.Helper()
	opt.DisableCache = true
	opt.ReadBufferEachConn = 1 << 16
	opt.WriteBufferEachConn = 1 << 16
	opt.RingScaleEachConn = 7
	for _, change := range changes {
		change(&opt)
	}
	c, err := rueidis.NewClient(opt)
	if err != nil {
		t.Fatalf("client of %v: %v", opt.InitAddress, err)
	}
	return c
}

// Kill ends the server with SIGKILL and returns when it is gone.
func (s *Server) Kill() { s.hurt("Kill", s.proc.Kill) }

// Pause stops the server with SIGSTOP: connections stay, answers do not come.
func (s *Server) Pause() { s.hurt("Pause", s.proc.Pause) }

// Resume ends a Pause.
func (s *Server) Resume() { s.hurt("Resume", s.proc.Resume) }

// Restart starts the server again at the same address, having ended it if it
// runs, and returns when it answers.
func (s *Server) Restart() {
	s.hurt("Restart", func() error {
		ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
		defer cancel()
		return s.proc.Restart(ctx)
	})
}

// hurt does something to the server that other tests would notice. It may run in any
// goroutine, so it fails the test without ending it.
func (s *Server) hurt(what string, do func() error) {
	s.t.Helper()
	if s.shared {
		s.t.Errorf("%s of the shared server: a test that needs it takes a server of its own from Start", what)
		return
	}
	if err := do(); err != nil {
		s.t.Errorf("%s: %v", what, err)
	}
}

// Info returns a section of the server's INFO. It travels on a connection of
// its own.
func (s *Server) Info(section string) map[string]string {
	s.t.Helper()
	text, err := s.do("INFO", section)
	if err != nil {
		s.t.Errorf("INFO %s: %v", section, err)
	}
	return info.Parse(text)
}

// Knows reports whether the server has a command, named in lower case. Redis 6.2 lacks
// evalsha_ro.
func (s *Server) Knows(command string) bool {
	s.t.Helper()
	reply, err := s.do("COMMAND", "INFO", command)
	if err != nil {
		s.t.Errorf("COMMAND INFO %s: %v", command, err)
	}
	return strings.Contains(reply, command) // only the description of a command that is there names it
}

// alive reports whether the server's process runs.
func (s *Server) alive() bool {
	select {
	case <-s.proc.Done():
		return false
	default:
		return true
	}
}

// log returns the last bytes of the server's log.
func (s *Server) log(most int) []byte {
	text, err := os.ReadFile(filepath.Join(s.proc.Dir(), "server.log"))
	if err != nil {
		return []byte(err.Error())
	}
	return text[max(0, len(text)-most):]
}

// hostPort returns the two parts of a TCP server's address.
func (s *Server) hostPort() (host, port string) {
	host, port, err := net.SplitHostPort(s.Addr())
	if err != nil {
		s.t.Errorf("server on a socket where one on TCP is needed: %v", err)
	}
	return host, port
}

// seeds returns one URL for several TCP servers.
func seeds(servers []*Server, query map[string]string) string {
	values := url.Values{}
	for key, value := range query {
		values.Set(key, value)
	}
	for _, s := range servers[1:] {
		values.Add("addr", s.Addr())
	}
	return (&url.URL{Scheme: "redis", Host: servers[0].Addr(), RawQuery: values.Encode()}).String()
}

// do runs one command on a fresh connection and returns a text reply's text,
// any other reply as it came over the wire. It may run in any goroutine.
func (s *Server) do(args ...string) (string, error) {
	conn, err := s.dial()
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if _, err := conn.Write(appendRequest(nil, args)); err != nil {
		return "", err
	}
	reply, err := appendReply(nil, bufio.NewReader(conn))
	if err != nil {
		return "", err
	}
	switch reply[0] {
	case '-':
		return "", errors.New(string(bytes.TrimSpace(reply[1:])))
	case '+', ':':
		return string(bytes.TrimSpace(reply[1:])), nil
	case '$':
		_, text, _ := bytes.Cut(reply, []byte("\r\n"))
		return string(bytes.TrimSuffix(text, []byte("\r\n"))), nil
	default:
		return string(reply), nil
	}
}

// Eventually polls until cond holds and fails the test, with what in the message, if it
// does not within 20 seconds.
func Eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	if !poll(waitTimeout, cond) {
		t.Fatalf("after %v, still not: %s", waitTimeout, what)
	}
}

// poll waits until cond holds, and reports whether it did in time. The interval grows with
// the wait, so that polling does not slow down servers that take seconds to start.
func poll(waitTimeout time.Duration, cond func() bool) bool {
	began := time.Now()
	for !cond() {
		waited := time.Since(began)
		if waited > waitTimeout {
			return false
		}
		time.Sleep(min(max(waited/20, pollEvery), pollSlowly))
	}
	return true
}
