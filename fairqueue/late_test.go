package fairqueue

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/reqid"
	"github.com/millrace/millrace/internal/test/redistest"
)

// lateConsumer returns a running consumer whose acknowledgements may wait for an hour, the messages that it handled, and
// how to end it.
func lateConsumer(t *testing.T, q *Queue) (handled <-chan Message, end func()) {
	t.Helper()
	messages := make(chan Message, 100)
	c := testConsumer(t, q, func(_ context.Context, m Message) error {
		messages <- m
		return nil
	})
	c.late = time.Hour
	end = start(t, c)
	return messages, end
}

// start runs a consumer, and returns how to end it.
func start(t *testing.T, c *consumer) (end func()) {
	t.Helper()
	c.settleWithin, c.q.shared.run.Retry.Timeout = settleTimeout, 0
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := c.run(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Consume = %v, want %v", err, context.Canceled)
		}
	}()
	end = func() {
		cancel()
		<-ended
	}
	t.Cleanup(end)
	return end
}

func succeed(context.Context, Message) error { return nil }

// acked waits until so many messages were acknowledged, or more.
func acked(t *testing.T, q *Queue, n int) {
	t.Helper()
	redistest.Eventually(t, "messages are acknowledged", func() bool {
		s, err := q.Stats(t.Context())
		return err == nil && s.Counters.Acked >= int64(n)
	})
}

// TestAcknowledgementGoesAlong: a consumer that was woken acknowledges the messages before with the call that takes the next
// ones, and the last ones before it ends.
func TestAcknowledgementGoesAlong(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	writer := openOn(t, server.Client(t), "x", Config{})
	handled, end := lateConsumer(t, openOn(t, server.Client(t), "x", Config{}))
	write(t, writer, "a:0")
	<-handled
	for i := range 10 {
		blockedReaders(t, server, 1)
		write(t, writer, "b:x c:x")
		<-handled
		<-handled
		acked(t, writer, 2*i+1) // within an hour
	}
	end()
	s, err := writer.Stats(t.Context())
	want(t, "acknowledged and in flight", [2]int{int(s.Counters.Acked), s.InFlight}, [2]int{21, 0}, err)
}

// TestMayBeLate: few successes of a moment ago may wait while no message waits for them, and a timer ends that.
func TestMayBeLate(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	now := time.Now()
	some := func(n int, verb string, at time.Time) (list []finished) {
		for range n {
			list = append(list, finished{settlement: settlement{verb: verb}, at: at})
		}
		return list
	}
	for name, tt := range map[string]struct {
		finished     []finished
		loud, ending bool
		want         bool
	}{
		"none":                       {nil, true, true, true},
		"one":                        {some(1, "a", now), false, false, true},
		"a message waits":            {some(1, "a", now), true, false, false},
		"the consumer ends":          {some(1, "a", now), false, true, false},
		"a failure":                  {append(some(1, "a", now), some(1, "n", now)...), false, false, false},
		"one that was not started":   {some(1, "u", now), false, false, false},
		"many":                       {some(pumpPage/2, "a", now), false, false, false},
		"the first waited too long":  {append(some(1, "a", now.Add(-2*time.Hour)), some(1, "a", now)...), false, false, false},
		"another one waits for less": {append(some(1, "a", now), some(1, "a", now.Add(-2*time.Hour))...), false, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := testConsumer(t, q, succeed)
			c.late, c.finished, c.quiet, c.ending = time.Hour, tt.finished, !tt.loud, tt.ending
			want(t, "may be late", c.mayBeLate(), tt.want, nil)
			want(t, "a timer ends it", c.timed, tt.want && len(tt.finished) > 0, nil)
		})
	}
	c := testConsumer(t, q, succeed)
	c.finished, c.quiet, c.late = some(1, "a", time.Now()), true, time.Hour
	c.finished[0].at = time.Now().Add(time.Millisecond - time.Hour)
	if c.mayBeLate() {
		<-c.kicks
		c.mu.Lock()
		defer c.mu.Unlock()
		want(t, "may be late after the timer", c.mayBeLate(), false, nil)
	}
	got, err := ConsumeConfig{Visibility: 100 * time.Millisecond}.withDefaults()
	want(t, "for how long a short visibility lets it wait", newConsumer(q, got, succeed).late, 10*time.Millisecond, err)
}

// TestLateAcknowledgementHasAnEnd: it is settled by itself when no message comes.
func TestLateAcknowledgementHasAnEnd(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	start(t, testConsumer(t, q, succeed))
	write(t, q, "a:0")
	acked(t, q, 1)
	write(t, q, "a:0")
	acked(t, q, 2)
}

// TestAnAwaitedAcknowledgementIsKnown: the short call that takes messages tells whether another one may wait for their end.
func TestAnAwaitedAcknowledgementIsKnown(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		limited string
		limits  OwnLimits
		quiet   bool
	}{
		"nothing waits":      {"", OwnLimits{}, true},
		"for a common limit": {"", OwnLimits{MaxInFlight: new(5)}, false},
		"for a common share": {"", OwnLimits{MaxShare: new(0.5)}, false},
		"for an own limit":   {"a", OwnLimits{MaxInFlight: new(5)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := open(t, Config{})
			q.shared.run.Lanes = new(reqid.Lanes) // so that its only lane is known to the queue
			write(t, q, "b:0 b:0")
			ack(t, q, read(t, q, 1)...)
			if !tt.quiet {
				want(t, "limit", nil, nil, q.Limits().Set(t.Context(), tt.limited, tt.limits))
			}
			got, err := q.shared.takePlain(t.Context(), order{roll: anyone, most: 1, visibility: time.Minute})
			if got == nil || len(got.items) != 1 {
				t.Fatalf("a short call took %+v (%v), want a message", got, err)
			}
			want(t, "quiet", got.quiet, tt.quiet, nil)
		})
	}
	t.Run("for a handler", func(t *testing.T) {
		t.Parallel()
		q := open(t, Config{})
		goOn := make(chan struct{})
		c := testConsumer(t, q, func(context.Context, Message) error {
			<-goOn
			return nil
		})
		c.cfg.Concurrency = 20
		start(t, c)
		defer close(goOn)
		writeDrafts(t, q, slices.Repeat([]Draft{{Tenant: "b"}, {Tenant: "a"}}, 20)...)
		running := 0
		redistest.Eventually(t, "the consumer has messages and sleeps", func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			running, c.quiet = len(c.running), true
			return c.asleep && running > 0 && !q.shared.general.is()
		})
		write(t, q, "other:0")
		redistest.Eventually(t, "it knows", func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return len(c.running) > running && !c.quiet
		})
	})
}

// TestLateAcknowledgementIsKept: one that went along with a call that failed is settled later.
func TestLateAcknowledgementIsKept(t *testing.T) {
	t.Parallel()
	c := testConsumer(t, open(t, Config{}), succeed)
	c.late, c.quiet = time.Hour, true
	for range 3 {
		c.finished = append(c.finished, finished{settlement: settlement{verb: "a"}, at: time.Now()})
	}
	settle, done := c.takeLate(t.Context(), 2)
	want(t, "settlements that go along, calls and the rest", [3]int{len(settle), c.calls, len(c.finished)}, [3]int{2, 1, 1}, nil)
	done(nil, millrace.ErrUncertain)
	want(t, "calls and settlements after an error", [2]int{c.calls, len(c.finished)}, [2]int{0, 3}, nil)
	settle, done = c.takeLate(t.Context(), 1)
	done([]int{1}, nil)
	want(t, "settled, and the rest", [2]int{len(settle), len(c.finished)}, [2]int{1, 2}, nil)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if settle, _ := c.takeLate(ended, 1); settle != nil {
		t.Errorf("%d settlements go along with a sleeper's call when the consumer ends, want none", len(settle))
	}
	c.quiet = false
	if settle, _ := c.takeLate(t.Context(), 1); settle != nil {
		t.Errorf("%d settlements go along with a sleeper's call though a message waits, want none", len(settle))
	}
}

// TestFetchesInHalves: a consumer fetches when half of what its handlers can do in a moment is gone, and at once for handlers that are free.
func TestFetchesInHalves(t *testing.T) {
	t.Parallel()
	c := testConsumer(t, open(t, Config{}), succeed)
	c.known = true
	for _, tt := range []struct {
		mean                     time.Duration
		free, ready, asked, want int
	}{
		{time.Millisecond, 0, 50, 0, 0},
		{time.Millisecond, 0, 26, 0, 0},
		{time.Millisecond, 0, 25, 0, 25},
		{time.Millisecond, 0, 20, 6, 0},
		{time.Millisecond, 0, 20, 5, 25},
		{time.Millisecond, 2, 27, 0, 25},
		{time.Millisecond, 10, 0, 0, pumpPage},
		{time.Second, 0, 0, 0, 0},
		{time.Second, 3, 2, 0, 1},
		{-1, 1, 0, 0, 1},
	} {
		c.mean, c.free, c.asked, c.ready = tt.mean, tt.free, tt.asked, make([]fetched, tt.ready)
		if got := c.wanted(t.Context()); got != tt.want {
			t.Errorf("%+v: it asks for %d messages, want %d", tt, got, tt.want)
		}
	}
}
