package redistest

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/redis/info"
)

const (
	// masterSet is the name under which the sentinels know the master.
	masterSet = "main"

	// sentinels is how many watch, and majority how many must agree.
	sentinels = 3
	majority  = 2
)

// SentinelServers is a replicated master watched by three sentinels.
type SentinelServers struct {
	t         testing.TB
	Data      []*Server // the first was the master at the start
	Sentinels []*Server
}

// Sentinels runs a master with n replicas and three sentinels, two of which
// must agree, and returns when the sentinels know each other and the replicas.
// They give a master up after 300 ms of silence, those of Redis 6.2 after 2 s.
func Sentinels(t testing.TB, n int) *SentinelServers {
	t.Helper()
	r := Replicated(t, n)
	return Watch(t, r, r.Master.Addr())
}

// Watch is Sentinels for servers that run. The sentinels, and the replicas, know the master by an address, which may be
// that of a proxy.
func Watch(t testing.TB, r *Replication, master string) *SentinelServers {
	t.Helper()
	s := &SentinelServers{t: t, Data: append([]*Server{r.Master}, r.Replicas...)}
	host, port, err := net.SplitHostPort(master)
	if err != nil {
		t.Fatalf("the master's address: %v", err)
	}
	s.Sentinels = startAll(t, sentinels, Options{Sentinel: strings.Join([]string{
		fmt.Sprintf("sentinel monitor %s %s %s %d", masterSet, host, port, majority),
		"sentinel down-after-milliseconds " + masterSet + " 300",
		"sentinel failover-timeout " + masterSet + " 3000",
	}, "\n")})
	for _, sentinel := range s.Sentinels {
		// By default sentinels publish to each other every two seconds, and poll the data
		// servers every ten; one that gets no CPU for two seconds does nothing for the next
		// thirty. A master that is down has them poll replicas each second, and they elect none
		// whose answer is older than five pings: pings at 100 ms would let most elections but the
		// first fail. DEBUG exists since Redis 7.0.
		if _, err := sentinel.do("SENTINEL", "DEBUG", "INFO-PERIOD", "200", "PUBLISH-PERIOD", "100",
			"PING-PERIOD", "250", "ASK-PERIOD", "250", "TILT-TRIGGER", "60000"); err != nil {
			// Sentinels of 6.2 ping only once in that time: on a busy machine they would
			// fail over all the time.
			if _, err := sentinel.do("SENTINEL", "SET", masterSet, "down-after-milliseconds", "2000"); err != nil {
				t.Fatalf("sentinel %s: %v", sentinel.Addr(), err)
			}
		}
	}
	s.await(func() string { return s.quorum(master) })
	return s
}

// await waits until nothing is missing. Its timeout is longer than others: an election without a
// winner is repeated after twice the failover timeout.
func (s *SentinelServers) await(missing func() string) {
	s.t.Helper()
	const elections = 3 * waitTimeout
	var last string
	if poll(elections, func() bool { last = missing(); return last == "" }) {
		return
	}
	for _, server := range slices.Concat(s.Sentinels, s.Data) { // why an election failed is nowhere else
		s.t.Logf("the log of %s (alive: %t) ends so:\n%s", server.Addr(), server.alive(), server.log(4000))
	}
	s.t.Fatalf("after %v, still: %s", elections, last)
}

// quorum returns what is missing until each sentinel watches that master, which is up, and
// knows the other sentinels and the replicas.
func (s *SentinelServers) quorum(master string) string {
	want := fmt.Sprintf("status=ok,address=%s,slaves=%d,sentinels=%d", master, len(s.Data)-1, sentinels)
	for _, sentinel := range s.Sentinels {
		if text, err := sentinel.do("INFO", "sentinel"); err != nil || !strings.Contains(text, want) {
			return fmt.Sprintf("sentinel %s answers %q, %v; want %s", sentinel.Addr(), text, err, want)
		}
	}
	return ""
}

// Client returns a client that finds the master through the sentinels, closed
// when the test ends.
func (s *SentinelServers) Client(t testing.TB, changes ...func(*rueidis.ClientOption)) rueidis.Client {
	t.Helper()
	client := newClient(t, rueidis.MustParseURL(s.URL()), changes)
	t.Cleanup(func() {
		for _, server := range slices.Concat(s.Data, s.Sentinels) {
			server.proc.Resume() // a client's Close waits for the replies to its calls
		}
		client.Close()
	})
	return client
}

// URL returns the sentinels' addresses in rueidis.ParseURL's syntax.
func (s *SentinelServers) URL() string {
	return seeds(s.Sentinels, map[string]string{"master_set": masterSet})
}

// Master returns the server that all living sentinels take for the master, or
// nil while they differ.
func (s *SentinelServers) Master() *Server {
	s.t.Helper()
	var agreed *Server
	for _, sentinel := range s.Sentinels {
		if !sentinel.alive() {
			continue
		}
		reply, err := sentinel.do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", masterSet)
		if err != nil {
			s.t.Errorf("sentinel %s: %v", sentinel.Addr(), err)
			return nil
		}
		i := slices.IndexFunc(s.Data, func(d *Server) bool {
			_, port := d.hostPort()
			return strings.Contains(reply, "\r\n"+port+"\r\n")
		})
		if i < 0 || agreed != nil && agreed != s.Data[i] {
			return nil
		}
		agreed = s.Data[i]
	}
	return agreed
}

// agreed waits until the sentinels agree on a master and returns it.
func (s *SentinelServers) agreed() (master *Server) {
	s.t.Helper()
	Eventually(s.t, "the sentinels agree on a master", func() bool {
		master = s.Master()
		return master != nil
	})
	return master
}

// Failover kills the master, waits until the sentinels agree on another one
// that takes writes, and returns that.
func (s *SentinelServers) Failover() *Server {
	s.t.Helper()
	old := s.agreed()
	old.Kill()
	return s.Replaced(old)
}

// Replaced waits until the sentinels agree on another master than that one, which takes
// writes, and returns it.
func (s *SentinelServers) Replaced(old *Server) (now *Server) {
	s.t.Helper()
	s.await(func() string {
		if now = s.Master(); now == nil || now == old || now.Info("replication")["role"] != "master" {
			return "the sentinels do not agree on a new master"
		}
		return ""
	})
	return now
}

// AwaitSynced waits until every living replica holds all that the master has
// acknowledged so far, so that a Failover now would lose none of it.
func (s *SentinelServers) AwaitSynced() {
	s.t.Helper()
	master := s.agreed()
	awaitSynced(s.t, master, s.others(master))
}

// Rejoin restarts the killed data servers. It returns when all but the master are replicas
// with a link, and the sentinels have ended the failover; before that they start no other.
// It sends REPLICAOF itself, since sentinels of Redis 6.2 take ten seconds and more for that.
func (s *SentinelServers) Rejoin() {
	s.t.Helper()
	for _, server := range s.Data {
		if !server.alive() {
			server.Restart()
		}
	}
	s.await(func() string {
		master := s.Master() // a busy machine may have them choose another one meanwhile
		if master == nil {
			return "the sentinels do not agree on a master"
		}
		host, port := master.hostPort()
		for _, replica := range s.others(master) {
			text, err := replica.do("INFO", "replication")
			fields := info.Parse(text)
			if err == nil && fields["master_port"] != port {
				_, _ = replica.do("REPLICAOF", host, port) // repeated if it fails
			}
			if err != nil || fields["master_port"] != port || fields["master_link_status"] != "up" {
				return fmt.Sprintf("data server %s is no replica of %s with a link: %q, %v", replica.Addr(), master.Addr(), text, err)
			}
		}
		return s.quorum(master.Addr())
	})
}

// others returns the living data servers without the master.
func (s *SentinelServers) others(master *Server) []*Server {
	return slices.DeleteFunc(slices.Clone(s.Data), func(d *Server) bool { return d == master || !d.alive() })
}
