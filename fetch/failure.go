package fetch

import (
	"errors"
	"strings"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/lease"
)

// maxFailure is how much of an error's text is stored, in bytes.
const maxFailure = 500

// failure is the error for a key whose load failed a moment ago: what it returned, if that
// was in this process.
func (c *Cache) failure(key string, e entry) error {
	if r := c.memory.recall(key); r.failure != nil {
		return r.failure
	}
	return ErrFailed.Errorf("the computation failed in another process: %s", e.payload)
}

// failed is the answer to a load that failed under the lease. Those who ask within
// [Config].Errors have the old value or the error, and nobody computes.
func (f *flight) failed(held *lease.Lease, err error) (a answer, stored bool) {
	c := f.cache
	rest := max(c.cfg.Errors, 0)
	took := stopwatch()
	e, lookErr := c.look(f.ctx, f.key, f.check) // the old value's time may be over
	if f.current() && rest > 0 {
		c.memory.fail(f.key, err, rest)
	}
	if lookErr == nil && e.found() && e.kind != failedKind {
		c.cfg.Logger.WarnContext(f.ctx, "the old value is given because a new one cannot be computed", "key", f.key, "error", err)
		if left := e.left - took(); rest > 0 && left > 0 {
			e.retry = max(left-rest, time.Millisecond)
			stored = c.store(f.ctx, f.key, held, e, left)
		}
		return e.answer(Stale), stored
	}
	if last := c.memory.recall(f.key).last; lookErr != nil && last.found() {
		return last.answer(Remembered), false
	}
	if rest > 0 && lookErr == nil {
		text := strings.ToValidUTF8(err.Error()[:min(len(err.Error()), maxFailure)], "")
		stored = c.store(f.ctx, f.key, held, entry{kind: failedKind, ttl: rest, payload: []byte(text)}, rest)
	}
	return failed(err), stored
}

// fromMemory is the answer when Redis cannot be asked and the key need not be computed: it
// was, or that failed, a moment ago.
func (c *Cache) fromMemory(r recalled) (answer, bool) {
	switch {
	case r.last.found() && (r.age < c.cfg.Away || r.failure != nil):
		return r.last.answer(Remembered), true
	case r.failure != nil:
		return failed(r.failure), true
	}
	return answer{}, false
}

// isNone reports whether a load said that there is no value.
func isNone(err error) bool { return errors.Is(err, millrace.ErrNotFound) }
