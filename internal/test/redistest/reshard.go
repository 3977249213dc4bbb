package redistest

import (
	"slices"
	"strconv"
	"testing"

	"github.com/redis/rueidis"
)

// Migration is a slot of a cluster that moves from one master to another. The test takes
// each step, so it can examine every state in between.
type Migration struct {
	From, To *Server

	cluster *ClusterServers
	slot    string
	from    rueidis.Client // of the node alone
}

// migrateTimeout is how long a key may take to move, in milliseconds.
const migrateTimeout = "10000"

// BeginMigration announces that the slot of a key moves from its master to the next one
// in the order of the nodes. No key moves yet.
func (c *ClusterServers) BeginMigration(t testing.TB, key string) *Migration {
	t.Helper()
	from := c.MasterOf(key)
	view, err := from.view()
	if err != nil {
		t.Fatal(err)
	}
	at := slices.Index(c.Nodes, from)
	for i := range c.Nodes {
		to := c.Nodes[(at+1+i)%len(c.Nodes)]
		if to != from && slices.ContainsFunc(view, func(n clusterNode) bool { return n.id == c.idOf(to) && len(n.slots) > 0 }) {
			return c.migrate(t, key, from, to)
		}
	}
	t.Fatal("the cluster has only one master")
	return nil
}

// Return begins to move a slot back to where it came from, once it is finished.
func (m *Migration) Return(t testing.TB, key string) *Migration {
	t.Helper()
	return m.cluster.migrate(t, key, m.To, m.From)
}

func (c *ClusterServers) migrate(t testing.TB, key string, from, to *Server) *Migration {
	t.Helper()
	slot, err := from.do("CLUSTER", "KEYSLOT", key)
	if err != nil {
		t.Fatalf("CLUSTER KEYSLOT: %v", err)
	}
	c.must(to, "CLUSTER", "SETSLOT", slot, "IMPORTING", c.idOf(from))
	c.must(from, "CLUSTER", "SETSLOT", slot, "MIGRATING", c.idOf(to))
	client := from.Client(t, func(o *rueidis.ClientOption) { o.ForceSingleClient = true })
	return &Migration{From: from, To: to, cluster: c, slot: slot, from: client}
}

// idOf returns the cluster id of a node.
func (c *ClusterServers) idOf(node *Server) string { return c.ids[slices.Index(c.Nodes, node)] }

// Left returns the keys of the slot that have not moved.
func (m *Migration) Left(t testing.TB) []string {
	t.Helper()
	keys, err := m.from.Do(t.Context(), m.from.B().Arbitrary("CLUSTER", "GETKEYSINSLOT", m.slot, "10000").Build()).AsStrSlice()
	if err != nil {
		t.Fatalf("CLUSTER GETKEYSINSLOT at %s: %v", m.From.Addr(), err)
	}
	return keys
}

// Move moves keys. A key that is not there any more is passed over.
func (m *Migration) Move(t testing.TB, keys ...string) {
	t.Helper()
	host, port := m.To.hostPort()
	for _, key := range keys {
		m.cluster.must(m.From, "MIGRATE", host, port, key, "0", migrateTimeout)
	}
}

// MoveAll moves all keys of the slot that have not moved.
func (m *Migration) MoveAll(t testing.TB) {
	t.Helper()
	for keys := m.Left(t); len(keys) > 0; keys = m.Left(t) {
		m.Move(t, keys...)
	}
}

// Finish moves the remaining keys, hands the slot over, and returns when all nodes know.
func (m *Migration) Finish(t testing.TB) {
	t.Helper()
	m.MoveAll(t)
	id := m.cluster.idOf(m.To)
	m.cluster.must(m.To, "CLUSTER", "SETSLOT", m.slot, "NODE", id)
	m.cluster.must(m.From, "CLUSTER", "SETSLOT", m.slot, "NODE", id)
	slot, err := strconv.Atoi(m.slot)
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range m.cluster.Nodes {
		if !node.alive() {
			continue
		}
		Eventually(t, node.Addr()+" knows where slot "+m.slot+" is", func() bool {
			view, err := node.view()
			return err == nil && slices.ContainsFunc(view, func(n clusterNode) bool { return n.id == id && n.owns(slot) })
		})
	}
}
