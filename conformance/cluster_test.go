package conformance

import (
	"testing"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/test/redistest"
)

const clusterMasters = 3

// clusterEngine is a Cluster of three masters with a replica each. A disturbance
// kills the master of a key, and its replica takes over.
var clusterEngine = engine{"cluster", func(t *testing.T) running {
	t.Helper()
	return &cluster{redistest.Cluster(t, clusterMasters, 1)}
}}

type cluster struct{ servers *redistest.ClusterServers }

func (c *cluster) client(t *testing.T) rueidis.Client {
	t.Helper()
	return c.servers.Client(t)
}

func (c *cluster) homes() int             { return clusterMasters }
func (c *cluster) home(key string) string { return c.servers.MasterOf(key).Addr() }
func (c *cluster) secure(key string)      { c.servers.AwaitSynced(key) }
func (c *cluster) disturb(key string)     { c.servers.Failover(key) }
func (c *cluster) mend()                  { c.servers.Rejoin() }
