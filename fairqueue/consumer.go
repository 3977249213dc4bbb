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
	// settleTimeout is for how long the end of a handler is told to Redis.
	settleTimeout = 10 * time.Second

	// fetchAhead is the time for which messages are fetched before a handler is free, and
	// fetchMost how many at most.
	fetchAhead = 5 * time.Millisecond
	fetchMost  = 256

	// callMost is how many messages one call settles, and how many it fetches, at most.
	callMost = 75

	// startWithin is when a message that was fetched must have started.
	startWithin = 20 * time.Millisecond

	// beatPeriod is how often a consumer says that it is there, at least.
	beatPeriod = 5 * time.Second

	// consumerCalls is how many calls of one consumer are under way at once.
	consumerCalls = 2
)

// consumer is one run of Consume.
//
//	fetched ──▶ ready ──▶ running ──▶ finished ──▶ settled, with the next fetch
//	              │          │
//	              └──────────┴─ not started in time, drained: handed back
type consumer struct {
	q       *Queue
	cfg     ConsumeConfig
	handler Handler
	reader  reader
	log     *slog.Logger
	kicks   chan struct{} // something changed
	beats   chan struct{} // it is time to say that it is there

	mu       sync.Mutex
	changed  *sync.Cond
	ready    []fetched
	running  map[receipt]*running
	finished []finished
	known    bool // it tried to say that it is there
	fed      bool // it got messages
	free     int  // workers that wait
	hung     int  // handlers that were given up
	calls    int  // under way
	asked    int  // messages that those calls ask for
	asleep   bool
	dry      bool          // nothing was there when last asked
	pause    time.Duration // until something is due, when last asked
	mean     time.Duration // that handlers take; -1 while nobody knows
	failures int           // failed calls in a row
	resting  bool          // after one
	failed   error         // why it ends, if not by its context
	ending   bool
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

// finished is what is to be told.
type finished struct {
	settlement

	id string
	at time.Time
}

func newConsumer(q *Queue, cfg ConsumeConfig, handler Handler) *consumer {
	host, _ := os.Hostname() // without a name it has none
	c := &consumer{
		q: q, cfg: cfg, handler: handler, log: q.cfg.Logger.With("queue", q.name),
		reader:  reader{id: rand.Text()[:16], name: cfg.Name, host: host, handlers: cfg.Concurrency},
		kicks:   make(chan struct{}, 1),
		beats:   make(chan struct{}, 1),
		running: map[receipt]*running{}, mean: -1,
	}
	c.changed = sync.NewCond(&c.mu)
	return c
}

// run consumes until ctx ends.
func (c *consumer) run(ctx context.Context) error {
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
	for !c.ending || len(c.alive()) > 0 {
		c.changed.Wait()
	}
	c.mu.Unlock()
	close(done)
	pump.Wait()
	cut(nil)
	heart.Wait()
	c.leave()
	return context.Cause(reading)
}

// alive returns the messages whose handlers count. Call it with mu held.
func (c *consumer) alive() (receipts []receipt) {
	for r, one := range c.running {
		if !one.hung {
			receipts = append(receipts, r)
		}
	}
	return receipts
}

// end has workers take no more, and hands back what they did not start.
func (c *consumer) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ending = true
	c.handBack(len(c.ready))
	c.changed.Broadcast()
	c.kick()
}

// handBack hands the oldest messages back that were fetched. Call it with mu held.
func (c *consumer) handBack(n int) {
	for _, f := range c.ready[:n] {
		c.finished = append(c.finished, finished{settled(f.message.receipt(), "u", 0, ""), f.message.ID, time.Now()})
	}
	c.ready = c.ready[n:]
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
	for {
		c.mu.Lock()
		c.free++
		c.kick()
		for len(c.ready) == 0 && !c.ending {
			c.changed.Wait()
		}
		c.free--
		if len(c.ready) == 0 {
			c.mu.Unlock()
			return
		}
		m := c.ready[0].message
		key := m.receipt()
		c.ready = c.ready[1:]
		ctx, cancel := context.WithCancelCause(work)
		one := &running{cancel: cancel}
		c.running[key] = one
		c.mu.Unlock()

		began := time.Now()
		err := c.observed(ctx, cancel, m, func() { c.giveUp(work, m, one, workers) })
		cancel(nil)
		c.mu.Lock()
		delete(c.running, key)
		c.finished = append(c.finished, finished{c.verdict(work, m, err), m.ID, time.Now()})
		took := time.Since(began)
		if c.mean < 0 {
			c.mean = took
		} else {
			c.mean += (took - c.mean) / 8
		}
		if one.hung { // another worker is in its place
			c.hung--
			c.changed.Broadcast()
			c.kick()
			c.mu.Unlock()
			return
		}
		if c.ending {
			c.changed.Broadcast()
		}
		c.mu.Unlock()
	}
}

// giveUp gives the slot of a handler to another one.
func (c *consumer) giveUp(work context.Context, m Message, one *running, workers *sync.WaitGroup) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running[m.receipt()] != one {
		return // it has just returned
	}
	one.hung = true
	c.hung++
	if c.hung >= c.cfg.Concurrency {
		c.failed = ErrUnhealthy
	} else {
		workers.Go(func() { c.serve(work, workers) })
	}
	c.changed.Broadcast()
	c.kick()
	c.log.ErrorContext(work, "a handler runs longer than MaxRun: its message comes again and its slot is given away",
		"message", m.ID, "hung", c.hung)
}

// observed runs the handler between the hooks, with its times, panics caught.
func (c *consumer) observed(ctx context.Context, cancel context.CancelCauseFunc, m Message, giveUp func()) (err error) {
	work := millrace.Handling{
		Structure: "fairqueue", Key: c.q.name, Size: 1, Age: m.PickupDelay, Attempt: m.Attempt, Headers: m.Headers,
	}
	for _, hook := range c.q.cfg.Hooks {
		if observer, ok := hook.(millrace.HandleHook); ok {
			var done func(error)
			if ctx, done = observer.OnHandle(ctx, work); done != nil {
				defer func() { done(err) }()
			}
		}
	}
	if c.cfg.Timeout > 0 {
		defer time.AfterFunc(c.cfg.Timeout, func() { cancel(errTimeout) }).Stop()
	}
	if c.cfg.MaxRun > 0 {
		defer time.AfterFunc(c.cfg.MaxRun, func() {
			giveUp()
			for _, hook := range c.q.cfg.Hooks {
				if watcher, ok := hook.(millrace.HangHook); ok {
					watcher.OnHang(ctx, work)
				}
			}
		}).Stop()
	}
	return loop.Protect(func() error { return c.handler(ctx, m) })
}

// verdict is how a message is settled whose handler returned.
func (c *consumer) verdict(work context.Context, m Message, failed error) settlement {
	if failed == nil {
		return settled(m.receipt(), "a", 0, "")
	}
	if work.Err() != nil { // cut off by the end of the drain, which is nobody's fault
		return settled(m.receipt(), "u", 0, "")
	}
	panicked, isPanic := errors.AsType[*loop.PanicError](failed)
	level, reason := slog.LevelInfo, failed.Error()
	if isPanic {
		level, reason = slog.LevelError, fmt.Sprintf("panic: %v", panicked.Value)
	}
	c.log.Log(work, level, "a handler failed", "message", m.ID, "attempt", m.Attempt, "error", failed)
	delay := c.cfg.Backoff(m.Attempt, failed)
	if later, ok := errors.AsType[laterError](failed); ok {
		delay = later.after
	}
	verb := "n"
	if _, ok := errors.AsType[deadError](failed); ok {
		verb = "d"
	}
	return settled(m.receipt(), verb, max(0, delay), brief(reason))
}

// beat extends the messages in hand until work ends, says that the consumer is there, and
// ends the contexts of those messages that are not its own any more.
func (c *consumer) beat(work context.Context) {
	period := min(c.cfg.Visibility/3, beatPeriod)
	next := time.NewTicker(period)
	defer next.Stop()
	for {
		c.mu.Lock()
		receipts := c.alive()
		r := c.reader
		r.busy = len(receipts)
		c.mu.Unlock()
		within, cancel := context.WithTimeout(work, period)
		good, err := c.q.beat(within, c.cfg.Visibility, r, receipts)
		cancel()
		if err != nil && work.Err() == nil {
			c.log.WarnContext(work, "messages in hand were not extended", "messages", len(receipts), "error", err)
		}
		c.mu.Lock()
		for i, ok := range good {
			if one := c.running[receipts[i]]; !ok && one != nil {
				one.cancel(ErrCancelled)
			}
		}
		c.known = true
		c.kick()
		c.mu.Unlock()
		select {
		case <-next.C:
		case <-c.beats:
		case <-work.Done():
			return
		}
	}
}

// leave says that the consumer is not there any more.
func (c *consumer) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	c.reader.handlers = 0
	_, _ = c.q.beat(ctx, c.cfg.Visibility, c.reader, nil) // it is forgotten by itself
}
