package fairqueue

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace/internal/redis/reqid"
	"github.com/millrace/millrace/internal/test/redistest"
)

// TestRepeatUnderASeed: a request that two processes send under the same seed
// is done once, and both get the same answer. Under another seed it is
// another request.
func TestRepeatUnderASeed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string

		// prepare returns the call that is repeated.
		prepare func(t *testing.T, q *Queue) func(context.Context, *Queue) (any, error)
		answer  func(any) bool // whether it is the first one's
		sizes   [4]int         // after both
	}{
		{"write", func(*testing.T, *Queue) func(context.Context, *Queue) (any, error) {
			drafts := make([]Draft, callBudget+1) // two calls
			for i := range drafts {
				drafts[i] = Draft{Tenant: "a"}
			}
			return func(ctx context.Context, q *Queue) (any, error) { return q.WriteBatch(ctx, drafts...) }
		}, func(answer any) bool { return len(answer.([]Written)) == callBudget+1 }, [4]int{callBudget + 1, 0, 0, 0}},

		{"ack", func(t *testing.T, q *Queue) func(context.Context, *Queue) (any, error) {
			write(t, q, "a:1 b:2 c:3")
			done := receipts(read(t, q, 2))
			return func(ctx context.Context, q *Queue) (any, error) { return q.Ack(ctx, done...) }
		}, func(answer any) bool { return answer == 2 }, [4]int{1, 0, 0, 0}},

		{"nack", func(t *testing.T, q *Queue) func(context.Context, *Queue) (any, error) {
			write(t, q, "a:1")
			m := read(t, q, 1)[0]
			return func(ctx context.Context, q *Queue) (any, error) {
				return q.Nack(ctx, NackConfig{Delay: time.Hour}, m.Receipt)
			}
		}, func(answer any) bool { return answer == 1 }, [4]int{0, 0, 1, 0}},

		{"redrive", func(t *testing.T, q *Queue) func(context.Context, *Queue) (any, error) {
			write(t, q, "a:1")
			m := read(t, q, 1)[0]
			if _, err := q.Nack(t.Context(), NackConfig{Dead: true}, m.Receipt); err != nil {
				t.Fatal(err)
			}
			return func(ctx context.Context, q *Queue) (any, error) { return q.Dead().Redrive(ctx, m.ID) }
		}, func(answer any) bool { return answer == 1 }, [4]int{1, 0, 0, 0}},

		{"cancel", func(t *testing.T, q *Queue) func(context.Context, *Queue) (any, error) {
			ids := write(t, q, "a:1 b:2")
			read(t, q, 1)
			return func(ctx context.Context, q *Queue) (any, error) { return q.Cancel(ctx, ids...) }
		}, func(answer any) bool {
			places := fmt.Sprint(answer)
			return strings.Contains(places, string(Waiting)) && strings.Contains(places, string(InFlight))
		}, [4]int{0, 1, 0, 0}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			name := redistest.Name(t)
			replaced := func() *Queue { return openOn(t, redistest.Shared(t).Client(t), name, Config{}) }
			call := tt.prepare(t, replaced())
			first, err := call(reqid.With(t.Context(), "one"), replaced())
			if err != nil || !tt.answer(first) {
				t.Fatalf("answer = %v, %v", first, err)
			}
			again, err := call(reqid.With(t.Context(), "one"), replaced())
			want(t, "answer to the repeat", again, first, err)
			wantSizes(t, replaced(), tt.sizes[0], tt.sizes[1], tt.sizes[2], tt.sizes[3])

			if other, err := call(reqid.With(t.Context(), "two"), replaced()); err == nil && cmp.Equal(other, first) {
				t.Errorf("answer under another seed = %v, want one of its own", other)
			}
		})
	}
}

// TestSeededCallsAreNotShared: many goroutines write at the same time through one
// Queue, half of them under seeds. Each write under a seed is known again.
func TestSeededCallsAreNotShared(t *testing.T) {
	t.Parallel()
	name := redistest.Name(t)
	const writers = 40
	writeAll := func() []string {
		q := openOn(t, redistest.Shared(t).Client(t), name, Config{})
		ids := make([]string, writers)
		var running sync.WaitGroup
		for i := range ids {
			ctx := t.Context()
			if i%2 == 0 {
				ctx = reqid.With(ctx, fmt.Sprint("seed ", i))
			}
			running.Go(func() {
				id, err := q.Write(ctx, Draft{Tenant: "a"})
				if err != nil {
					t.Errorf("write %d: %v", i, err)
				}
				ids[i] = id
			})
		}
		running.Wait()
		return ids
	}
	first, again := writeAll(), writeAll()
	for i := range writers {
		if same := first[i] == again[i]; same != (i%2 == 0) {
			t.Errorf("write %d has the ids %s and %s", i, first[i], again[i])
		}
	}
	wantSizes(t, openOn(t, redistest.Shared(t).Client(t), name, Config{}), writers+writers/2, 0, 0, 0)
}

// TestHandingBackIsNotTheRequest: messages that were read for a caller that has gone are handed
// back each time, though the callers' requests have one seed.
func TestHandingBackIsNotTheRequest(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	write(t, q, "a:1")
	for range 2 {
		messages := read(t, q, 1)
		q.handBack(reqid.With(t.Context(), "one"), messages)
		wantSizes(t, q, 1, 0, 0, 0)
	}
}
