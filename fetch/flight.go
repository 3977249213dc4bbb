package fetch

import (
	"context"
	"errors"
	"math"
	"strings"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/loop"
	"github.com/millrace/millrace/lease"
)

const (
	// round is how long one request for a lease waits. A waiter is woken, and looks once a
	// second.
	round = 3 * time.Second

	// maxFailure is how many bytes of an error's text are stored.
	maxFailure = 500
)

// flight finds or computes the value of one key for all callers in this process.
type flight struct {
	cache *Cache
	request
	old   entry // found by the first caller: nothing, an old value, or one to refresh early
	alone bool  // Redis does not answer

	ctx     context.Context // has the values of the first caller's, but not its end
	waiting context.Context // ends when no caller waits and no load runs
	quit    context.CancelFunc

	// Guarded by the cache's mutex.
	callers   int
	computing bool

	done   chan struct{}
	answer answer // set before done is closed
}

// join adds a caller to the flight of its key, and starts one if there is none. It returns nil if
// the caller should return the old value, because another caller computes a new one. A caller is
// late if the load has begun before.
func (c *Cache) join(ctx context.Context, r request, old entry, alone bool) (f *flight, first, late bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.flights[r.key]; f != nil {
		if old.found() {
			return nil, false, false
		}
		f.callers++
		return f, false, f.computing
	}
	f = c.start(ctx, r, old, alone)
	f.callers = 1
	return f, true, false
}

// refreshEarly computes a fresh value again in the background.
func (c *Cache) refreshEarly(ctx context.Context, r request, found entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.flights[r.key] == nil {
		c.early.Add(1)
		c.start(ctx, r, found, false)
	}
}

// start starts a flight. The mutex is held.
func (c *Cache) start(ctx context.Context, r request, old entry, alone bool) *flight {
	f := &flight{cache: c, request: r, old: old, alone: alone, done: make(chan struct{})}
	f.ctx = context.WithoutCancel(ctx)
	f.waiting, f.quit = context.WithCancel(f.ctx)
	c.flights[r.key] = f
	go f.run()
	return f
}

// remember calls do, which changes this process's memory of the key, unless the key was
// forgotten in this process since the flight started.
func (f *flight) remember(do func()) {
	f.cache.mu.Lock()
	defer f.cache.mu.Unlock()
	if f.cache.flights[f.key] == f {
		do()
	}
}

// leave removes a caller. The last one ends a flight that still waits; a load continues, because
// its value is stored.
func (c *Cache) leave(f *flight) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.callers--; f.callers == 0 && !f.computing {
		f.quit()
		c.remove(f)
	}
}

// remove lets later callers start another flight. The mutex is held.
func (c *Cache) remove(f *flight) {
	if c.flights[f.key] == f { // after Forget there may be another one
		delete(c.flights, f.key)
	}
}

func (f *flight) run() {
	defer f.quit()
	switch {
	case f.alone:
		f.answer = f.bypass()
	case f.old.found():
		f.answer = f.renew()
	default:
		f.answer = f.fill()
	}
	f.cache.mu.Lock()
	f.cache.remove(f)
	f.cache.mu.Unlock()
	close(f.done)
}

// renew computes a new value in place of an old one, if no other process does and Redis answers.
func (f *flight) renew() answer {
	held, err := f.cache.acquire(f.waiting, f.key, 0, nil)
	if err != nil {
		return f.old.answer(Stale)
	}
	return f.lead(held, Hit)
}

// fill computes the value, or waits while another process does.
func (f *flight) fill() answer {
	for {
		var a answer
		there := false
		look := func(context.Context) error {
			e, err := f.cache.look(f.waiting, f.key, f.check)
			if err != nil {
				return errSkipped
			}
			if a, there = f.settled(e, Waited); there {
				return errThere
			}
			return nil
		}
		held, err := f.cache.acquire(f.waiting, f.key, round, look)
		if errors.Is(err, lease.ErrExpired) { // the reply came too late: try again
			if err = look(f.waiting); err == nil {
				continue
			}
		}
		switch {
		case err == nil:
			return f.lead(held, Waited)
		case there:
			return a
		case f.waiting.Err() != nil:
			return f.abandoned()
		case !errors.Is(err, lease.ErrHeld):
			return f.bypass()
		}
	}
}

// lead computes under the lease. If another process stored a value before that, the outcome is
// found.
func (f *flight) lead(held *lease.Lease, found Outcome) answer {
	c := f.cache
	defer func() { _ = held.Release(f.ctx) }() // after an error it ends at its deadline
	claim, e, err := c.claim(f.waiting, f.key, f.check)
	switch a, ok := f.settled(e, found); {
	case err != nil && f.old.found():
		return f.old.answer(Stale)
	case err != nil:
		return f.bypass()
	case ok:
		return a
	case !f.begin():
		return f.abandoned()
	}
	e, err = f.compute()
	if err != nil {
		return f.failed(claim, err)
	}
	a := e.answer(Miss)
	if a.refused = c.store(f.ctx, f.key, claim, e, e.lifetime()); !a.refused {
		f.remember(func() { c.memory.note(f.key, e) })
	}
	return a
}

// failed is the answer after a load that failed under the lease: the old value or the error, also
// for all callers within [Config].Errors.
func (f *flight) failed(claim string, err error) answer {
	c := f.cache
	rest, took := max(c.cfg.Errors, 0), stopwatch()
	e, lookErr := c.look(f.ctx, f.key, f.check) // the old value may have expired
	if rest > 0 {
		f.remember(func() { c.memory.fail(f.key, err, rest) })
	}
	if lookErr == nil && e.found() && e.kind != failedKind {
		c.cfg.Logger.WarnContext(f.ctx, "a load failed, and callers get the old value", "key", f.key, "error", err)
		if left := e.left - took(); rest > 0 && left > 0 {
			e.retry = max(left-rest, time.Millisecond)
			c.store(f.ctx, f.key, claim, e, left)
		}
		return e.answer(Stale)
	}
	if last := c.memory.recall(f.key).last; lookErr != nil && last.found() {
		return last.answer(Remembered)
	}
	if rest > 0 && lookErr == nil {
		text := strings.ToValidUTF8(err.Error()[:min(len(err.Error()), maxFailure)], "")
		c.store(f.ctx, f.key, claim, entry{kind: failedKind, ttl: rest, payload: []byte(text)}, rest)
	}
	return failed(err)
}

// bypass computes without Redis, in one of the slots. Only this process remembers the result.
func (f *flight) bypass() answer {
	c := f.cache
	if f.ctx.Value(slot{c}) == nil { // otherwise it is part of a load that has a slot
		select {
		case c.slots <- struct{}{}:
			defer func() { <-c.slots }()
		case <-f.waiting.Done():
			return f.abandoned()
		}
		f.ctx = context.WithValue(f.ctx, slot{c}, true)
	}
	if a, ok := c.fromMemory(c.memory.recall(f.key)); ok { // computed since the callers looked
		return a
	}
	if !f.begin() {
		return f.abandoned()
	}
	e, err := f.compute()
	if err == nil {
		f.remember(func() { c.memory.note(f.key, e) })
		return e.answer(Bypass)
	}
	if c.cfg.Errors > 0 {
		f.remember(func() { c.memory.fail(f.key, err, c.cfg.Errors) })
	}
	if last := c.memory.recall(f.key).last; last.found() { // unless it has expired
		return last.answer(Remembered)
	}
	return failed(err)
}

// slot marks the contexts of loads that have one of the cache's slots.
type slot struct{ *Cache }

// settled returns the answer if another process has stored one meanwhile: a fresh value, or a
// failure.
func (f *flight) settled(e entry, found Outcome) (a answer, ok bool) {
	switch {
	case !e.found():
		return answer{}, false
	case e.kind == failedKind:
		return failed(f.cache.failure(f.key, e)), true
	case e.paused():
		return e.answer(Stale), true
	case !e.fresh() || f.old.fresh() && e.left <= f.old.left: // the value to refresh
		return answer{}, false
	case e.kind == noneKind && found == Hit:
		found = Negative
	}
	return e.answer(found), true
}

// begin reports whether a caller still waits. From then on the load continues without callers.
func (f *flight) begin() bool {
	f.cache.mu.Lock()
	defer f.cache.mu.Unlock()
	f.computing = f.waiting.Err() == nil
	return f.computing
}

// abandoned is the answer of a flight without callers.
func (f *flight) abandoned() answer { return failed(context.Cause(f.waiting)) }

// compute runs the load, and returns its result as an entry.
func (f *flight) compute() (entry, error) {
	c := f.cache
	c.loads.Add(1)
	ctx, cancel := context.WithTimeout(f.ctx, c.cfg.Timeout)
	defer cancel()
	took := stopwatch()
	payload, err := f.call(ctx)
	cost := took()
	var panicked *loop.PanicError
	switch {
	case errors.As(err, &panicked):
		c.cfg.Logger.ErrorContext(ctx, "a load panicked", "key", f.key, "panic", panicked.Value, "stack", string(panicked.Stack))
		err = ErrPanicked.Errorf("the computation panicked: %v", panicked.Value)
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil:
		err = millrace.ErrTimeout.Errorf("the computation took longer than %s", c.cfg.Timeout).
			WithHint("Raise Timeout, or make the computation smaller.").Wrap(err)
	}
	e := entry{kind: valueKind, ttl: c.jittered(), stale: c.cfg.Stale, cost: cost, payload: payload}
	if errors.Is(err, millrace.ErrNotFound) {
		e, err = entry{kind: noneKind, ttl: max(c.cfg.Negative, 0)}, nil
	}
	e.left = e.lifetime()
	return e, err
}

// call calls the load between the hooks, in a goroutine that it may end.
func (f *flight) call(ctx context.Context) (payload []byte, err error) {
	work := millrace.Handling{Structure: "fetch", Key: f.cache.name, Size: 1, Age: -1}
	err = loop.Handle(ctx, f.cache.cfg.Hooks, work, func(ctx context.Context) error {
		ended := make(chan struct{})
		var err error = ErrPanicked.Errorf("the computation ended its goroutine")
		go func() {
			defer close(ended)
			err = loop.Protect(func() (err error) {
				payload, err = f.load(ctx)
				return err
			})
		}()
		<-ended
		return err
	})
	return payload, err
}

// drawn reports whether a reader of a fresh value should refresh it early, by Vattani, Chierichetti
// and Lowenstein, "Optimal Probabilistic Cache Stampede Prevention" (2015): the probability grows
// towards the end and with the duration of the last load. It is 0 in the first half of the TTL.
func (c *Cache) drawn(e entry) bool {
	left := e.left - e.stale
	if c.cfg.Early <= 0 || e.cost <= 0 || left > e.ttl/2 || e.paused() {
		return false
	}
	return float64(left) <= -float64(e.cost)*c.cfg.Early*math.Log(1-c.random())
}

func (c *Cache) jittered() time.Duration {
	ttl := c.cfg.TTL
	if c.cfg.Jitter > 0 {
		ttl -= time.Duration(float64(ttl) * c.cfg.Jitter * c.random())
	}
	return max(ttl.Truncate(time.Millisecond), time.Millisecond)
}
