package fairqueue

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/test/redistest"
)

// TestPoolDealsInTurn: free handlers of a pool go to its queues in turn.
func TestPoolDealsInTurn(t *testing.T) {
	t.Parallel()
	p, err := NewPool(3)
	if err != nil {
		t.Fatal(err)
	}
	woken := ""
	a, b := p.join(func() { woken += "a" }, func() {}), p.join(func() { woken += "b" }, func() {})
	want(t, "a asks for all", a.set(9), 3, nil)
	want(t, "b gets none", b.set(9), 0, nil)
	for range 3 {
		want(t, "a starts a handler", a.take(), true, nil)
	}
	want(t, "a has none left", a.take(), false, nil)
	for range 2 {
		a.done()
	}
	// They go to both in turn: b had none.
	want(t, "woken", woken, "ba", nil)
	want(t, "held", []int{a.holds, b.holds}, []int{1, 1}, nil)
	want(t, "b wants no more", b.set(0), 0, nil)
	want(t, "and a gets it", []int{a.holds, p.free}, []int{2, 0}, nil)
	want(t, "its share", a.share(3), 1.5, nil)
	a.leave()
	want(t, "free", p.free, 2, nil)
	for _, n := range []int{0, -1, 1001} {
		if _, err := NewPool(n); !errors.Is(err, millrace.ErrBadArgument) {
			t.Errorf("a pool of %d: %v", n, err)
		}
	}
}

// TestPool: two queues share handlers, never more than there are, and both have a share reported.
func TestPool(t *testing.T) {
	t.Parallel()
	pool, err := NewPool(4)
	if err != nil {
		t.Fatal(err)
	}
	queues := []*Queue{open(t, Config{}), open(t, Config{})}
	for range 100 {
		write(t, queues[0], "a:1 b:2 c:3 d:4")
	}
	write(t, queues[1], "a:1 b:2 c:3 d:4")
	var running, most atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var consumers sync.WaitGroup
	for _, q := range queues {
		consumers.Go(func() {
			_ = q.Consume(ctx, ConsumeConfig{Pool: pool}, func(context.Context, Message) error {
				n := running.Add(1)
				defer running.Add(-1)
				for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
				}
				<-time.After(time.Millisecond)
				return nil
			})
		})
	}
	redistest.Eventually(t, "the short queue is empty", func() bool { return stats(t, queues[1]).Counters.Acked == 4 })
	if n := stats(t, queues[0]).Waiting; n == 0 {
		t.Error("the long queue was emptied first")
	}
	redistest.Eventually(t, "each queue knows half of the handlers", func() bool {
		return stats(t, queues[0]).Capacity == 2 && stats(t, queues[1]).Capacity == 2
	})
	redistest.Eventually(t, "the long queue is empty", func() bool { return stats(t, queues[0]).Counters.Acked == 400 })
	// Messages behind an idle queue are there at once, and handlers get them.
	for range 20 {
		write(t, queues[1], "a:1")
	}
	redistest.Eventually(t, "more of the short queue", func() bool { return stats(t, queues[1]).Counters.Acked == 24 })
	stop()
	consumers.Wait()
	if most.Load() != 4 {
		t.Errorf("%d handlers ran at once, of 4", most.Load())
	}
	want(t, "free", pool.free, 4, nil)
}

// TestPoolAndASilentServer: a queue whose server is silent keeps no handlers from another one.
func TestPoolAndASilentServer(t *testing.T) {
	t.Parallel()
	pool, err := NewPool(2)
	if err != nil {
		t.Fatal(err)
	}
	server := redistest.Start(t, redistest.Options{})
	silent, q := openOn(t, server.Client(t), "x", Config{}), open(t, Config{})
	for range 50 {
		write(t, silent, "a:1 b:1")
		write(t, q, "a:1 b:1")
	}
	started := make(chan struct{}, 1000)
	handler := func(context.Context, Message) error {
		started <- struct{}{}
		return nil
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var consumers sync.WaitGroup
	cfg, err := ConsumeConfig{Pool: pool}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	busy := pool.join(func() {}, func() {}) // so that the first call is for one message, and leaves room for a second call
	busy.set(1)
	c := newConsumer(silent, cfg, handler)
	consumers.Go(func() { _ = c.run(ctx) })
	<-started
	server.Pause()
	redistest.Eventually(t, "all calls wait for an answer, and keep no handlers", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		pool.mu.Lock()
		defer pool.mu.Unlock()
		return c.calls == pumpCalls && c.slots.holds == 0
	})
	busy.leave()
	consumers.Go(func() { _ = q.Consume(ctx, cfg, handler) })
	redistest.Eventually(t, "the other queue is empty", func() bool { return stats(t, q).Counters.Acked == 100 })
	server.Resume()
	redistest.Eventually(t, "both are empty", func() bool { return stats(t, silent).Counters.Acked == 100 })
	stop()
	consumers.Wait()
	want(t, "free", pool.free, 2, nil)
}

// TestUnstarted: handing back is no attempt.
func TestUnstarted(t *testing.T) {
	t.Parallel()
	q := open(t, Config{MaxAttempts: 2})
	write(t, q, "a:1")
	for range 5 {
		m := read(t, q, 1)
		want(t, "attempt", m[0].Attempt, 1, nil)
		nack(t, q, NackConfig{Unstarted: true}, m...)
	}
	_, err := q.Nack(t.Context(), NackConfig{Unstarted: true, Dead: true}, read(t, q, 1)[0].Receipt)
	wantError(t, err, millrace.ErrBadArgument)
}
