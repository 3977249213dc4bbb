package redistest

import (
	"strconv"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/redis/info"
)

// Replication is a master and its replicas.
type Replication struct {
	Master   *Server
	Replicas []*Server
}

// Replicated runs a master with n replicas on TCP and returns when all
// replication links are up.
func Replicated(t testing.TB, n int) *Replication {
	t.Helper()
	r := &Replication{Master: Start(t, Options{TCP: true, Args: quickSync()})}
	r.Replicas = startAll(t, n, Options{TCP: true, Args: append(quickSync(), replicaOf(r.Master)...)})
	r.AwaitLinks(t)
	return r
}

// CutLink ends the link of a replica to its master, and keeps it from having another one until MendLink: its master and
// its data stay, and nothing else changes. The replica sends a password that a master without one refuses.
func (s *Server) CutLink() {
	s.t.Helper()
	s.mustDo("CONFIG", "SET", "masterauth", "refused")
	s.mustDo("CLIENT", "KILL", "TYPE", "master")
	Eventually(s.t, "replica "+s.Addr()+" has no link to its master", func() bool { return !s.linked() })
}

// MendLink ends a CutLink.
func (s *Server) MendLink() {
	s.t.Helper()
	s.mustDo("CONFIG", "SET", "masterauth", "")
}

func (s *Server) mustDo(args ...string) {
	s.t.Helper()
	if _, err := s.do(args...); err != nil {
		s.t.Fatalf("%s at %s: %v", strings.Join(args, " "), s.Addr(), err)
	}
}

// AwaitLinks waits until all replicas have a link to a master and hold its
// data.
func (r *Replication) AwaitLinks(t testing.TB) {
	t.Helper()
	for _, replica := range r.Replicas {
		Eventually(t, "replica "+replica.Addr()+" is linked to its master", replica.linked)
	}
}

// AwaitSynced waits until all replicas hold all that the master has acknowledged so far.
func (r *Replication) AwaitSynced(t testing.TB) {
	t.Helper()
	awaitSynced(t, r.Master, r.Replicas)
}

// linked reports whether the server is a replica whose link is up.
func (s *Server) linked() bool {
	text, err := s.do("INFO", "replication")
	return err == nil && info.Parse(text)["master_link_status"] == "up"
}

// awaitSynced waits until replicas hold all that their master has acknowledged
// so far, so that none of it is lost if one of them takes over.
func awaitSynced(t testing.TB, master *Server, replicas []*Server) {
	t.Helper()
	acknowledged := offset(master.Info("replication")["master_repl_offset"])
	for _, replica := range replicas {
		Eventually(t, "replica "+replica.Addr()+" holds what its master acknowledged", func() bool {
			text, err := replica.do("INFO", "replication")
			return err == nil && offset(info.Parse(text)["slave_repl_offset"]) >= acknowledged
		})
	}
}

// offset reads a place in the stream of replication; -1 when there is none.
func offset(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// quickSync makes a master serve a new replica at once, instead of waiting five
// seconds for others to come, and without a file, as all do since Redis 7.0.
func quickSync() []string {
	return []string{"--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0"}
}

func replicaOf(master *Server) []string {
	host, port := master.hostPort()
	return []string{"--replicaof", host, port}
}
