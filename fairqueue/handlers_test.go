package fairqueue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/test/redistest"
)

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
	passes(t, q.run.Client, 600*time.Millisecond)
	if c := stats(t, q).Counters; c.Delivered != 1 || c.Reclaimed != 0 {
		t.Errorf("counters = %+v, want one delivery", c)
	}
	places, err := q.Cancel(t.Context(), id)
	want(t, "cancel", places, []State{InFlight}, err)
	select {
	case cause := <-ended:
		wantError(t, cause, ErrCancelled)
	case <-time.After(20 * time.Second):
		t.Fatal("the handler was not told")
	}
	redistest.Eventually(t, "nothing is left", func() bool { s := stats(t, q); return s.InFlight+s.Waiting == 0 })
}

// TestDrain: handlers finish their messages, and Consume reads no more; handlers
// that take too long see their context end.
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

// TestNothingIsExtendedAfterTheDrain: the message of a handler that ignores its
// context comes again (F7 in docs/DEFECTS.md).
func TestNothingIsExtendedAfterTheDrain(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	write(t, q, "a:x")
	entered, release := make(chan bool, 1), make(chan bool)
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- q.Consume(ctx, ConsumeConfig{Visibility: 300 * time.Millisecond, Drain: 20 * time.Millisecond}, func(context.Context, Message) error {
			entered <- true
			<-release
			return nil
		})
	}()
	<-entered
	cancel(errStop)
	other := openOn(t, redistest.Shared(t).Client(t), q.name, Config{})
	m := eventually(t, other)
	want(t, "attempt", m.Attempt, 2, nil)
	close(release)
	wantError(t, <-done, errStop)
	ack(t, other, m)
}

// TestTimeout ends the context of a handler, and its message comes again.
func TestTimeout(t *testing.T) {
	t.Parallel()
	q := open(t, Config{MaxAttempts: 1})
	write(t, q, "a:x")
	consume(t, q, ConsumeConfig{Timeout: 20 * time.Millisecond}, func(ctx context.Context, _ Message) error {
		<-ctx.Done()
		return context.Cause(ctx)
	})
	redistest.Eventually(t, "it dies", func() bool { return stats(t, q).Dead == 1 })
	for m, err := range q.Dead().All(t.Context()) {
		if err != nil || m.Reason != errTimeout.Error() {
			t.Errorf("dead = %+v, %v", m, err)
		}
	}
}

// TestMaxRun: the slot of a handler that hangs is given away, and its message comes again;
// with as many as run at once Consume ends, without waiting for them.
func TestMaxRun(t *testing.T) {
	t.Parallel()
	var log redistest.Log
	q := open(t, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	write(t, q, "a:hangs")
	release := make(chan bool)
	var second atomic.Bool
	handled := make(chan string, 10)
	done := make(chan error, 1)
	go func() {
		cfg := ConsumeConfig{Concurrency: 2, MaxRun: 100 * time.Millisecond, Visibility: 500 * time.Millisecond}
		done <- q.Consume(t.Context(), cfg, func(_ context.Context, m Message) error {
			if string(m.Body) == "hangs" && (m.Attempt == 1 || second.Load()) {
				<-release
			}
			handled <- fmt.Sprint(string(m.Body), " ", m.Attempt)
			return nil
		})
	}()
	want(t, "it comes again", <-handled, "hangs 2", nil)
	want(t, "lines about it", log.Count("exceeds MaxRun"), 1, nil)
	for i := range 3 { // both slots work on
		write(t, q, fmt.Sprint("b:", i))
		want(t, "handled", <-handled, fmt.Sprint(i, " 1"), nil)
	}
	second.Store(true)
	write(t, q, "a:hangs")
	wantError(t, <-done, ErrUnhealthy)
	close(release)
	<-handled
	<-handled
}

// TestConsumerEndsAtOnce: a consumer whose context ends while it sleeps ends at once, and
// one whose calls do not come back, too.
func TestConsumerEndsAtOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	q := openOn(t, server.Client(t), "x", Config{})
	write(t, q, "a:x")
	best := time.Hour
	for range 3 {
		ctx, cancel := context.WithCancelCause(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- q.Consume(ctx, ConsumeConfig{}, func(context.Context, Message) error { return nil })
		}()
		asleep(t, q)
		start := time.Now()
		cancel(errStop)
		wantError(t, <-done, errStop)
		best = min(best, time.Since(start))
	}
	if best > 100*time.Millisecond {
		t.Errorf("a sleeping consumer ended after %v at best", best)
	}
}

// TestPrefetchIsHandedBack: prefetched messages for handlers that were quick so far go to others
// if they do not start within 20 ms, and that counts as no attempt.
func TestPrefetchIsHandedBack(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	const n = 200
	var drafts [n]Draft
	for i := range drafts {
		drafts[i] = Draft{Tenant: "a", Body: fmt.Append(nil, i)}
	}
	release, stuck := make(chan bool), make(chan bool, 2)
	var hold atomic.Bool
	consume(t, q, ConsumeConfig{Concurrency: 2}, func(context.Context, Message) error {
		if hold.Load() {
			stuck <- true
			<-release
		}
		return nil
	})
	if _, err := q.WriteBatch(t.Context(), drafts[:]...); err != nil {
		t.Fatal(err)
	}
	redistest.Eventually(t, "they are known to be quick", func() bool { return stats(t, q).Counters.Acked == n })
	hold.Store(true)
	if _, err := q.WriteBatch(t.Context(), drafts[:]...); err != nil {
		t.Fatal(err)
	}
	<-stuck
	<-stuck
	redistest.Eventually(t, "what did not start is handed back", func() bool {
		s := stats(t, q)
		return s.InFlight == 2 && s.Waiting == n-2 && s.Counters.Returned > 0
	})
	for _, m := range read(t, openOn(t, redistest.Shared(t).Client(t), q.name, Config{}), 1000) {
		if m.Attempt != 1 {
			t.Errorf("attempt = %d of what nobody handled", m.Attempt)
		}
	}
	hold.Store(false)
	close(release)
}
