package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/expiry"
	"github.com/millrace/millrace/internal/retry"
)

const (
	// readsPerSecond is how many reads all clerks make together, where machine and
	// server keep up. One in ten comes after its deadline, and some are about the
	// end of a session, so about 5,000 are hits.
	readsPerSecond = 5600

	// nearEdge is how many sessions on either side of the next one to end are read
	// more often than others: about 0.8 s before and after their deadline.
	nearEdge = 20

	// renewBefore is how long before its end a session is renewed at the earliest.
	renewBefore = 30 * time.Millisecond
)

// sessionValue tells the session's deadline, so that each is another one.
func sessionValue(end time.Time) []byte { return strconv.AppendInt(nil, end.UnixMilli(), 10) }

// clerk serves visitors that nobody else serves, and so knows for each what must be
// found.
type clerk struct {
	host  *host
	first int         // the number of its first visitor; each other one is clerks further on
	ends  []time.Time // when the sessions of its visitors are over
	edge  int         // the next one that comes to its end
}

// serve makes reads until ctx ends.
func (c *clerk) serve(ctx context.Context) error {
	next := time.Now()
	for {
		// Visitors know nothing of each other, so pauses are exponential. A clerk
		// that is late does not catch up.
		next = next.Add(time.Duration(rand.ExpFloat64() * float64(time.Second) * hosts * clerks / readsPerSecond))
		if late := time.Now(); late.After(next) {
			next = late
		}
		if !retry.Sleep(ctx, time.Until(next)) {
			return nil
		}
		err := c.renew(ctx)
		if err == nil {
			err = c.read(ctx)
		}
		if ctx.Err() != nil {
			return nil //nolint:nilerr // a call that was cut off says nothing
		}
		if err != nil {
			return err
		}
	}
}

// hash is the hash of a visitor by its place among the clerk's own.
func (c *clerk) hash(place int) string { return visitorHash(c.first + place*clerks) }

// renew passes the sessions by that are over, and renews one that is about to be if
// it is among those that are renewed.
func (c *clerk) renew(ctx context.Context) error {
	for ; c.edge < len(c.ends); c.edge++ {
		hash, end := c.hash(c.edge), c.ends[c.edge]
		asked := time.Now()
		earliest, latest := c.host.clock.bounds(shardOf(hash), asked)
		if earliest.Before(end.Add(-renewBefore)) {
			return nil
		}
		if c.edge%renewEvery == 0 && latest.Before(end) {
			if err := c.extend(ctx, hash, end, asked); err != nil {
				return err
			}
		} else if latest.Before(end) {
			return nil
		}
	}
	return nil
}

// extend renews the session at the edge, unless it is over by the time the server
// gets to it. It is not cut off, because then nobody would know which it was.
func (c *clerk) extend(ctx context.Context, hash string, end, asked time.Time) error {
	later := end.Add(c.host.sessionSpan())
	set, err := c.host.hashes.Set(context.WithoutCancel(ctx), hash, sessionField, sessionValue(later),
		expiry.SetConfig{Deadline: later, IfExist: true})
	if err != nil {
		return err
	}
	c.compare(hash, end, set.Set, asked)
	if set.Set {
		c.ends[c.edge] = later
		c.host.mu.Lock()
		defer c.host.mu.Unlock()
		c.host.news.Began = append(c.host.news.Began, later.UnixMilli())
		c.host.news.Renewed = append(c.host.news.Renewed, end.UnixMilli())
	}
	return nil
}

// read reads a field of some visitor.
func (c *clerk) read(ctx context.Context) error {
	place, field := rand.IntN(len(c.ends)), nameField
	switch kind := rand.IntN(10); {
	case kind < 2:
		place, field = min(max(0, c.edge-nearEdge+rand.IntN(2*nearEdge)), len(c.ends)-1), sessionField
	case kind < 6 && c.edge < len(c.ends):
		place, field = c.edge+rand.IntN(len(c.ends)-c.edge), sessionField
	}
	hash := c.hash(place)
	asked := time.Now()
	value, err := c.host.get(ctx, hash, field)
	if err != nil && !errors.Is(err, millrace.ErrNotFound) {
		return err
	}
	end, want := time.Time{}, hash
	if field == sessionField {
		end, want = c.ends[place], string(sessionValue(c.ends[place]))
	}
	hit := err == nil
	over := c.compare(hash, end, hit && string(value) == want, asked)

	h := c.host
	h.mu.Lock()
	defer h.mu.Unlock()
	h.news.Reads++
	if hit {
		h.news.Hits++
	}
	if over {
		h.news.Over++
	}
	return nil
}

// compare holds what a call found, which was made at asked and has just returned,
// against the deadline; no deadline is the zero time. It reports whether the call
// came after the deadline and found nothing.
//
// The server looked at the field between then and now. So it may be found only if
// it was not over then, and may be missing only if it may be over now.
func (c *clerk) compare(hash string, end time.Time, found bool, asked time.Time) (over bool) {
	shard := shardOf(hash)
	earliest, _ := c.host.clock.bounds(shard, asked)
	_, latest := c.host.clock.bounds(shard, time.Now())
	h := c.host
	switch {
	case found && !end.IsZero() && !earliest.Before(end):
		h.mu.Lock()
		defer h.mu.Unlock()
		h.news.Late++
		h.fail("the session of %s was found %s after its deadline", hash, earliest.Sub(end))
	case !found && (end.IsZero() || latest.Before(end)):
		h.mu.Lock()
		defer h.mu.Unlock()
		h.news.Early++
		if end.IsZero() {
			h.fail("a field of %s was missing, or another one, and has no deadline", hash)
		} else {
			h.fail("the session of %s was missing, or another one, %s before its deadline", hash, end.Sub(latest))
		}
	}
	return !found && !end.IsZero() && !earliest.Before(end)
}

// fail remembers what broke a promise. Call it with mu held.
func (h *host) fail(format string, args ...any) {
	if len(h.news.Failures) < maxFailures {
		h.news.Failures = append(h.news.Failures, fmt.Sprintf(format, args...))
	}
}
