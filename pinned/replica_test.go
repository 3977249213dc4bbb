package pinned

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/internal/test/shardstest"
)

// TestReadsFromAReplica has a replica that no longer replicates: reads return its data,
// by its own clock.
func TestReadsFromAReplica(t *testing.T) {
	t.Parallel()
	r := redistest.Replicated(t, 1)
	replica := r.Replicas[0].Client(t)
	client := r.Master.Client(t, shardstest.FromReplicas, func(opt *rueidis.ClientOption) {
		opt.Standalone.ReplicaAddress = []string{r.Replicas[0].Addr()}
	})
	k := openOn(t, client, "n", Config{Shards: 1})
	setKey(t, k, "a", "old", keyLong)
	setKey(t, k, "brief", "old", 20*time.Millisecond)
	redistest.Eventually(t, "the replica has all", func() bool {
		return keyRaw(t, replica, "HEXISTS", shardValues(keyBase(t, k, "brief")), "brief") == "1"
	})
	shardstest.Must(t, replica, "REPLICAOF", "NO", "ONE")
	setKey(t, k, "a", "new", keyLong)

	before := shardstest.Asked(r.Master)
	wantKey(t, "the value of the replica", getKey(t, k, "a"), "old", nil)
	redistest.Eventually(t, "the value has expired", func() bool {
		_, _, err := k.Get(t.Context(), "brief")
		return errors.Is(err, millrace.ErrNotFound)
	})
	after := shardstest.Asked(r.Master)
	for _, command := range []string{"hget", "time"} {
		wantKey(t, command+" of the master", after[command], before[command], nil)
	}
}
