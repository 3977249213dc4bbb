package conformance

import (
	"testing"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/test/redistest"
)

// sentinelEngine is a master with two replicas behind three Sentinels. A
// disturbance kills the master, and the Sentinels make a replica the new one.
var sentinelEngine = engine{"sentinel", func(t *testing.T) running {
	t.Helper()
	return &behindSentinels{redistest.Sentinels(t, 2)}
}}

type behindSentinels struct{ servers *redistest.SentinelServers }

func (s *behindSentinels) client(t *testing.T) rueidis.Client {
	t.Helper()
	return s.servers.Client(t)
}

func (s *behindSentinels) homes() int         { return 1 }
func (s *behindSentinels) home(string) string { return "the master" }
func (s *behindSentinels) secure(string)      { s.servers.AwaitSynced() }
func (s *behindSentinels) disturb(string)     { s.servers.Failover() }
func (s *behindSentinels) mend()              { s.servers.Rejoin() }
