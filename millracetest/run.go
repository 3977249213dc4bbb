package millracetest

import (
	"context"
	"errors"
	"runtime/debug"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
)

// RunConfig configures [RunUntilEmpty]. The zero value handles messages that are due now.
type RunConfig struct {
	// Consume configures the consumer. Its Concurrency defaults to 1 here, so that messages come
	// one after the other.
	Consume fairqueue.ConsumeConfig

	// Within is how far ahead the run goes: it also handles messages whose delay, or whose
	// visibility with another reader, ends so long after its start, and those of schedules that
	// tick until then. Messages to retry are delayed, too. Defaults to 0: they stay, and the
	// result counts them.
	Within time.Duration

	// Clock is the server whose clock moves to the next message that is due, if it is a [Mini].
	// Otherwise the run waits until the message is due. Defaults to nil: it waits.
	Clock *Server
}

// Result is the result of a run, and the messages that remain.
type Result struct {
	Handled []fairqueue.Message // the handler returned nil, in this order
	Failed  []Failure           // deliveries that failed; a message may be here several times
	Dead    []fairqueue.Message // all that are dead now, oldest death first

	Waiting  int // messages of tenants that are paused, or have used up their rate for longer than the run went
	Delayed  int // messages that are due later than the run went
	InFlight int // messages that other readers have
}

// Failure is a delivery for which the handler returned an error, or panicked.
type Failure struct {
	Message fairqueue.Message
	Err     error // [ErrNotReturned] after a panic
}

// ErrNotReturned stands for the result of a handler that panicked, or ended its goroutine with
// t.FailNow.
var ErrNotReturned = errors.New("the handler did not return")

// dueEvery is how often a queue looks for messages that are due.
const dueEvery = 100 * time.Millisecond

// stallTimeout is how long a run may make no progress while no handler runs.
const stallTimeout = 30 * time.Second

// RunUntilEmpty handles messages as [fairqueue.Queue.Consume] does, with its retries, NoRetry,
// RetryAfter and dead letters, and returns when no message waits, is in flight with the run, or is
// due within [RunConfig].Within. It fails the test if messages wait that no consumer gets, because
// the queue is paused. The handler may write to the queue.
//
// In the handler use t.Error. After t.Fatal the delivery counts as failed, and the run goes on.
//
// A [fairqueue.Typed] queue has the handler of [fairqueue.Typed.Handler].
func RunUntilEmpty(t testing.TB, q *fairqueue.Queue, handler fairqueue.Handler, cfg RunConfig) Result {
	t.Helper()
	if cfg.Consume.Concurrency == 0 {
		cfg.Consume.Concurrency = 1
	}
	r := &run{t: t, q: q, handler: handler, cfg: cfg}
	until := r.stats().At.Add(cfg.Within)
	for {
		r.consume()
		due, now := r.due() // first: a message that becomes due between the two looks is ready
		if r.ready() > 0 {
			continue // handed back by the consumer, or written meanwhile
		}
		if due.IsZero() || due.After(until) {
			break
		}
		r.pass(due.Sub(now) + dueEvery)
	}
	s := r.stats()
	r.result.Waiting, r.result.Delayed, r.result.InFlight = s.Waiting, s.Delayed, s.InFlight
	for msg, err := range q.Dead().All(t.Context()) {
		if err != nil {
			t.Fatalf("the dead messages of queue %q: %v", q.Name(), err)
		}
		r.result.Dead = append(r.result.Dead, msg)
	}
	return r.result
}

// run is one call of RunUntilEmpty.
type run struct {
	t       testing.TB
	q       *fairqueue.Queue
	handler fairqueue.Handler
	cfg     RunConfig

	mu      sync.Mutex
	running int // handlers
	result  Result
}

// stats returns the state of the queue; that of one that does not exist is empty.
func (r *run) stats() fairqueue.Stats {
	r.t.Helper()
	s, err := r.q.Stats(r.t.Context())
	if err != nil && !errors.Is(err, millrace.ErrNotFound) {
		r.t.Fatalf("the state of queue %q: %v", r.q.Name(), err)
	}
	return s
}

// ready returns how many messages a consumer could get: they wait or are due, or a schedule is to
// write one.
func (r *run) ready() int {
	r.t.Helper()
	n, err := r.q.Len(r.t.Context())
	if err != nil {
		r.t.Fatalf("the length of queue %q: %v", r.q.Name(), err)
	}
	s := r.stats()
	waiting, _ := asleep(s)
	n = max(0, n-waiting)
	if n == 0 {
		if tick := r.tick(); !tick.IsZero() && !tick.After(s.At) {
			n = 1
		}
	}
	return n
}

// tick returns when the next schedule ticks, zero for never.
func (r *run) tick() (next time.Time) {
	r.t.Helper()
	for s, err := range r.q.Schedules().All(r.t.Context()) {
		if err != nil {
			r.t.Fatalf("the schedules of queue %q: %v", r.q.Name(), err)
		}
		if !s.Paused && !s.Next.IsZero() && (next.IsZero() || s.Next.Before(next)) {
			next = s.Next
		}
	}
	return next
}

// asleep returns how many messages wait for tenants that may have none now, because they are paused
// or used up their rate, and when the first of these tenants may; zero if none ever does by itself.
func asleep(s fairqueue.Stats) (waiting int, until time.Time) {
	for _, f := range s.Flows {
		if sleeps := f.Paused || f.NotBefore.After(s.At); !sleeps || f.Waiting == 0 {
			continue
		}
		waiting += f.Waiting
		if !f.Paused && (until.IsZero() || f.NotBefore.Before(until)) {
			until = f.NotBefore
		}
	}
	return waiting, until
}

// handle calls the handler and notes the result.
func (r *run) handle(ctx context.Context, msg fairqueue.Message) error {
	r.mu.Lock()
	r.running++
	r.mu.Unlock()
	panicked, err := apart(r.t, func() error { return r.handler(ctx, msg) })
	r.mu.Lock()
	r.running--
	if err == nil {
		r.result.Handled = append(r.result.Handled, msg)
	} else {
		r.result.Failed = append(r.result.Failed, Failure{msg, err})
	}
	r.mu.Unlock()
	if panicked != nil {
		panic(panicked) // the consumer reports it
	}
	return err
}

// apart calls a handler in a goroutine of its own, because t.FailNow ends it, and a consumer would
// wait for it for ever.
func apart(t testing.TB, handler func() error) (panicked any, err error) {
	t.Helper()
	err = ErrNotReturned
	done := make(chan any)
	go func() {
		defer func() {
			v := recover()
			if v != nil {
				t.Logf("the handler panicked: %v\n%s", v, debug.Stack())
			}
			done <- v
		}()
		err = handler()
	}()
	panicked = <-done
	return panicked, err
}

// busy reports whether a handler runs.
func (r *run) busy() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.running > 0
}

// consume runs a consumer until nothing waits and nothing is in flight with it.
func (r *run) consume() {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- r.q.Consume(ctx, r.cfg.Consume, r.handle) }()
	var last fairqueue.Stats
	same, moved := 0, time.Now()
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		ready := r.ready() // first: a message that the consumer takes between the two looks is in flight
		s, busy := r.stats(), r.busy()
		if busy || s.Counters != last.Counters || s.Waiting != last.Waiting || s.InFlight != last.InFlight {
			same, moved, pause = 0, time.Now(), time.Millisecond
		} else {
			same++
		}
		last = s
		// Polls without a change after which nothing is sure to move, and after which messages in flight are another reader's, about
		// a second. On a busy machine the consumer has taken some, and its handlers have not begun: handed back, they would have used
		// up the rate of their tenants. Polls, since a machine that stands still stops them, too.
		const sure, foreign = 3, 50
		switch {
		case !busy && ready == 0 && (s.InFlight == 0 || same >= foreign):
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				r.t.Fatalf("RunUntilEmpty: the consumer of queue %q ended: %v", r.q.Name(), err)
			}
			return
		case s.Paused && ready > 0:
			r.t.Fatalf("RunUntilEmpty: queue %q is paused while %d messages wait: call Resume before", r.q.Name(), ready)
		case ready > 0 && s.Waiting == 0 && same >= sure && r.movable():
			r.pass(dueEvery) // the test stopped the clock between two looks for due work
		case time.Since(moved) > stallTimeout:
			r.t.Fatalf("RunUntilEmpty: queue %q makes no progress for %s (did the test stop the clock without RunConfig.Clock, or another reader use up a limit?):%s",
				r.q.Name(), stallTimeout, contents(r.t, r.q))
		}
		select {
		case err := <-ended:
			r.t.Fatalf("RunUntilEmpty: the consumer of queue %q ended: %v", r.q.Name(), err)
		case <-time.After(pause):
		}
	}
}

// due returns when the next message or tick is due, zero for none, and the server's time.
func (r *run) due() (due, now time.Time) {
	r.t.Helper()
	due = r.tick()
	for _, state := range []fairqueue.State{fairqueue.InFlight, fairqueue.Delayed} { // as messages go, so that none is missed
		page, _, err := r.q.Browse(r.t.Context(), fairqueue.BrowseConfig{State: state, Max: 1}) // the next that is due
		if err != nil && !errors.Is(err, millrace.ErrNotFound) {
			r.t.Fatalf("the messages of queue %q: %v", r.q.Name(), err)
		}
		if len(page) > 0 && (due.IsZero() || page[0].Until.Before(due)) {
			due = page[0].Until
		}
	}
	s := r.stats()
	if _, until := asleep(s); !until.IsZero() && (due.IsZero() || until.Before(due)) {
		due = until
	}
	return due, s.At
}

// movable reports whether the run may move the clock.
func (r *run) movable() bool { return r.cfg.Clock != nil && r.cfg.Clock.mini != nil }

// pass lets time pass on the server.
func (r *run) pass(d time.Duration) {
	r.t.Helper()
	passTime(r.t, r.cfg.Clock, d)
}

// passTime moves the clock, or waits if it cannot be moved.
func passTime(t testing.TB, clock *Server, d time.Duration) {
	t.Helper()
	if clock != nil && clock.mini != nil {
		clock.Advance(d)
		return
	}
	select {
	case <-time.After(d):
	case <-t.Context().Done():
		t.Fatalf("the test ended during a run: %v", context.Cause(t.Context()))
	}
}
