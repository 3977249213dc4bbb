package fairqueue

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/loop"
)

const (
	// fetchAhead is how long before a handler is free a message for it may be fetched.
	// At most fetchMost are.
	fetchAhead = 5 * time.Millisecond
	fetchMost  = 256

	// startWithin is the time within which a fetched message must start.
	startWithin = 20 * time.Millisecond

	// beatInterval is how often a consumer reports, at least.
	beatInterval = 5 * time.Second
)

// consumer is one run of Consume.
//
//	fetched ──▶ ready ──▶ running ──▶ finished ──▶ settled, with the next fetch
//	              │          │
//	              └──────────┴─ not started in time, drained: handed back
type consumer struct {
	q        *Queue
	cfg      ConsumeConfig
	handler  Handler
	self     registration
	log      *slog.Logger
	handlers failureLog
	kicks    chan struct{} // wakes the pump
	slots    *slots        // of the Pool; nil without one

	mu       sync.Mutex
	changed  *sync.Cond
	ready    []fetched
	running  map[receipt]*running
	finished []finished
	known    bool // it has tried to register as a reader
	left     bool // it is no reader any more
	free     int  // workers that wait
	hung     int  // handlers that were given up
	calls    int  // in flight
	asked    int  // messages that those calls ask for
	reserved int  // slots that those calls keep
	asleep   bool
	dry      bool          // the last call found too little
	quiet    bool          // as of the last call, no message waited for an acknowledgement
	timed    bool          // a timer wakes the pump for late acknowledgements
	pause    time.Duration // until a message becomes due, as of the last call
	mean     time.Duration // of handlers; -1 if unknown
	failures int           // failed calls in a row
	resting  bool          // after a failed call
	failed   error         // why Consume ends, if not by its context
	ending   bool

	settleWithin time.Duration // for which it tries to settle a message
	late         time.Duration // for which an acknowledgement may wait for another call
	unsettled    int           // messages that it gave up since the queue last answered, or at the end
	unanswered   error         // why
}

// fetched is a message that no handler has yet.
type fetched struct {
	message Message
	at      time.Time
}

// running is a message that a handler has.
type running struct {
	cancel context.CancelCauseFunc
	hung   bool // the handler was given up, and does not count
}

// finished is a message that is to be settled.
type finished struct {
	settlement

	id string
	at time.Time
}

func newConsumer(q *Queue, cfg ConsumeConfig, handler Handler) *consumer {
	host, _ := os.Hostname()
	c := &consumer{
		q: q, cfg: cfg, handler: handler, log: q.cfg.Logger.With("queue", q.name),
		kicks:   make(chan struct{}, 1),
		running: map[receipt]*running{}, mean: -1, settleWithin: settleTimeout,
		late: min(settleLate, cfg.Visibility/10),
	}
	c.handlers.log = c.log
	c.changed = sync.NewCond(&c.mu)
	c.slots = cfg.Pool.join(c.kick, c.self.forget)
	c.self.slots = c.slots
	id := rand.Text()[:16]
	c.self.report = func() reader {
		c.mu.Lock()
		defer c.mu.Unlock()
		r := reader{id: id, name: cfg.Name, host: host, busy: len(c.inHand())}
		if !c.left {
			r.handlers = c.slots.share(cfg.Concurrency)
		}
		if c.ending { // the others get no more messages
			r.handlers = min(r.handlers, float64(r.busy))
		}
		return r
	}
	return c
}

// run consumes until ctx ends.
func (c *consumer) run(ctx context.Context) error {
	defer c.slots.leave()
	reading, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	work, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cut(nil)
	defer context.AfterFunc(reading, func() {
		time.AfterFunc(c.cfg.Drain, func() { cut(context.Cause(reading)) })
		c.end()
	})()

	var heart, workers, pump sync.WaitGroup
	heart.Go(func() { c.beat(work) })
	for range c.cfg.Concurrency {
		workers.Go(func() { c.serve(work, &workers) })
	}
	done := make(chan struct{})
	pump.Go(func() { c.pump(reading, stop, done) })
	c.mu.Lock()
	for !c.ending || len(c.inHand()) > 0 {
		c.changed.Wait()
	}
	c.mu.Unlock()
	close(done)
	pump.Wait()
	cut(nil)
	heart.Wait()

	leaving, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	c.mu.Lock()
	c.left = true
	c.mu.Unlock()
	_, _ = c.q.beat(leaving, c.cfg.Visibility, &c.self, nil) // else it is removed after readerTimeout
	return c.result(context.Cause(reading))
}

// result returns the error of Consume when it ends for that cause and settles nothing more.
func (c *consumer) result(cause error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unsettled == 0 {
		return cause
	}
	reason := fmt.Errorf("%w (the consumer ended: %w)", c.unanswered, cause)
	if permanent(cause) { // which says why it settled nothing
		reason = cause
	}
	text := "%d messages were not settled before the end, and come again after their visibility"
	if c.unsettled == 1 {
		text = "%d message was not settled before the end, and comes again after its visibility"
	}
	return ErrUnsettled.Errorf(text, c.unsettled).Wrap(reason)
}

// inHand returns the messages of handlers that were not given up. Call it with mu held.
func (c *consumer) inHand() (receipts []receipt) {
	for r, run := range c.running {
		if !run.hung {
			receipts = append(receipts, r)
		}
	}
	return receipts
}

// end stops workers from taking messages, and hands back those that did not start.
func (c *consumer) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ending = true
	c.handBack(len(c.ready))
	c.changed.Broadcast()
	c.kick()
}

// handBack hands back the messages that were fetched first. Call it with mu held.
func (c *consumer) handBack(n int) {
	for _, f := range c.ready[:n] {
		c.finish(f.message, "u", "")
	}
	c.ready = c.ready[n:]
}

// finish has a message settled. Call it with mu held.
func (c *consumer) finish(m Message, verb, arg string) {
	if verb == "u" {
		arg = settleArg(0, "")
	}
	c.finished = append(c.finished, finished{settlement{m.receipt(), verb, arg}, m.ID, time.Now()})
}

// kick wakes the pump.
func (c *consumer) kick() {
	select {
	case c.kicks <- struct{}{}:
	default:
	}
}

// serve is one worker.
func (c *consumer) serve(work context.Context, workers *sync.WaitGroup) {
	c.mu.Lock()
	c.free++
	c.kick()
	c.mu.Unlock()
	for {
		c.mu.Lock()
		for !c.ending && (len(c.ready) == 0 || !c.slots.take()) {
			c.changed.Wait()
		}
		c.free--
		if c.ending { // ready messages are handed back
			c.mu.Unlock()
			return
		}
		m := c.ready[0].message
		c.ready = c.ready[1:]
		ctx, cancel := context.WithCancelCause(work)
		run := &running{cancel: cancel}
		c.running[m.receipt()] = run
		c.mu.Unlock()

		start := time.Now()
		err := c.handle(ctx, cancel, m, func() { c.giveUp(work, m, run, workers) })
		cancel(nil)
		took := time.Since(start)
		verb, arg := c.verdict(work, m, err)
		if verb == "a" {
			arg = millis(took)
		}

		c.mu.Lock()
		delete(c.running, m.receipt())
		if !run.hung {
			c.free++ // so the call that settles this message asks for the next one
		}
		c.finish(m, verb, arg)
		if c.mean < 0 {
			c.mean = took
		} else {
			c.mean += (took - c.mean) / 8
		}
		if run.hung { // another worker is in its place
			c.hung--
		} else {
			c.slots.done()
		}
		if run.hung || c.ending {
			c.changed.Broadcast()
		}
		c.kick()
		c.mu.Unlock()
		if run.hung {
			return
		}
	}
}

// giveUp gives the slot of a handler to another one.
func (c *consumer) giveUp(work context.Context, m Message, run *running, workers *sync.WaitGroup) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running[m.receipt()] != run {
		return // it has just returned
	}
	run.hung = true
	c.hung++
	c.slots.done()
	if c.hung >= c.cfg.Concurrency {
		c.failed = ErrUnhealthy
	} else {
		workers.Go(func() { c.serve(work, workers) })
	}
	c.changed.Broadcast()
	c.kick()
	c.log.ErrorContext(work, "a handler exceeds MaxRun: its message comes again and another handler takes its slot",
		"message", m.ID, "hung", c.hung)
}

// handle calls the handler between the hooks, with its timeouts, and recovers its panics.
func (c *consumer) handle(ctx context.Context, cancel context.CancelCauseFunc, m Message, giveUp func()) error {
	work := millrace.Handling{
		Structure: "fairqueue", Key: c.q.name, Size: 1, Age: m.PickupDelay, Attempt: m.Attempt, Headers: m.Headers,
	}
	return loop.Handle(ctx, c.q.cfg.Hooks, work, func(ctx context.Context) error {
		if c.cfg.Timeout > 0 {
			defer time.AfterFunc(c.cfg.Timeout, func() { cancel(errTimeout) }).Stop()
		}
		if c.cfg.MaxRun > 0 {
			defer time.AfterFunc(c.cfg.MaxRun, giveUp).Stop()
		}
		return c.handler(ctx, m)
	})
}

// verdict returns how to settle a message whose handler returned err.
func (c *consumer) verdict(work context.Context, m Message, err error) (verb, arg string) {
	if err == nil {
		return "a", ""
	}
	if work.Err() != nil { // the drain ended, which is not the message's fault
		return "u", ""
	}
	reason := err.Error()
	if panicked, ok := errors.AsType[*loop.PanicError](err); ok {
		reason = fmt.Sprintf("panic: %v", panicked.Value)
	}
	c.handlers.failed(work, m, err)
	return failedAs(err, "n", c.cfg.Backoff(m.Attempt, err), reason)
}

// failedAs returns how to settle a delivery whose handler returned err: by verb after the delay,
// unless the error says otherwise.
func failedAs(err error, verb string, delay time.Duration, reason string) (how, arg string) {
	if later, ok := errors.AsType[retryAfterError](err); ok {
		verb, delay = "n", later.after
	}
	if slower, ok := errors.AsType[throttleError](err); ok {
		return "t", settleArg(max(time.Millisecond, slower.pause), reason)
	}
	if _, ok := errors.AsType[noRetryError](err); ok {
		verb = "d"
	}
	return verb, settleArg(max(0, delay), reason)
}

// beat reports the consumer and extends its messages until work ends. It ends the contexts of
// handlers whose messages were cancelled or have another reader.
func (c *consumer) beat(work context.Context) {
	interval := min(c.cfg.Visibility/3, beatInterval)
	next := time.NewTicker(interval)
	defer next.Stop()
	for {
		c.mu.Lock()
		receipts := c.inHand()
		c.mu.Unlock()
		within, cancel := context.WithTimeout(work, interval)
		good, err := c.q.beat(within, c.cfg.Visibility, &c.self, receipts)
		cancel()
		if err != nil && len(receipts) > 0 && work.Err() == nil {
			c.log.WarnContext(work, "messages in flight were not extended", "messages", len(receipts), "error", err)
		}
		c.mu.Lock()
		for i, ok := range good {
			if run := c.running[receipts[i]]; !ok && run != nil {
				run.cancel(ErrCancelled)
			}
		}
		c.known = true
		c.kick()
		c.mu.Unlock()
		select {
		case <-next.C:
		case <-work.Done():
			return
		}
	}
}
