package fetch

import (
	"context"
	"errors"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/loop"
	"github.com/millrace/millrace/lease"
)

// round is for how long a flight waits for a lease at once. It is woken before, and looks
// once a second.
const round = 3 * time.Second

// flight finds or computes the value of one key for all callers in this process
// that want it now.
type flight struct {
	cache *Cache
	request
	old   entry // what its first caller found: nothing, what is old, or what is renewed early
	alone bool  // Redis does not answer
	cost  time.Duration

	ctx     context.Context // the first caller's, without its end
	waiting context.Context // ends when nobody waits and nothing is computed
	quit    context.CancelFunc

	// Guarded by the cache's mutex.
	callers   int
	computing bool

	done   chan struct{}
	answer answer // once done is closed
}

// join has a caller wait for the flight of its key, which begins if there is none.
// It returns no flight to one that should take the old value that it found, because
// somebody computes a new one already.
func (c *Cache) join(ctx context.Context, r request, old entry, alone bool) (f *flight, first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.flights[r.key]; f != nil {
		if old.found() {
			return nil, false
		}
		f.callers++
		return f, false
	}
	f = c.start(ctx, r, old, alone)
	f.callers = 1
	return f, true
}

// depart begins a flight. The mutex is held.
func (c *Cache) start(ctx context.Context, r request, old entry, alone bool) *flight {
	f := &flight{cache: c, request: r, old: old, alone: alone, done: make(chan struct{})}
	f.ctx = context.WithoutCancel(ctx)
	f.waiting, f.quit = context.WithCancel(f.ctx)
	c.flights[r.key] = f
	go f.run()
	return f
}

// current reports whether nobody has forgotten the key in this process since the flight
// began.
func (f *flight) current() bool {
	f.cache.mu.Lock()
	defer f.cache.mu.Unlock()
	return f.cache.flights[f.key] == f
}

// leave takes a caller that has gone from a flight. Without callers there is
// nothing to wait for; what is being computed is of use all the same.
func (c *Cache) leave(f *flight) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.callers--; f.callers == 0 && !f.computing {
		f.quit()
		c.remove(f)
	}
}

// land has those who come from now on start another flight. The mutex is held.
func (c *Cache) remove(f *flight) {
	if c.flights[f.key] == f { // it may be another's after Forget
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

// renew computes a new value unless somebody does so already. There is one that can be
// given, so it waits for nobody, and trouble with Redis is no reason to compute either.
func (f *flight) renew() answer {
	held, err := f.cache.acquire(f.waiting, f.key, 0, nil)
	if err != nil {
		return f.old.answer(Stale)
	}
	return f.lead(held, Hit)
}

// fill computes the value, or waits while somebody else does.
func (f *flight) fill() answer {
	for {
		var a answer
		there := false
		look := func(context.Context) (err error) {
			if a, there, err = f.lookAgain(Waited); err != nil {
				return errSkipped
			}
			if there {
				return errThere
			}
			return nil
		}
		held, err := f.cache.acquire(f.waiting, f.key, round, look)
		if errors.Is(err, lease.ErrExpired) { // the answer came too late: the next one may not
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

// lead is for the flight that holds the lease: it computes, unless somebody did so
// before it got the lease, which is the outcome found.
func (f *flight) lead(held *lease.Lease, found Outcome) answer {
	c, stored, computed := f.cache, false, (*entry)(nil)
	defer func() {
		if kept := c.release(f.ctx, f.key, held, stored); kept && computed != nil && f.current() {
			c.memory.note(f.key, *computed)
		}
	}()
	switch a, ok, err := f.lookAgain(found); {
	case err != nil && f.old.found():
		return f.old.answer(Stale)
	case err != nil:
		return f.bypass()
	case ok:
		return a
	case !f.begin():
		return f.abandoned()
	}
	payload, err := f.compute()
	e, err := f.result(payload, err)
	if err != nil {
		a, kept := f.failed(held, err)
		stored = kept
		return a
	}
	stored, computed = c.store(f.ctx, f.key, held, e, e.lifetime()), &e
	a := e.answer(Miss)
	a.age = 0
	return a
}

// result is what a load's answer is stored as.
func (f *flight) result(payload []byte, err error) (entry, error) {
	c := f.cache
	e := entry{kind: valueKind, ttl: c.jittered(), stale: c.cfg.Stale, cost: f.cost, payload: payload}
	switch {
	case isNone(err):
		e = entry{kind: noneKind, ttl: max(c.cfg.Negative, 0)}
	case err != nil:
		return entry{}, err
	}
	e.left = e.lifetime()
	return e, nil
}

// bypass computes without Redis, when it is the flight's turn, and only this process
// remembers what comes of it.
func (f *flight) bypass() answer {
	c := f.cache
	if f.ctx.Value(slot{c}) == nil { // else it is part of a computation that has a slot
		select {
		case c.slots <- struct{}{}:
			defer func() { <-c.slots }()
		case <-f.waiting.Done():
			return f.abandoned()
		}
		f.ctx = context.WithValue(f.ctx, slot{c}, true)
	}
	memory := c.memory.recall(f.key)
	if a, ok := c.fromMemory(memory); ok { // computed since its callers looked
		return a
	}
	if !f.begin() {
		return f.abandoned()
	}
	payload, err := f.compute()
	e, err := f.result(payload, err)
	switch {
	case err == nil && f.current():
		c.memory.note(f.key, e)
	case err != nil && f.current() && c.cfg.Errors > 0:
		c.memory.fail(f.key, err, c.cfg.Errors)
	}
	if err == nil {
		a := e.answer(Bypass)
		a.age = 0
		return a
	}
	if last := c.memory.recall(f.key).last; last.found() { // unless its time ended meanwhile
		return last.answer(Remembered)
	}
	return failed(err)
}

// slot is the key in the contexts of computations that have one of the cache's
// slots.
type slot struct{ *Cache }

// lookAgain looks for a fresh value, which somebody may have stored meanwhile, or whether
// somebody's load has just failed.
func (f *flight) lookAgain(found Outcome) (a answer, ok bool, err error) {
	e, err := f.cache.look(f.waiting, f.key, f.check)
	switch {
	case err != nil || !e.found():
		return answer{}, false, err
	case e.kind == failedKind:
		return failed(f.cache.failure(f.key, e)), true, nil
	case e.paused():
		return e.answer(Stale), true, nil
	case !e.fresh() || f.old.fresh() && e.left <= f.old.left: // the one that is renewed early
		return answer{}, false, nil
	case e.kind == noneKind && found == Hit:
		found = Negative
	}
	return e.answer(found), true, nil
}

// begin reports whether anybody still waits. From here on the computation is for
// whoever asks next, too, and goes on without callers.
func (f *flight) begin() bool {
	f.cache.mu.Lock()
	defer f.cache.mu.Unlock()
	f.computing = f.waiting.Err() == nil
	return f.computing
}

// deserted is the answer that nobody waits for.
func (f *flight) abandoned() answer { return failed(context.Cause(f.waiting)) }

// compute runs the load.
func (f *flight) compute() ([]byte, error) {
	c := f.cache
	c.loads.Add(1)
	ctx, cancel := context.WithTimeout(f.ctx, c.cfg.Timeout)
	defer cancel()
	took := stopwatch()
	payload, err := f.observed(ctx)
	f.cost = took()
	var panicked *loop.PanicError
	switch {
	case errors.As(err, &panicked):
		c.cfg.Logger.ErrorContext(ctx, "a load panicked", "key", f.key, "panic", panicked.Value, "stack", string(panicked.Stack))
		err = ErrPanicked.Errorf("the computation panicked: %v", panicked.Value)
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil:
		err = millrace.ErrTimeout.Errorf("the computation took longer than %s", c.cfg.Timeout).
			WithHint("Raise Timeout, or make what is computed smaller.").Wrap(err)
	}
	return payload, err
}

// observed runs the load between the hooks. It has a goroutine of its own, so that
// one which ends its goroutine does not leave its callers waiting.
func (f *flight) observed(ctx context.Context) (payload []byte, err error) {
	for _, hook := range f.cache.cfg.Hooks {
		if observer, ok := hook.(millrace.HandleHook); ok {
			var done func(error)
			if ctx, done = observer.OnHandle(ctx, millrace.Handling{Structure: "fetch", Key: f.cache.name, Size: 1, Age: -1}); done != nil {
				defer func() { done(err) }()
			}
		}
	}
	ended := make(chan struct{})
	err = ErrPanicked.Errorf("the computation ended its goroutine")
	go func() {
		defer close(ended)
		err = loop.Protect(func() (err error) {
			payload, err = f.load(ctx)
			return err
		})
	}()
	<-ended
	return payload, err
}
