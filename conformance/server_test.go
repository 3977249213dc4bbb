package conformance

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/test/redistest"
)

// serverEngine is one server with an append-only file, whose clients are the user millrace of
// docs/SECURITY.md. No command that they need may be refused. A disturbance kills it and starts
// it again with the writes it had acknowledged.
var serverEngine = engine{"server", func(t *testing.T) running {
	t.Helper()
	users := filepath.Join(t.TempDir(), "users.acl")
	must(t, "the file of users", os.WriteFile(users, nil, 0o600))
	g := newGuarded(t, redistest.Start(t, redistest.Options{AOF: true, Args: []string{"--aclfile", users}}))
	rules := append(g.page.user(t, serverUser), "~Test-server-*") // keys that have names of a program's
	rules = append(rules, "+expire", "+config|set")               // what behaviours do by themselves
	g.allow(serverUser, rules...)
	g.everywhere("ACL", "SAVE")
	s := &oneServer{t: t, server: g.servers[0], g: g}
	t.Cleanup(s.nothingIsRefused)
	return s
}}

const serverUser = "millrace"

type oneServer struct {
	t      *testing.T
	server *redistest.Server
	g      *guarded
}

func (s *oneServer) client(t *testing.T) rueidis.Client {
	t.Helper()
	return s.server.Client(t, as(serverUser))
}

func (s *oneServer) homes() int         { return 1 }
func (s *oneServer) home(string) string { return s.server.Addr() }

func (s *oneServer) secure(string) {} // the append-only file has it

func (s *oneServer) disturb(string) {
	s.nothingIsRefused() // which the server is about to forget
	s.server.Kill()
	s.server.Restart()
}

func (s *oneServer) mend() {}

func (s *oneServer) nothingIsRefused() {
	if refused := s.g.refused(serverUser); len(refused) > 0 {
		s.t.Errorf("refused: %v", refused)
	}
}
