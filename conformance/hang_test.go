package conformance

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/test/redistest"
)

// TestHangingMaster: consumers outlive a master that hangs until the Sentinels replace
// it. The client leaves its connections then, and calls under way end with the error
// that the client is closed; calls that wait for work get no error.
func TestHangingMaster(t *testing.T) {
	t.Parallel()
	for _, busy := range []bool{true, false} {
		t.Run(fmt.Sprintf("busy=%v", busy), func(t *testing.T) {
			t.Parallel()
			servers := redistest.Sentinels(t, 1)
			client := servers.Client(t, func(o *rueidis.ClientOption) { o.AlwaysPipelining = true })
			queue := openQueue(t, client, "queue")
			dirty := openIck(t, client, "dirty")
			var written, messages, marks atomic.Int64
			write := func(ctx context.Context) {
				n := written.Add(1)
				_, err := queue.Write(ctx, fairqueue.Draft{Tenant: "a", Body: []byte("x")})
				_, other := dirty.AddNow(ctx, fmt.Sprint(n))
				if err := errors.Join(err, other); err != nil && ctx.Err() == nil {
					t.Logf("a write fails: %v", err)
				}
			}
			var working sync.WaitGroup
			t.Cleanup(working.Wait) // the test's context has ended then
			ended := make(chan error, 2)
			working.Go(func() {
				ended <- queue.Consume(t.Context(), fairqueue.ConsumeConfig{Concurrency: 2}, func(context.Context, fairqueue.Message) error {
					messages.Add(1)
					return nil
				})
			})
			working.Go(func() {
				ended <- dirty.Consume(t.Context(), ick.ConsumeConfig{Batch: 1}, func(context.Context, []ick.Entry) error {
					marks.Add(1)
					return nil
				})
			})
			flow := func(what string) {
				t.Helper()
				before, others := messages.Load(), marks.Load()
				redistest.Eventually(t, "messages and marks are handled "+what, func() bool {
					if len(ended) > 0 {
						t.Fatalf("a consumer has ended: %v", <-ended)
					}
					if !busy {
						write(t.Context())
					}
					return messages.Load() > before && marks.Load() > others
				})
			}
			if busy {
				for range 4 {
					working.Go(func() {
						for t.Context().Err() == nil {
							write(t.Context())
						}
					})
				}
			}
			flow("at first")
			servers.AwaitSynced()
			old := servers.Master()
			old.Pause()
			t.Cleanup(old.Resume)
			servers.Replaced(old)
			for range 3 {
				flow("behind the next master")
			}
		})
	}
}
