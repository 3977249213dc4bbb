package fairqueue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/test/redistest"
)

var errStop = errors.New("the test is over")

// consume runs a consumer until stop is called, which returns when all handlers
// have.
func consume(t *testing.T, q *Queue, cfg ConsumeConfig, handler Handler) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(context.Background())
	done := make(chan error, 1)
	go func() { done <- q.Consume(ctx, cfg, handler) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel(errStop)
			if err := <-done; !errors.Is(err, errStop) {
				t.Errorf("Consume = %v, want it to go on until it is told to end", err)
			}
		})
	}
	t.Cleanup(stop)
	return stop
}

func TestConsume(t *testing.T) {
	t.Parallel()
	for name, cfg := range modes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := open(t, cfg)
			var handled atomic.Int64
			stop := consume(t, q, ConsumeConfig{}, func(context.Context, Message) error {
				handled.Add(1)
				return nil
			})
			for i := range 200 {
				write(t, q, fmt.Sprintf("tenant%d:x", i%20))
			}
			redistest.Eventually(t, "all are acknowledged", func() bool { return stats(t, q).Counters.Acked == 200 })
			stop()
			want(t, "handled", handled.Load(), int64(200), nil)
			wantSizes(t, q, 0, 0, 0, 0)
			wantNothingLeft(t, q)
		})
	}
}

// TestFailures: an error comes again after the backoff, a panic is one, NoRetry is final and
// RetryAfter sets the delay; attempts are bounded.
func TestFailures(t *testing.T) {
	t.Parallel()
	q := open(t, Config{MaxAttempts: 3})
	write(t, q, "a:fails a:panics a:gives-up a:later b:recovers")
	var mu sync.Mutex
	attempts := map[string][]int{}
	backoff := func(attempt int, err error) time.Duration {
		if attempt < 1 || attempt > 3 || err == nil {
			t.Errorf("Backoff(%d, %v)", attempt, err)
		}
		return time.Millisecond
	}
	stop := consume(t, q, ConsumeConfig{Backoff: backoff}, func(_ context.Context, m Message) error {
		mu.Lock()
		defer mu.Unlock()
		body := string(m.Body)
		attempts[body] = append(attempts[body], m.Attempt)
		switch {
		case body == "fails":
			return errors.New("no luck")
		case body == "panics":
			panic("at the mill")
		case body == "gives-up":
			return fmt.Errorf("wrapped: %w", NoRetry(errors.New("never")))
		case body == "later":
			return RetryAfter(time.Hour, errors.New("busy"))
		case m.Attempt < 3:
			return errors.New("not yet")
		}
		return nil
	})
	redistest.Eventually(t, "all have ended", func() bool {
		s := stats(t, q)
		return s.Dead == 3 && s.Delayed == 1 && s.Counters.Acked == 1 && s.InFlight == 0
	})
	stop()
	want(t, "attempts", attempts, map[string][]int{
		"fails": {1, 2, 3}, "panics": {1, 2, 3}, "gives-up": {1}, "later": {1}, "recovers": {1, 2, 3},
	}, nil)
	reasons := map[string]string{}
	for m, err := range q.Dead().All(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		reasons[string(m.Body)] = m.Reason
	}
	want(t, "reasons", reasons, map[string]string{"fails": "no luck", "panics": "panic: at the mill", "gives-up": "wrapped: never"}, nil)
}

func TestDeadAndRetryAfterOfNil(t *testing.T) {
	t.Parallel()
	if NoRetry(nil) != nil || RetryAfter(time.Second, nil) != nil {
		t.Error("no error became one")
	}
	for attempt, most := range map[int]time.Duration{-1: time.Second, 1: time.Second, 3: 4 * time.Second, 60: 10 * time.Minute} {
		if d := Backoff(attempt, nil); d < most/2 || d > most {
			t.Errorf("Backoff(%d) = %v, want %v to %v", attempt, d, most/2, most)
		}
	}
}

// watcher is a hook that carries a header and counts its calls.
type watcher struct {
	mu    sync.Mutex
	calls map[string]int
	works []millrace.Handling
	reads []millrace.Handling
}

func (w *watcher) OnWrite(_ context.Context, headers map[string]string) { headers["trace"] = "1" }

func (w *watcher) OnCall(ctx context.Context, call millrace.Call) (context.Context, func(error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls[call.Script]++
	return ctx, nil
}

func (w *watcher) OnHandle(ctx context.Context, work millrace.Handling) (context.Context, func(error)) {
	return ctx, func(error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.works = append(w.works, work)
	}
}

func (w *watcher) OnRead(_ context.Context, work millrace.Handling) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reads = append(w.reads, work)
}

type enlister struct{ moments atomic.Int64 }

func (e *enlister) Enlist(context.Context) { e.moments.Add(1) }

func TestHooksAndEnlister(t *testing.T) {
	t.Parallel()
	w, e := &watcher{calls: map[string]int{}}, &enlister{}
	q := open(t, Config{Hooks: []millrace.Hook{w, "not a hook of any kind"}, Enlister: e})
	headers := map[string]string{"mine": "2"}
	if _, err := q.Write(t.Context(), Draft{Tenant: "a", Headers: headers}); err != nil {
		t.Fatal(err)
	}
	if len(headers) != 1 {
		t.Error("a hook wrote into the caller's headers")
	}
	stop := consume(t, q, ConsumeConfig{}, func(context.Context, Message) error { return nil })
	redistest.Eventually(t, "it is done", func() bool { return stats(t, q).Counters.Acked == 1 })
	stop()
	if len(w.works) != 1 || w.works[0].Age < 0 {
		t.Fatalf("handled = %+v", w.works)
	}
	w.works[0].Age = 0
	want(t, "handled", w.works[0], millrace.Handling{
		Structure: "fairqueue", Key: q.name, Size: 1, Attempt: 1, Headers: map[string]string{"trace": "1", "mine": "2"},
	}, nil)
	before := e.moments.Load()
	_, err := q.Read(t.Context(), ReadConfig{})
	wantError(t, err, ErrEmpty)
	if e.moments.Load() != before+1 || w.calls["fairqueue.write"] != 1 {
		t.Errorf("moments = %d, calls = %v", e.moments.Load()-before, w.calls)
	}
	write(t, q, "a:1 b:2")
	age := eventually(t, q).PickupDelay
	_, _, err = q.Exchange(t.Context(), nil, ReadConfig{})
	want(t, "number of reads", len(w.reads), 2, err)
	want(t, "the first read", w.reads[0], millrace.Handling{Structure: "fairqueue", Key: q.name, Size: 1, Age: age}, nil)
}

func TestTyped(t *testing.T) {
	t.Parallel()
	type order struct{ Number int }
	orders := Typed[order]{open(t, Config{})}
	if _, err := orders.Write(t.Context(), order{17}, Draft{Tenant: "a", Body: []byte("replaced")}); err != nil {
		t.Fatal(err)
	}
	write(t, orders.Queue, "a:nonsense")
	_, err := Typed[func()](orders).Write(t.Context(), nil, Draft{Tenant: "a"})
	wantError(t, err, millrace.ErrBadArgument)
	ctx, cancel := context.WithCancel(t.Context())
	var got []order
	done := make(chan error)
	go func() {
		done <- orders.Consume(ctx, ConsumeConfig{}, func(_ context.Context, _ Message, value order) error {
			got = append(got, value)
			return nil
		})
	}()
	redistest.Eventually(t, "both are done", func() bool { s := stats(t, orders.Queue); return s.Counters.Acked == 1 && s.Dead == 1 })
	cancel()
	wantError(t, <-done, context.Canceled)
	if diff := cmp.Diff([]order{{17}}, got); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
}
