package millracetest

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/dial"
	"github.com/millrace/millrace/internal/redis/redisproc"
)

// The kinds of a [Server]. Without an installed server, Real skips the test, or fails it if the
// environment has CI set.
const (
	Any  = ""          // a real server if one is installed, else miniredis
	Real = "real"      // redis-server or valkey-server
	Mini = "miniredis" // an imitation in this process, whose clock a test can move
)

// Server is the Redis of one test. It is empty at first, and ends with the test.
type Server struct {
	Client rueidis.Client // closed when the test ends
	URL    string         // for programs that connect by themselves
	Kind   string         // Real or Mini

	t    testing.TB
	mini *miniredis.Miniredis // nil if Kind is Real

	mu  sync.Mutex
	now time.Time // of a clock that is stopped; zero while it goes
}

// Redis returns a client of an empty Redis that only this test has. It is [Start] for tests that
// need no more.
func Redis(t testing.TB) rueidis.Client {
	t.Helper()
	return Start(t, Any).Client
}

// startTimeout is how long a server may take to start.
const startTimeout = 30 * time.Second

// sayOnce logs once in a test binary that there is no real server.
var sayOnce sync.Once

// Start starts a Redis of that kind for this test. A real server is a process of its own: the one that the
// environment variable MILLRACE_TEST_SERVER names, else redis-server or valkey-server on PATH.
// It takes some 10 ms. Parallel tests do not see each other.
//
// The server ends with the test. On Linux the kernel ends it if the test binary dies.
func Start(t testing.TB, kind string) *Server {
	t.Helper()
	s := &Server{t: t}
	switch kind {
	case Any, Real:
		binary, err := redisproc.FindForTests()
		switch {
		case err == nil:
			s.startReal(binary)
		case kind == Any:
			sayOnce.Do(func() { t.Logf("millracetest uses miniredis, an imitation: %v", err) })
			s.startMini()
		case os.Getenv("CI") != "":
			t.Fatalf("this test needs a real Redis server: %v. %s", err, millrace.Hint(err))
		default:
			t.Skipf("this test needs a real Redis server: %v. %s", err, millrace.Hint(err))
		}
	case Mini:
		s.startMini()
	default:
		t.Fatalf("there is no kind %q of server: use Any, Real or Mini", kind)
	}
	s.connect()
	return s
}

func (s *Server) startReal(binary string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	proc, err := redisproc.Start(ctx, redisproc.Config{Binary: binary})
	if err != nil {
		s.t.Fatalf("start a Redis server: %v", err)
	}
	s.t.Cleanup(func() {
		// Nothing is worth saving, and a kill is faster than a shutdown.
		if err := errors.Join(proc.Kill(), proc.Stop()); err != nil {
			s.t.Errorf("end of the test's Redis server: %v", err)
		}
	})
	s.Kind, s.URL = Real, proc.URL()
}

func (s *Server) startMini() {
	s.t.Helper()
	s.mini = miniredis.NewMiniRedis()
	s.mini.ClockTTL(true)
	if err := s.mini.Start(); err != nil {
		s.t.Fatalf("start miniredis: %v", err)
	}
	s.t.Cleanup(s.mini.Close)
	s.mini.Server().SetPreHook(answerMemory)
	s.Kind, s.URL = Mini, "redis://"+s.mini.Addr()
}

// answerMemory answers the question for the eviction policy. Miniredis evicts nothing, but does not
// say so.
func answerMemory(c *server.Peer, cmd string, args ...string) bool {
	asked := cmd == "INFO" && len(args) == 1 && args[0] == "memory"
	if asked {
		c.WriteBulk("# Memory\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n")
	}
	return asked
}

// connect makes the client, with buffers that suit a test.
func (s *Server) connect() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	client, err := dial.Redis(ctx, s.URL, func(opt *rueidis.ClientOption) {
		opt.ReadBufferEachConn, opt.WriteBufferEachConn, opt.RingScaleEachConn = 1<<16, 1<<16, 7
	})
	if err != nil {
		s.t.Fatalf("connect to the test's Redis: %v", err)
	}
	s.Client = client
	s.t.Cleanup(client.Close)
}
