package fairqueue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/test/redistest"
)

// miscounted compares the queue's counts with its contents. It returns the difference, "" for
// none. The server may be away.
func miscounted(t *testing.T, q *Queue) string {
	t.Helper()
	r, there := readRaw(t, q)
	if !there {
		return ""
	}
	return r.wrongs()
}

// TestCountsAreWhatIsInFlight: at no instant does the queue count other deliveries of handlers
// than there are, while replies are lost or the server is killed, handlers fail and readers
// cancel; and in the end it counts none.
func TestCountsAreWhatIsInFlight(t *testing.T) {
	t.Parallel()
	for _, trouble := range []string{"lost replies", "restarts"} {
		t.Run(trouble, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, redistest.Options{AOF: true})
			proxy := redistest.NewProxy(t, server.Addr())
			watch := openOn(t, server.Client(t), "x", Config{})
			if trouble == "lost replies" {
				proxy.DropReplyWhen(func(cmd []string) bool { return evalsha(cmd) && rand.IntN(40) == 0 })
			}
			using, stop := context.WithCancel(t.Context())
			var working sync.WaitGroup
			defer working.Wait()
			defer stop()
			var stops []func()
			for range 2 {
				q := openOn(t, proxy.Client(t), "x", Config{MaxAttempts: 1000, Logger: slog.New(slog.DiscardHandler)})
				working.Go(func() { busyWriter(using, t, q, watch) })
				cfg := ConsumeConfig{
					Concurrency: 5, Visibility: 2 * time.Second,
					Backoff: func(int, error) time.Duration { return time.Duration(rand.IntN(20)) * time.Millisecond },
				}
				stops = append(stops, consume(t, q, cfg, fickleHandler))
			}
			redistest.Eventually(t, "handlers of both processes have worked", func() bool {
				s, err := watch.Stats(t.Context())
				return err == nil && s.Capacity == 10 && s.Counters.Acked > 0
			})
			for start, kills := time.Now(), 0; time.Since(start) < 500*time.Millisecond; {
				if trouble == "restarts" && time.Since(start) > time.Duration(1+kills)*150*time.Millisecond {
					server.Kill()
					server.Restart()
					kills++
				}
				if diff := miscounted(t, watch); diff != "" {
					t.Fatalf("deliveries to handlers by tenant (-in flight +counted):\n%s", diff)
				}
			}
			proxy.Heal()
			stop()
			working.Wait()
			drained(t, watch)
			for _, stop := range stops {
				stop()
			}
			if diff := miscounted(t, watch); diff != "" {
				t.Errorf("deliveries to handlers by tenant in the end (-in flight +counted):\n%s", diff)
			}
			redistest.Eventually(t, "nothing is left", func() bool { return len(read(t, watch, 1)) == 0 })
			wantNothingLeft(t, watch)
		})
	}
}

// busyWriter writes messages of 20 tenants and cancels some, until ctx ends.
func busyWriter(ctx context.Context, t *testing.T, q, watch *Queue) {
	for ctx.Err() == nil {
		if n, err := watch.Len(t.Context()); err != nil || n > 200 {
			<-time.After(time.Millisecond) // the handlers are behind
			continue
		}
		drafts := make([]Draft, 20)
		for i := range drafts {
			drafts[i].Tenant = fmt.Sprint("tenant", rand.IntN(20))
		}
		written, _ := q.WriteBatch(t.Context(), drafts...) // the server may be away
		for _, w := range written[:min(len(written), 2)] {
			_, _ = q.Cancel(t.Context(), w.ID)
		}
	}
}

// fickleHandler takes no time or a few milliseconds, and fails now and then.
func fickleHandler(context.Context, Message) error {
	if rand.IntN(4) == 0 {
		<-time.After(time.Duration(rand.IntN(5)) * time.Millisecond)
	}
	if rand.IntN(8) == 0 {
		return errors.New("no luck")
	}
	return nil
}
