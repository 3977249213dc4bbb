package fetch

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/millrace/millrace"
)

// Get returns the value of a key, 1 to 300 bytes without braces and control characters, and calls
// load if there is no fresh one. Values of type []byte and string are stored as they are, all others
// as JSON; the result is decoded from that, even for the caller that computed it.
//
// The context of load has ctx's values and ends after [Config].Timeout, not with ctx, because
// others may wait for the value. Load may return, besides a value:
//
//   - [millrace.ErrNotFound], wrapped or not: there is no value. The cache
//     remembers that for [Config].Negative.
//   - Any other error goes to all callers that wait for this load or come within
//     [Config].Errors, unless there is an old value. In other processes it is [ErrFailed].
//
// Errors: load's own, [millrace.ErrNotFound], [ErrFailed], the cause of ctx's end, [millrace.ErrTimeout],
// [ErrPanicked], [ErrEncoding], [millrace.ErrBadName]. That Redis does not answer or is full is
// no error.
func Get[T any](ctx context.Context, c *Cache, key string, load func(ctx context.Context) (T, error)) (T, Result, error) {
	var value T
	a := c.get(ctx, request{
		key: key,
		load: func(ctx context.Context) ([]byte, error) {
			v, err := load(ctx)
			if err != nil {
				return nil, err
			}
			return encode(v)
		},
		check: func(payload []byte) error {
			_, err := decode[T](payload)
			return err
		},
	}, func(payload []byte) (err error) {
		value, err = decode[T](payload)
		return err
	})
	a.outcome = cmp.Or(a.outcome, Failed)
	c.outcomes[a.outcome].Add(1)
	if c.cfg.Enlister != nil && (a.outcome == Hit || a.outcome == Negative) {
		c.cfg.Enlister.Enlist(ctx)
	}
	from := Result{Outcome: a.outcome, Age: a.age}
	if a.err != nil {
		var none T
		return none, from, a.err
	}
	return value, from, nil
}

// request is a call of Get of any type.
type request struct {
	key   string
	load  func(ctx context.Context) ([]byte, error) // computes a payload
	check func(payload []byte) error                // whether a payload is the type's
	again bool                                      // the call asks again
}

// answer is the result of a call or a flight. Without an error, or with
// [millrace.ErrNotFound] from a load, the outcome is neither empty nor Failed.
type answer struct {
	outcome Outcome
	payload []byte
	age     time.Duration
	err     error
	refused bool // Redis did not store it, because the key was forgotten or claimed meanwhile
}

func failed(err error) answer { return answer{err: err} }

// get answers one call, and passes the payload to into.
func (c *Cache) get(ctx context.Context, r request, into func(payload []byte) error) answer {
	if err := checkKey(r.key); err != nil {
		return failed(err)
	}
	if c.outage.away(r.key) {
		if a, ok := c.fromMemory(c.memory.recall(r.key)); ok {
			c.probe(ctx, r)
			return c.give(a, into)
		}
	}
	since := c.memory.forgotten()
	found, err := c.look(ctx, r.key, into)
	switch {
	case ctx.Err() != nil:
		return failed(context.Cause(ctx))
	case err != nil:
		remembered := c.memory.recall(r.key)
		if a, ok := c.fromMemory(remembered); ok {
			return c.give(a, into)
		}
		found = remembered.last
	case found.found() && found.kind == failedKind:
		return failed(c.failure(r.key, found))
	case found.fresh() && found.kind == noneKind:
		c.memory.noteSeen(r.key, found, since)
		return found.answer(Negative)
	case found.fresh():
		c.memory.noteSeen(r.key, found, since)
		if c.drawn(found) {
			c.refreshEarly(ctx, r, found)
		}
		return found.answer(Hit)
	case found.found() && found.paused():
		return found.answer(Stale)
	}
	alone := err != nil
	f, first, late := c.join(ctx, r, found, alone)
	if f == nil && alone {
		return c.give(found.answer(Remembered), into)
	}
	if f == nil {
		return found.answer(Stale)
	}
	select {
	case <-f.done:
	case <-ctx.Done():
		c.leave(f)
		return failed(context.Cause(ctx))
	}
	a := f.answer
	switch {
	case !first && a.outcome == Stale: // this caller found nothing: the old value has expired
		return c.get(ctx, r, into)
	case late && a.refused && !r.again: // Forget may have returned before this call
		r.again = true // the next flight begins after this call, so its value is new enough
		return c.get(ctx, r, into)
	case !first && a.outcome == Miss:
		a.outcome = Waited
	}
	return c.give(a, into)
}

// fromMemory is the answer during an outage if the key was computed, or failed, a moment ago.
func (c *Cache) fromMemory(r recalled) (answer, bool) {
	switch {
	case r.last.found() && (r.age < c.cfg.Away || r.failure != nil):
		return r.last.answer(Remembered), true
	case r.failure != nil:
		return failed(r.failure), true
	}
	return answer{}, false
}

// failure is the error for a key whose load failed a moment ago: the load's own, if it ran in
// this process.
func (c *Cache) failure(key string, e entry) error {
	if r := c.memory.recall(key); r.failure != nil {
		return r.failure
	}
	return ErrFailed.Errorf("the computation failed in another process: %s", e.payload)
}

// give passes an answer's payload to its caller.
func (c *Cache) give(a answer, into func(payload []byte) error) answer {
	if a.err == nil {
		if err := into(a.payload); err != nil {
			return failed(err)
		}
	}
	return a
}

// look returns the stored entry of a key, an empty one if accept refuses it. The error is that of
// Redis, which it does not ask during an outage.
func (c *Cache) look(ctx context.Context, key string, accept func(payload []byte) error) (entry, error) {
	if !c.outage.asks(key) {
		return entry{}, errSkipped
	}
	return c.ask(ctx, key, accept)
}

// ask is look, and also asks during an outage.
func (c *Cache) ask(ctx context.Context, key string, accept func(payload []byte) error) (entry, error) {
	asking, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	stored, left, err := c.keys.Get(asking, key)
	if err != nil && !errors.Is(err, millrace.ErrNotFound) {
		if ctx.Err() == nil {
			c.trouble(ctx, key, err)
		}
		return entry{}, err
	}
	c.answered(ctx, key)
	if err != nil {
		return entry{}, nil
	}
	return c.read(ctx, key, stored, left, accept), nil
}

// read returns the entry in stored, an empty one if accept refuses its payload.
func (c *Cache) read(ctx context.Context, key string, stored []byte, left time.Duration, accept func(payload []byte) error) entry {
	e, err := unseal(stored, left)
	if err == nil && e.kind == valueKind {
		err = accept(e.payload)
	}
	if err != nil {
		c.cfg.Logger.WarnContext(ctx, "a stored value cannot be decoded and is computed again", "key", key, "error", err)
		return entry{}
	}
	return e
}

// Forget removes the stored value of a key; the next caller computes it again. Calls that begin after
// Forget has returned get no value that was computed before, in no process. A computation in flight
// continues for the callers that came before, and is not stored.
//
// Errors: [millrace.ErrBadName] and those of pinned.Keys; then call it again.
func (c *Cache) Forget(ctx context.Context, key string) error {
	if err := checkKey(key); err != nil {
		return err
	}
	_, err := c.keys.Remove(ctx, key)
	c.mu.Lock()
	delete(c.flights, key) // later callers start another one
	c.memory.forget(key)   // last, so that no look from before is remembered
	c.mu.Unlock()
	if err == nil {
		c.revoke(ctx, key)
	}
	return err
}
