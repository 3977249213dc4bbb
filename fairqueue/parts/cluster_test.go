package parts

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/redistest"
)

// TestSlotMoves: while the slot of a part moves between the masters of a Cluster, writes and
// handlers go on, and what was confirmed is handled.
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
