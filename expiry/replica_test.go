package expiry

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redistest"
)

// fromReplicas has a client send what only reads to replicas.
func fromReplicas(opt *rueidis.ClientOption) {
	opt.SendToReplicas = func(cmd rueidis.Completed) bool { return cmd.IsReadOnly() }
}

// asked returns how often a server was asked for each command.
func asked(server *redistest.Server) map[string]int {
	counts := map[string]int{}
	for name, text := range server.Info("commandstats") {
		calls, _, _ := strings.Cut(strings.TrimPrefix(text, "calls="), ",")
		counts[strings.TrimPrefix(name, "cmdstat_")], _ = strconv.Atoi(calls)
	}
	return counts
}

// TestReadsFromAReplica has a replica that gets nothing new any more: what is read is what
// it has, and the time is its own.
func TestReadsFromAReplica(t *testing.T) {
	t.Parallel()
	r := redistest.Replicated(t, 1)
	replica := r.Replicas[0].Client(t)
	client := r.Master.Client(t, fromReplicas, func(opt *rueidis.ClientOption) {
		opt.Standalone.ReplicaAddress = []string{r.Replicas[0].Addr()}
	})
	h, k := openHashesOn(t, client, "n", HashesConfig{Shards: 1}), openKeysOn(t, client, "n", KeysConfig{Shards: 1})
	put(t, h, inHash, "a", "old", hashLong)
	put(t, h, inHash, "for good", "old", 0)
	put(t, h, inHash, "brief", "old", 20*time.Millisecond)
	setKey(t, k, "a", "old", keyLong)
	setKey(t, k, "brief", "old", 20*time.Millisecond)
	redistest.Eventually(t, "the replica has all", func() bool {
		return keyRaw(t, replica, "HEXISTS", shardValues(keyBase(t, k, "brief")), "brief") == "1"
	})
	must(t, replica, "REPLICAOF", "NO", "ONE")
	put(t, h, inHash, "a", "new", hashLong)
	setKey(t, k, "a", "new", keyLong)

	before := asked(r.Master)
	for _, field := range []string{"a", "for good"} {
		if got := value(t, h, inHash, field); got != "old" {
			t.Errorf("%s = %q, which the replica does not have", field, got)
		}
	}
	if many, err := h.GetMany(t.Context(), inHash, "a", "for good"); err != nil || len(many) != 2 || string(many["a"].Value) != "old" {
		t.Errorf("GetMany = %v, %v", many, err)
	}
	if got := getKey(t, k, "a"); got != "old" {
		t.Errorf("the value = %q, which the replica does not have", got)
	}
	redistest.Eventually(t, "the field's time is over", func() bool { return ttlOf(t, h, inHash, "brief") == NoField })
	redistest.Eventually(t, "the value's time is over", func() bool {
		_, _, err := k.Get(t.Context(), "brief")
		return errors.Is(err, millrace.ErrNotFound)
	})
	if n := integer(t, replica, "HEXISTS", valuesKey(baseOf(t, h, inHash), inHash), "brief"); n != 1 {
		t.Error("the replica has lost the field: this shows nothing")
	}
	after := asked(r.Master)
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
	h := openHashesOn(t, cluster.Client(t), "n", HashesConfig{})
	const n = 40
	for i := range n { // the shards are spread over all slots
		put(t, h, strconv.Itoa(i), "a", "1", hashLong)
		cluster.AwaitSynced(baseOf(t, h, strconv.Itoa(i)))
	}
	// rueidis reads from no replica that it was told of as a first address, or that is not
	// yet known to have loaded its data when the client is made.
	first := func(opt *rueidis.ClientOption) {
		opt.InitAddress = []string{cluster.MasterOf(baseOf(t, h, "0")).Addr()}
	}
	redistest.Eventually(t, "replicas serve all reads", func() bool {
		h := openHashesOn(t, cluster.Client(t, fromReplicas, first), "n", HashesConfig{})
		before := make([]map[string]int, len(cluster.Nodes))
		for i, node := range cluster.Nodes {
			before[i] = asked(node)
		}
		for i := range n {
			if got := value(t, h, strconv.Itoa(i), "a"); got != "1" {
				t.Errorf("the field of %d = %q", i, got)
			}
		}
		served := 0
		for i, node := range cluster.Nodes {
			counts := asked(node)
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

// TestReadsShareTheTime: reads that go out together ask for the time once.
func TestReadsShareTheTime(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	h := openHashesOn(t, server.Client(t), "n", HashesConfig{})
	reads := make([]read, 10)
	for i := range reads {
		hash := strconv.Itoa(i)
		put(t, h, hash, "a", fmt.Sprint("value ", i), hashLong)
		base := baseOf(t, h, hash)
		reads[i] = read{base, valuesKey(base, hash), []string{"a"}}
	}
	before := asked(server)
	answers, err := h.space.readers.call(t.Context(), reads)
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range answers {
		stored, err := a.stored[0].ToString()
		v, ok, broken := readStored(stored, a.now, "a")
		if err != nil || broken != nil || !ok || string(v.Value) != fmt.Sprint("value ", i) {
			t.Errorf("answer %d = %q, %v, %v, %v", i, v.Value, ok, err, broken)
		}
	}
	if after := asked(server); after["hget"]-before["hget"] != 10 || after["time"]-before["time"] != 1 {
		t.Errorf("10 reads were %d HGET and %d TIME", after["hget"]-before["hget"], after["time"]-before["time"])
	}
}
