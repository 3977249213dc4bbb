package expiry

import (
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/internal/test/shardstest"
)

// TestReadsFromAReplica has a replica that receives no more writes: reads return its
// data, by its own clock.
func TestReadsFromAReplica(t *testing.T) {
	t.Parallel()
	r := redistest.Replicated(t, 1)
	replica := r.Replicas[0].Client(t)
	client := r.Master.Client(t, shardstest.FromReplicas, func(opt *rueidis.ClientOption) {
		opt.Standalone.ReplicaAddress = []string{r.Replicas[0].Addr()}
	})
	h := openOn(t, client, "n", Config{Shards: 1})
	put(t, h, inHash, "a", "old", hashLong)
	put(t, h, inHash, "for good", "old", 0)
	put(t, h, inHash, "brief", "old", 20*time.Millisecond)
	redistest.Eventually(t, "the replica has all", func() bool {
		return integer(t, replica, "HEXISTS", valuesKey(baseOf(t, h, inHash), inHash), "brief") == 1
	})
	must(t, replica, "REPLICAOF", "NO", "ONE")
	put(t, h, inHash, "a", "new", hashLong)

	before := shardstest.Asked(r.Master)
	for _, field := range []string{"a", "for good"} {
		if got := value(t, h, inHash, field); got != "old" {
			t.Errorf("%s = %q, which the replica does not have", field, got)
		}
	}
	if many, err := h.GetMany(t.Context(), inHash, "a", "for good"); err != nil || len(many) != 2 || string(many["a"].Value) != "old" {
		t.Errorf("GetMany = %v, %v", many, err)
	}
	redistest.Eventually(t, "the field's time is over", func() bool { return ttlOf(t, h, inHash, "brief") == noField })
	if n := integer(t, replica, "HEXISTS", valuesKey(baseOf(t, h, inHash), inHash), "brief"); n != 1 {
		t.Error("the replica has lost the field: this shows nothing")
	}
	after := shardstest.Asked(r.Master)
	for _, command := range []string{"hget", "hmget", "time"} {
		if after[command] != before[command] && command != "hmget" { // which scripts use
			t.Errorf("the master was asked for %s", command)
		}
	}
}

// TestTimeComesFromTheNodeThatWasRead: on a Cluster, too.
func TestTimeComesFromTheNodeThatWasRead(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t, 2, 1)
	h := openOn(t, cluster.Client(t), "n", Config{})
	const n = 40
	for i := range n { // the shards are spread over all slots
		put(t, h, strconv.Itoa(i), "a", "1", hashLong)
		cluster.AwaitSynced(baseOf(t, h, strconv.Itoa(i)))
	}
	// rueidis reads from no replica that is a first address, or that is not
	// yet known to have loaded its data when the client is made.
	first := func(opt *rueidis.ClientOption) {
		opt.InitAddress = []string{cluster.MasterOf(baseOf(t, h, "0")).Addr()}
	}
	redistest.Eventually(t, "replicas serve all reads", func() bool {
		h := openOn(t, cluster.Client(t, shardstest.FromReplicas, first), "n", Config{})
		before := make([]map[string]int, len(cluster.Nodes))
		for i, node := range cluster.Nodes {
			before[i] = shardstest.Asked(node)
		}
		for i := range n {
			if got := value(t, h, strconv.Itoa(i), "a"); got != "1" {
				t.Errorf("the field of %d = %q", i, got)
			}
		}
		served := 0
		for i, node := range cluster.Nodes {
			counts := shardstest.Asked(node)
			hgets, times := counts["hget"]-before[i]["hget"], counts["time"]-before[i]["time"]
			if hgets != times {
				t.Errorf("%s was asked for %d fields and %d times for the time", node.Addr(), hgets, times)
			}
			if node.Info("replication")["role"] == "slave" {
				served += hgets
			}
		}
		return served == n
	})
}
