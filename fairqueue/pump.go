package fairqueue

import (
	"context"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/redis/retry"
)

const (
	// settleTimeout is for how long a consumer tries to settle a message.
	settleTimeout = 10 * time.Second

	// pumpPage is how many messages one call settles and fetches, at most.
	pumpPage = 40

	// pumpCalls is how many calls of one consumer are in flight at once.
	pumpCalls = 2

	// reserveTimeout is for how long a call keeps slots of a pool for the messages it fetches. A
	// server that is silent must not keep them from other queues.
	reserveTimeout = 50 * time.Millisecond

	// lastFetch is for how long a consumer that ends waits for a call that only fetches, and lastSettle for one that settles
	// what earlier calls did not.
	lastFetch  = time.Second
	lastSettle = time.Second
)

// outlast returns a context that ends d after ctx.
func outlast(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(d, cancel) })
	return longer, func() { stop(); cancel() }
}

// pump settles finished messages and fetches as many as handlers can start, both in one call,
// until done is closed and all are settled.
func (c *consumer) pump(ctx context.Context, stop context.CancelCauseFunc, done <-chan struct{}) {
	for {
		select {
		case <-c.kicks:
		case <-done:
			done = nil
		}
		c.mu.Lock()
		for c.step(ctx) {
		}
		over := done == nil && c.calls == 0 && len(c.finished) == 0
		failed := c.failed
		c.mu.Unlock()
		if failed != nil {
			stop(failed)
		}
		if over {
			return
		}
	}
}

// step starts one call if there is something to do, and reports whether there may be more.
// Call it with mu held.
func (c *consumer) step(ctx context.Context) bool {
	if c.calls >= pumpCalls || c.resting {
		c.reserve(0)
		return false
	}
	want := c.wanted(ctx)
	if c.asleep { // a message that comes wakes it
		want = 0
	}
	if (want == 0 || c.dry) && c.mayBeLate() {
		c.reserve(0)
		if want > 0 {
			if c.slots != nil { // others may need them meanwhile
				want = 1
			}
			c.asleep = true
			c.asked += want
			go c.sleep(ctx, want)
		}
		return false
	}
	want = c.reserve(want)
	if want == 0 && len(c.finished) == 0 {
		return false // the pool wakes this when it has a slot
	}
	n := min(len(c.finished), pumpPage)
	some := c.finished[:n:n]
	c.finished = c.finished[n:]
	c.calls++
	c.asked += want
	if c.slots != nil {
		c.reserved += want
	}
	go c.call(ctx, some, want)
	return len(c.finished) > 0
}

// reserve returns how many of the wanted messages have a slot. Call it with mu held.
func (c *consumer) reserve(want int) int {
	if c.slots == nil {
		return want
	}
	before := len(c.ready) + c.reserved
	holds := c.slots.set(before + want)
	if len(c.ready) > 0 {
		c.changed.Broadcast() // workers wait for slots, too
	}
	return max(0, min(want, holds-before))
}

// wanted is how many messages to ask for: those that handlers can start within fetchAhead, once half of what they can do
// in that time is there. Call it with mu held.
func (c *consumer) wanted(ctx context.Context) int {
	if c.ending || ctx.Err() != nil || c.failed != nil || !c.known {
		return 0
	}
	ahead := 0
	if c.mean >= 0 && c.mean < fetchAhead && c.slots == nil {
		ahead = min(fetchMost, int(time.Duration(c.cfg.Concurrency)*fetchAhead/max(c.mean, time.Microsecond)))
	}
	there := len(c.ready) + c.asked
	if there > c.free+ahead/2 {
		return 0
	}
	return max(0, min(pumpPage, c.free+ahead-there))
}

// call makes one call.
func (c *consumer) call(ctx context.Context, some []finished, want int) {
	request := workRequest{q: c.q, reader: &c.self, max: want, visibility: c.cfg.Visibility, sleeps: want > 0}
	for _, f := range some {
		request.settle = append(request.settle, f.settlement)
	}
	kept := c.slots != nil && want > 0 // the slots, by mu
	release := func() {
		if kept {
			c.reserved -= want
		}
		kept = false
	}
	if kept {
		defer time.AfterFunc(reserveTimeout, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			release()
			c.kick()
		}).Stop()
	}
	asking, stop := context.WithoutCancel(ctx), context.CancelFunc(func() {})
	switch {
	case len(some) == 0: // messages fetched later are handed back
		asking, stop = outlast(ctx, lastFetch)
	case ctx.Err() != nil: // Consume returns in time
		asking, stop = context.WithTimeout(asking, max(lastSettle, c.settleWithin-time.Since(some[len(some)-1].at)))
	}
	defer stop()
	var a workAnswer
	err := c.q.observe(asking, "work", func(ctx context.Context) (err error) {
		a, err = c.q.shared.do(ctx, request)
		return err
	})
	if err == nil && want > 0 {
		c.q.legacy.turn(len(a.messages), want)
	}
	c.stale(ctx, some, a.verdicts, a.err)
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.kick()
	release()
	c.calls--
	c.asked -= want
	if err != nil && len(some) == 0 && ctx.Err() != nil {
		return
	}
	if err != nil && (a.err != nil || len(a.verdicts) == 0) {
		if a.err != nil { // the rest is settled
			some = slices.DeleteFunc(some, func(f finished) bool { return !f.handled() })
		}
		c.trouble(ctx, some, err)
		return
	}
	c.succeeded()
	if want > 0 {
		c.dry, c.quiet = len(a.messages) < want && !a.again, a.quiet
		c.pause = a.pause
		c.take(a.messages)
	}
}

// stale notes messages that another reader has by now.
func (c *consumer) stale(ctx context.Context, some []finished, verdicts []int, err error) {
	for i, verdict := range verdicts {
		if verdict == 0 && some[i].verb != "u" && (err == nil || !some[i].handled()) {
			c.log.InfoContext(ctx, "a handler ended too late: another reader has its message, or it was cancelled", "message", some[i].id)
		}
	}
}

// succeeded notes that the server answers. Call it with mu held.
func (c *consumer) succeeded() {
	c.failures = 0
	if !c.ending { // messages given up before come again while the consumer goes on
		c.unsettled = 0
	}
}

// take gives messages to workers. Call it with mu held.
func (c *consumer) take(messages []Message) {
	if len(messages) == 0 {
		return
	}
	now := time.Now()
	for _, m := range messages {
		c.ready = append(c.ready, fetched{m, now})
	}
	if c.ending {
		c.handBack(len(c.ready))
	}
	c.changed.Broadcast()
	if len(c.ready) > c.free || c.slots != nil {
		time.AfterFunc(startWithin, c.tidy)
	}
}

// tidy hands back messages that did not start in time.
func (c *consumer) tidy() {
	c.mu.Lock()
	defer c.mu.Unlock()
	late, now := 0, time.Now()
	for late < len(c.ready) && now.Sub(c.ready[late].at) >= startWithin {
		late++
	}
	if late > 0 { // handlers are slower than before: fetch nothing ahead until some return
		c.mean = max(c.mean, startWithin)
	}
	c.handBack(late)
	c.kick()
}

// trouble notes that a call failed: a later call settles its messages. Call it with
// mu held.
func (c *consumer) trouble(ctx context.Context, some []finished, err error) {
	lost := 0
	for _, f := range some {
		if time.Since(f.at) < c.settleWithin {
			c.finished = append(c.finished, f)
		} else {
			lost++
		}
	}
	useless := permanent(err)
	if useless {
		lost += len(c.finished)
		c.failed, c.finished = err, nil
	}
	if lost > 0 {
		c.unsettled, c.unanswered = c.unsettled+lost, err
	}
	if useless {
		return
	}
	c.log.WarnContext(ctx, "a call to the queue failed", "error", err, "not_settled", lost)
	c.failures, c.resting = c.failures+1, true
	pause := retry.Policy{Base: 50 * time.Millisecond, Max: 5 * time.Second}.Pause(c.failures)
	time.AfterFunc(pause, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.resting = false
		c.kick()
	})
}

// sleep waits for messages, and gets so many at most.
func (c *consumer) sleep(ctx context.Context, want int) {
	c.mu.Lock()
	pause := c.pause
	c.mu.Unlock()
	stop := c.q.legacy.watch(want)
	request := workRequest{q: c.q, reader: &c.self, max: want, visibility: c.cfg.Visibility, sleeps: true}
	a, err := c.q.shared.sleepers.wait(ctx, request, pause, func(most int) ([]settlement, func([]int, error)) { return c.takeLate(ctx, most) })
	stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asleep, c.dry = false, false
	c.asked -= want
	if err == nil {
		c.q.legacy.turn(len(a.messages), want)
		c.succeeded()
		c.dry, c.quiet, c.pause = len(a.messages) < want && !a.again, a.quiet, a.pause
		c.take(a.messages)
	} else if ctx.Err() == nil {
		c.trouble(ctx, nil, err)
	}
	c.kick()
}
