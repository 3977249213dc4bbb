package fairqueue

import (
	"context"
	"slices"
	"time"
)

// This file has late acknowledgements. A consumer that has handled a message and has no other call to make waits for
// a moment: the message that wakes it next is often there by then, and the call that takes it acknowledges this one as well.
//
//	handled ──┬── a message waits for the acknowledgement, or it is no success ──▶ settled at once
//	          ├── the consumer takes messages ──▶ settled by that call
//	          └── 20 ms pass ──▶ settled by a call of its own

// settleLate is for how long an acknowledgement waits at most for another call.
const settleLate = 20 * time.Millisecond

// lateAcks returns up to so many acknowledgements that go along with the next call, and what to call with their verdicts or
// the error.
type lateAcks func(most int) ([]settlement, func(verdicts []int, err error))

// mayBeLate reports whether all finished messages may wait for another call: they are few that were handled a moment
// ago, and no message waits for that. Call it with mu held.
func (c *consumer) mayBeLate() bool {
	if len(c.finished) == 0 {
		return true
	}
	rest := c.late - time.Since(c.finished[0].at)
	if !c.quiet || c.ending || rest <= 0 || len(c.finished) >= pumpPage/2 ||
		slices.ContainsFunc(c.finished, func(f finished) bool { return !f.handled() }) {
		return false
	}
	if !c.timed {
		c.timed = true
		time.AfterFunc(rest, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.timed = false
			c.kick()
		})
	}
	return true
}

// takeLate is the lateAcks of a consumer. It has none at the end of the consumer, which waits less long for an answer than a sleeper.
func (c *consumer) takeLate(ctx context.Context, most int) ([]settlement, func([]int, error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := min(len(c.finished), most)
	if n == 0 || ctx.Err() != nil || !c.mayBeLate() { // the consumer settles them
		return nil, nil
	}
	some := c.finished[:n:n]
	c.finished = c.finished[n:]
	c.calls++
	settle := make([]settlement, n)
	for i, f := range some {
		settle[i] = f.settlement
	}
	return settle, func(verdicts []int, err error) {
		if err == nil {
			c.stale(context.Background(), some, verdicts, nil)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.calls--
		if err != nil { // which the sleeper reports, too; a later call settles them
			c.finished = append(some, c.finished...)
		}
		c.kick()
	}
}

// addLate adds the late acknowledgements of readers to their requests, up to so many.
func addLate(turn []*sleeper, requests []workRequest, room int) []func([]int, error) {
	settled := make([]func([]int, error), len(turn))
	for i, w := range turn {
		if w.late != nil && room > 0 {
			requests[i].settle, settled[i] = w.late(room)
			room -= len(requests[i].settle)
		}
	}
	return settled
}
