package conformance

import (
	"testing"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/redistest"
)

// aclEngine is one server whose clients are the user millrace of docs/SECURITY.md.
// Nothing of what they need may be refused. A disturbance cuts their connections
// and makes the server forget all scripts: a restart would make it forget what it
// refused.
var aclEngine = engine{"acl", func(t *testing.T) running {
	t.Helper()
	g := newGuarded(t, redistest.Start(t, redistest.Options{}))
	rules := append(g.page.user(t, aclUser), "~Test-acl-*") // keys that have names of a program's
	rules = append(rules, "+expire", "+config|set")         // what behaviours do by themselves
	g.allow(aclUser, rules...)
	t.Cleanup(func() {
		if refused := g.refused(aclUser); len(refused) > 0 {
			t.Errorf("refused: %v", refused)
		}
	})
	return &aclServer{oneServer{g.servers[0]}, g}
}}

const aclUser = "millrace"

type aclServer struct {
	oneServer

	g *guarded
}

func (s *aclServer) client(t *testing.T) rueidis.Client {
	t.Helper()
	return s.server.Client(t, as(aclUser))
}

func (s *aclServer) disturb(string) {
	s.g.everywhere("CLIENT", "KILL", "USER", aclUser)
	s.g.everywhere("SCRIPT", "FLUSH")
}
