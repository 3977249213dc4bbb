package fairqueue

import (
	"context"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/test/redistest"
)

// TestNothingAheadOfHungHandlers: where handlers were quick and then hang, messages are not
// fetched ahead and handed back for ever.
func TestNothingAheadOfHungHandlers(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	drafts := make([]Draft, 500)
	for i := range drafts {
		drafts[i].Tenant = "a"
	}
	if _, err := q.WriteBatch(t.Context(), drafts...); err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	quick := make(chan struct{}, 100)
	for range 100 {
		quick <- struct{}{}
	}
	ended := make(chan error, 1)
	go func() {
		ended <- q.Consume(ctx, ConsumeConfig{Concurrency: 4, Drain: time.Millisecond}, func(ctx context.Context, _ Message) error {
			select {
			case <-quick:
				return nil
			default:
			}
			<-ctx.Done()
			return ctx.Err()
		})
	}()
	redistest.Eventually(t, "all handlers hang and nothing else is in flight", func() bool {
		s, err := q.Stats(t.Context())
		return err == nil && s.Counters.Acked == 100 && s.InFlight == 4
	})
	before, err := q.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); time.Since(began) < 300*time.Millisecond; { // fifteen times as long as fetched messages may wait
		s, err := q.Stats(t.Context())
		if err != nil || s.Counters.Delivered != before.Counters.Delivered {
			t.Fatalf("%d deliveries, then %d (%v): messages go to and fro", before.Counters.Delivered, s.Counters.Delivered, err)
		}
	}
	end()
	<-ended
}
