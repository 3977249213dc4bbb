package redistest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/redis/info"
)

// slots is the number of hash slots of a Redis Cluster.
const slots = 16384

// ClusterServers is a real Redis Cluster on ports of 127.0.0.1.
type ClusterServers struct {
	t     testing.TB
	Nodes []*Server // masters first, as they were at the start
	ids   []string  // each node's cluster id
}

// Cluster runs a cluster and returns when every node knows every other and all slots are
// served. That takes about two seconds, for which a node does not trust its view. A node
// counts as failed after a second without an answer; replicas then take over by themselves
// if a majority of at least three masters can vote.
func Cluster(t testing.TB, masters, replicasPerMaster int) *ClusterServers {
	t.Helper()
	c := &ClusterServers{t: t}
	c.Nodes = startAll(t, masters*(1+replicasPerMaster), Options{Cluster: true, Args: append(quickSync(), "--cluster-node-timeout", "1000")})
	c.join(masters)
	for i, replica := range c.Nodes[masters:] {
		master := c.ids[i%masters]
		Eventually(t, "replica "+replica.Addr()+" knows its master", func() bool {
			_, err := replica.do("CLUSTER", "REPLICATE", master)
			return err == nil
		})
	}
	c.AwaitOK()
	for _, replica := range c.Nodes[masters:] {
		Eventually(t, "replica "+replica.Addr()+" is linked to its master", replica.linked)
	}
	return c
}

// join hands out the slots and introduces every node to every other.
func (c *ClusterServers) join(masters int) {
	c.t.Helper()
	for i, node := range c.Nodes {
		id, err := node.do("CLUSTER", "MYID")
		if err != nil {
			c.t.Fatalf("CLUSTER MYID: %v", err)
		}
		c.ids = append(c.ids, id)
		// Distinct epochs from the start spare the nodes from settling it.
		c.must(node, "CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
		if i < masters {
			add := []string{"CLUSTER", "ADDSLOTS"}
			for slot := i * slots / masters; slot < (i+1)*slots/masters; slot++ {
				add = append(add, strconv.Itoa(slot))
			}
			c.must(node, add...)
		}
		for _, other := range c.Nodes[:i] {
			host, port := other.hostPort()
			c.must(node, "CLUSTER", "MEET", host, port)
		}
	}
}

func (c *ClusterServers) must(node *Server, args ...string) {
	c.t.Helper()
	if _, err := node.do(args...); err != nil {
		c.t.Fatalf("%s %s at %s: %v", args[0], args[1], node.Addr(), err)
	}
}

// AwaitOK waits until every living node serves, and knows every node of the
// cluster and which of them live.
func (c *ClusterServers) AwaitOK() {
	c.t.Helper()
	for _, node := range c.Nodes {
		if node.alive() {
			Eventually(c.t, "cluster node "+node.Addr()+" serves and sees all others as they are",
				func() bool { return c.inStep(node) })
		}
	}
}

// inStep reports whether a node's view of the cluster is complete and true.
func (c *ClusterServers) inStep(node *Server) bool {
	text, err := node.do("CLUSTER", "INFO")
	if err != nil || info.Parse(text)["cluster_state"] != "ok" {
		return false
	}
	view, err := node.view()
	if err != nil || len(view) != len(c.Nodes) {
		return false
	}
	for _, seen := range view {
		i := slices.Index(c.ids, seen.id)
		if i < 0 || c.Nodes[i].alive() == seen.failed {
			return false
		}
	}
	return true
}

// Client returns a client that knows all nodes, closed when the test ends.
func (c *ClusterServers) Client(t testing.TB, changes ...func(*rueidis.ClientOption)) rueidis.Client {
	t.Helper()
	client := newClient(t, rueidis.MustParseURL(c.URL()), changes)
	t.Cleanup(func() {
		for _, node := range c.Nodes {
			node.proc.Resume() // a client's Close waits for the replies to its calls
		}
		client.Close()
	})
	return client
}

// URL returns the nodes' addresses in rueidis.ParseURL's syntax.
func (c *ClusterServers) URL() string { return seeds(c.Nodes, nil) }

// HoldFailovers has no node count as failed from now on: one that is silent keeps
// its slots, and the others serve theirs.
func (c *ClusterServers) HoldFailovers() {
	c.t.Helper()
	for _, node := range c.Nodes {
		c.must(node, "CONFIG", "SET", "cluster-node-timeout", "86400000")
	}
}

// AllowFailovers has living nodes that were told to hold failovers notice again which ones have
// failed, within about a second.
func (c *ClusterServers) AllowFailovers() {
	c.t.Helper()
	for _, node := range c.Nodes {
		if node.alive() {
			c.must(node, "CONFIG", "SET", "cluster-node-timeout", "1000")
		}
	}
}

// MasterOf returns the living node that serves a key, as the cluster sees it
// now.
func (c *ClusterServers) MasterOf(key string) *Server {
	c.t.Helper()
	master := c.masterOf(key)
	if master == nil {
		c.t.Fatalf("no node of the cluster serves %q", key)
	}
	return master
}

// masterOf is MasterOf that returns nil if no node serves the key, as for a moment of a failover.
func (c *ClusterServers) masterOf(key string) *Server {
	c.t.Helper()
	for _, node := range c.Nodes {
		if !node.alive() {
			continue
		}
		text, err := node.do("CLUSTER", "KEYSLOT", key)
		if err != nil {
			c.t.Fatalf("CLUSTER KEYSLOT: %v", err)
		}
		slot, err := strconv.Atoi(text)
		if err != nil {
			c.t.Fatalf("CLUSTER KEYSLOT: %v", err)
		}
		view, err := node.view()
		if err != nil {
			c.t.Fatal(err)
		}
		for _, seen := range view {
			if i := slices.Index(c.ids, seen.id); i >= 0 && seen.owns(slot) {
				return c.Nodes[i]
			}
		}
		return nil
	}
	c.t.Fatal("no node of the cluster is alive")
	return nil
}

// Failover kills the master of a key, waits until a replica has taken over and
// all living nodes agree, and returns the new master.
func (c *ClusterServers) Failover(key string) *Server {
	c.t.Helper()
	old := c.MasterOf(key)
	old.Kill()
	Eventually(c.t, "a replica has taken over from "+old.Addr(), func() bool {
		master := c.masterOf(key)
		return master != nil && master != old
	})
	c.AwaitOK()
	return c.MasterOf(key)
}

// AwaitSynced waits until every living replica of the master of a key holds all
// that the master has acknowledged so far, so that a Failover now would lose
// none of it.
func (c *ClusterServers) AwaitSynced(key string) {
	c.t.Helper()
	master := c.MasterOf(key)
	_, port := master.hostPort()
	awaitSynced(c.t, master, slices.DeleteFunc(slices.Clone(c.Nodes), func(node *Server) bool {
		return !node.alive() || node.Info("replication")["master_port"] != port
	}))
}

// Rejoin starts the nodes that were killed again, and returns when each is a
// replica whose link is up. It is for nodes whose slots another one has taken
// over.
func (c *ClusterServers) Rejoin() {
	c.t.Helper()
	var back []*Server
	for _, node := range c.Nodes {
		if !node.alive() {
			node.Restart()
			back = append(back, node)
		}
	}
	c.AwaitOK()
	for _, node := range back {
		Eventually(c.t, "cluster node "+node.Addr()+" is a replica again", node.linked)
	}
}

// clusterNode is one line of CLUSTER NODES.
type clusterNode struct {
	id     string
	failed bool
	slots  [][2]int
}

func (n *clusterNode) owns(slot int) bool {
	return slices.ContainsFunc(n.slots, func(r [2]int) bool { return r[0] <= slot && slot <= r[1] })
}

// view returns the cluster as the server sees it. Nodes that it has not met
// yet are left out.
func (s *Server) view() ([]clusterNode, error) {
	text, err := s.do("CLUSTER", "NODES")
	if err != nil {
		return nil, err
	}
	var nodes []clusterNode
	for line := range strings.Lines(text) {
		// id address flags master ping pong epoch link slot...
		fields := strings.Fields(line)
		if len(fields) < 8 {
			return nil, fmt.Errorf("CLUSTER NODES of %s holds %q", s.Addr(), line)
		}
		flags := strings.Split(fields[2], ",")
		if slices.Contains(flags, "handshake") {
			continue
		}
		node := clusterNode{id: fields[0], failed: slices.Contains(flags, "fail")}
		for _, field := range fields[8:] {
			first, last, isRange := strings.Cut(field, "-")
			if !isRange {
				last = first
			}
			from, err1 := strconv.Atoi(first)
			to, err2 := strconv.Atoi(last)
			if err1 == nil && err2 == nil { // not a slot that is being moved
				node.slots = append(node.slots, [2]int{from, to})
			}
		}
		nodes = append(nodes, node)
	}
	return nodes, nil
}
