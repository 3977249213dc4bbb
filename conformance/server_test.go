package conformance

import (
	"testing"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/redistest"
)

// serverEngine is one server with an append-only file. A disturbance kills it
// and starts it again with what it had acknowledged.
var serverEngine = engine{"server", func(t *testing.T) running {
	t.Helper()
	return &oneServer{redistest.Start(t, redistest.Options{AOF: true})}
}}

type oneServer struct{ server *redistest.Server }

func (s *oneServer) client(t *testing.T) rueidis.Client {
	t.Helper()
	return s.server.Client(t)
}

func (s *oneServer) homes() int         { return 1 }
func (s *oneServer) home(string) string { return s.server.Addr() }

func (s *oneServer) secure(string) {} // the append-only file has it

func (s *oneServer) disturb(string) {
	s.server.Kill()
	s.server.Restart()
}

func (s *oneServer) mend() {}
