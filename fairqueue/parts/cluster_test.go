package parts

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/test/redistest"
)

// TestSlotMoves: while the slot of a part moves between the masters of a Cluster, writes and
// handlers go on, and confirmed messages are handled.
func TestSlotMoves(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t, 3, 0)
	q := mustNew(t, Config{Parts: On(cluster.Client(t), "jobs", 8), Timeout: time.Minute})
	masters := map[*redistest.Server]bool{}
	for _, part := range q.Parts() {
		masters[cluster.MasterOf("mr:queue:{"+part.Name()+"}")] = true
	}
	if len(masters) != 3 {
		t.Errorf("8 parts are on %d of 3 masters", len(masters))
	}

	var mu sync.Mutex
	handled := map[string]int{}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- q.Consume(ctx, fairqueue.ConsumeConfig{Concurrency: 4}, func(_ context.Context, m fairqueue.Message) error {
			mu.Lock()
			defer mu.Unlock()
			handled[m.ID]++
			return nil
		})
	}()
	key := "mr:queue:{jobs/0}"
	var confirmed []string
	writeSome := func() {
		for _, w := range write(t, q, many(10, "a", "b", "c", "d", "e", "f", "g", "h")...) {
			confirmed = append(confirmed, w.ID)
		}
	}
	writeSome()
	moving := cluster.BeginMigration(t, key)
	writeSome()
	moving.Finish(t)
	writeSome()
	redistest.Eventually(t, "all is handled", func() bool {
		mu.Lock()
		defer mu.Unlock()
		for _, id := range confirmed {
			if handled[id] == 0 {
				return false
			}
		}
		return true
	})
	stop()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("consume: %v", err)
	}
	if cluster.MasterOf(key) != moving.To {
		t.Error("the slot did not move")
	}
}

// TestMasterOfAClusterDies: with parts in the slots of a Cluster it is as with servers that know
// nothing of each other. A replica takes over from a killed master, or a silent one comes back.
// The Cluster must serve its other slots meanwhile, see the package.
func TestMasterOfAClusterDies(t *testing.T) {
	t.Parallel()
	for name, replicas := range map[string]int{"a replica takes over": 1, "it comes back": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := redistest.Cluster(t, 3, replicas)
			client := cluster.Client(t)
			for _, node := range cluster.Nodes {
				direct := node.Client(t)
				for setting, value := range map[string]string{"cluster-require-full-coverage": "no", "cluster-replica-validity-factor": "0"} {
					if err := direct.Do(t.Context(), direct.B().ConfigSet().ParameterValue().ParameterValue(setting, value).Build()).Error(); err != nil {
						t.Fatal(err)
					}
				}
			}
			cluster.HoldFailovers()
			q := mustNew(t, Config{Parts: On(client, "jobs", 6), Timeout: 500 * time.Millisecond})
			key := func(part int) string { return "mr:queue:{" + q.parts[part].queue.Name() + "}" }
			master, lost := cluster.MasterOf(key(0)), map[int]bool{}
			for i := range q.parts {
				lost[i] = cluster.MasterOf(key(i)) == master
			}
			o := outage{begin: master.Pause, end: master.Resume, hits: func(part int) bool { return lost[part] }}
			if replicas > 0 {
				o.begin = func() {
					cluster.AwaitSynced(key(0))
					master.Kill()
				}
				o.end = func() { cluster.AllowFailovers() }
			}
			survive(t, q, o)
		})
	}
}
