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
	"github.com/millrace/millrace/internal/redistest"
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
	q := open(t, Config{})
	var handled atomic.Int64
	stop := consume(t, q, ConsumeConfig{}, func(context.Context, Message) error {
		handled.Add(1)
		return nil
	})
	for i := range 50 {
		write(t, q, fmt.Sprintf("tenant%d:x", i))
	}
	redistest.Eventually(t, "all are acknowledged", func() bool { return stats(t, q).Counters.Acked == 50 })
	stop()
	if n := handled.Load(); n != 50 {
		t.Errorf("handled %d times, want 50", n)
	}
}

// TestFailures: an error comes again after the backoff, a panic is one, Dead is
// the end and RetryAfter says when; attempts are bounded.
func TestFailures(t *testing.T) {
	t.Parallel()
	q := open(t, Config{MaxAttempts: 3})
	write(t, q, "a:fails a:panics a:gives-up a:later")
	later, err := q.Write(t.Context(), Draft{Tenant: "b", Body: []byte("recovers")})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	attempts := map[string][]int{}
	stop := consume(t, q, ConsumeConfig{Backoff: func(int) time.Duration { return time.Millisecond }}, func(_ context.Context, m Message) error {
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
			return fmt.Errorf("wrapped: %w", Dead(errors.New("never")))
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
	for m, err := range q.Dead(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		reasons[string(m.Body)] = m.Reason
	}
	want(t, "reasons", reasons, map[string]string{"fails": "no luck", "panics": "panic: at the mill", "gives-up": "wrapped: never"}, nil)
	if places, err := q.Cancel(t.Context(), later); err != nil || places[0] != Nowhere {
		t.Errorf("cancel of what is done = %v, %v", places, err)
	}
}

func TestDeadAndRetryAfterOfNil(t *testing.T) {
	t.Parallel()
	if Dead(nil) != nil || RetryAfter(time.Second, nil) != nil {
		t.Error("no error became one")
	}
	for attempt, most := range map[int]time.Duration{-1: time.Second, 1: time.Second, 3: 4 * time.Second, 60: 10 * time.Minute} {
		if d := Backoff(attempt); d < most/2 || d > most {
			t.Errorf("Backoff(%d) = %v, want %v to %v", attempt, d, most/2, most)
		}
	}
}

// TestHeartbeat: a handler that runs for longer than the visibility keeps its
// message, and learns within a third of it that the message was cancelled.
func TestHeartbeat(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	write(t, q, "a:x")
	ids := make(chan string, 10)
	ended := make(chan error, 1)
	consume(t, q, ConsumeConfig{Visibility: 150 * time.Millisecond}, func(ctx context.Context, m Message) error {
		ids <- m.ID
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return nil
	})
	id := <-ids
	start := time.Now()
	redistest.Eventually(t, "four times the visibility goes by", func() bool { return time.Since(start) > 600*time.Millisecond })
	if c := stats(t, q).Counters; c.Delivered != 1 || c.Reclaimed != 0 {
		t.Errorf("counters = %+v, want one delivery", c)
	}
	places, err := q.Cancel(t.Context(), id)
	want(t, "cancel", places, []Place{InFlight}, err)
	select {
	case cause := <-ended:
		wantError(t, cause, ErrCancelled)
	case <-time.After(20 * time.Second):
		t.Fatal("the handler was not told")
	}
	redistest.Eventually(t, "nothing is left", func() bool { s := stats(t, q); return s.InFlight+s.Waiting == 0 })
}

// TestDrain: handlers finish what they have in hand, and no more is read; those
// that take too long are told.
func TestDrain(t *testing.T) {
	t.Parallel()
	for name, drain := range map[string]time.Duration{"in time": 20 * time.Second, "too long": 50 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := open(t, Config{})
			write(t, q, "a:x b:x")
			entered, release := make(chan bool, 2), make(chan bool)
			ctx, cancel := context.WithCancelCause(t.Context())
			done := make(chan error, 1)
			var cause error
			go func() {
				done <- q.Consume(ctx, ConsumeConfig{Concurrency: 1, Drain: drain}, func(ctx context.Context, _ Message) error {
					entered <- true
					select {
					case <-release:
						return nil
					case <-ctx.Done():
						cause = context.Cause(ctx)
						return cause
					}
				})
			}()
			<-entered
			cancel(errStop)
			if name == "in time" {
				release <- true
			}
			wantError(t, <-done, errStop)
			s := stats(t, q)
			if name == "in time" && (s.Counters.Acked != 1 || s.Waiting != 1) {
				t.Errorf("stats = %+v, want the message in hand done and the other waiting", s)
			}
			if name == "too long" && (!errors.Is(cause, errStop) || s.Waiting != 2 || s.Counters.Returned != 1) {
				t.Errorf("cause %v, stats = %+v, want the message in hand handed back, as no attempt", cause, s)
			}
		})
	}
}

// TestAffinity: a worker takes several messages in a row from one stream, and not
// more while others wait.
func TestAffinity(t *testing.T) {
	t.Parallel()
	q := open(t, Config{Streams: 4, PerTenant: 1})
	for i := range 40 {
		write(t, q, fmt.Sprintf("tenant%d:x", i))
	}
	var order []int
	stop := consume(t, q, ConsumeConfig{Concurrency: 1, Affinity: 3}, func(_ context.Context, m Message) error {
		order = append(order, m.Stream)
		return nil
	})
	redistest.Eventually(t, "all are done", func() bool { return stats(t, q).Counters.Acked == 40 })
	stop()
	rows, longest, row := 0, 1, 1
	for i := 1; i < 20; i++ {
		if order[i] == order[i-1] {
			row++
			longest = max(longest, row)
		} else {
			rows, row = rows+1, 1
		}
	}
	if longest != 3 || rows < 4 {
		t.Errorf("order = %v, want rows of three", order[:20])
	}
}

// watcher is a hook that carries a header and remembers what was handled.
type watcher struct {
	mu    sync.Mutex
	calls map[string]int
	works []millrace.Handling
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
