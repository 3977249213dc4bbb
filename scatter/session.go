package scatter

import (
	"context"
	"math"

	"github.com/millrace/millrace"
)

// MaxCap is the most entries that a list may keep.
const MaxCap = 10_000

// Session is what one event writes: some counters, some list entries, some members. It
// goes to one server in one call. It is for one goroutine at a time.
//
// An operation that cannot be done is noted, and has Flush fail without anything being
// sent. Names of values are 1 to 500 bytes without control characters, and do not begin
// with mr:.
type Session struct {
	*draft

	in stretch // where the values are put
}

// draft is what all views of a session share.
type draft struct {
	sc    *Scatter
	shard Shard
	key   string

	batch batch   // not yet sent
	sent  *flight // sent, and not known to have arrived
	took  string  // the name of the server that took the last one
}

// Session begins a session that goes where the shard key says. It does no I/O.
func (s *Scatter) Session(shardKey string) *Session {
	return &Session{draft: &draft{sc: s, shard: s.cfg.Shard, key: shardKey}}
}

// In returns a view of the session whose values are put into time buckets. Both are
// flushed together.
func (s *Session) In(b Bucket) *Session {
	b, err := b.checked()
	if err != nil {
		s.batch.fail(err)
	}
	return &Session{draft: s.draft, in: b.stretch()}
}

// Add adds n to a counter, which begins with 0. It is one text, as INCRBY has it.
func (s *Session) Add(key string, n int64) { s.batch.add(key, n, s.in) }

// AddFloat adds x to a counter, as INCRBYFLOAT does: with 17 digits behind the point.
// A counter is used either with Add or with AddFloat.
func (s *Session) AddFloat(key string, x float64) { s.batch.addFloat(key, x, s.in) }

// Push puts an entry of at most [MaxBody] bytes in front of a list, with the server's
// clock at the flush. Each server keeps the newest most entries, 1 to [MaxCap].
func (s *Session) Push(key string, most int, body []byte) {
	switch {
	case most < 1 || most > MaxCap:
		s.batch.fail(millrace.ErrBadArgument.Errorf("a list keeps 1 to %d entries, not %d", MaxCap, most))
	case len(body) > MaxBody:
		s.batch.fail(millrace.ErrTooLarge.Errorf("an entry of %q has %d bytes, more than %d", key, len(body), MaxBody))
	default:
		s.batch.push(key, most, pack(body, s.sc.cfg.Gzip), s.in)
	}
}

// Insert puts members of at most [MaxBody] bytes into a set.
func (s *Session) Insert(key string, members ...string) {
	if len(members) > 0 {
		s.batch.insert(key, members, s.in)
	}
}

// Score adds to the score of a member of a sorted set, which begins with 0. Read it
// with [Sum]. A member has at most [MaxBody] bytes.
func (s *Session) Score(key, member string, by float64) {
	if math.IsInf(by, 0) {
		s.batch.fail(millrace.ErrBadArgument.Errorf("%v cannot be added to the score of %q in %q", by, member, key))
		return
	}
	s.score(verbScore, key, member, by)
}

// Best raises the score of a member of a sorted set, and never lowers it. Read it with
// [Max].
func (s *Session) Best(key, member string, score float64) { s.score(verbBest, key, member, score) }

// Least lowers the score of a member of a sorted set, and never raises it. Read it with
// [Min].
func (s *Session) Least(key, member string, score float64) { s.score(verbLeast, key, member, score) }

func (s *Session) score(v verb, key, member string, score float64) {
	if math.IsNaN(score) {
		s.batch.fail(millrace.ErrBadArgument.Errorf("the score of %q in %q is no number", member, key))
		return
	}
	s.batch.score(v, key, member, score, s.in)
}

// Flush sends the session in one call, which is done wholly or not at all, and empties
// it; it may be used again. An empty one sends nothing. It has at most [MaxOperations]
// and [MaxBytes].
//
// A session that could not be flushed stays as it is. Flush it again: that is the same
// call to the same server, and what was done already is not done twice. What is added
// meanwhile goes with the call after. A server that does not answer is not replaced by
// another one, since nobody knows what it has done; who would rather lose the session, or
// count it twice, begins another one.
//
// The server knows for nine minutes what it has done. A repeat that comes later is
// refused with [millrace.ErrUncertain], and the session has forgotten what was in it:
// either all of that was written, or nothing. Where no try can have reached the server,
// as when it refuses connections, a repeat may come at any time.
//
// Errors: [millrace.ErrBadName], [millrace.ErrBadArgument] and [millrace.ErrTooLarge],
// before anything is sent; [ErrType], [ErrOverflow], [millrace.ErrEvictable], [millrace.ErrFull],
// [millrace.ErrVersion] and [millrace.ErrBroken], with nothing written;
// [millrace.ErrUncertain]; that of a server that cannot be reached within Config.Timeout.
func (s *Session) Flush(ctx context.Context) error {
	if s.sent != nil {
		if err := s.send(ctx); err != nil {
			return err
		}
	}
	if err := s.batch.check(); err != nil {
		return err
	}
	if len(s.batch.ops) == 0 {
		return nil
	}
	to, err := s.sc.choose(s.shard, s.key)
	if err != nil {
		return err
	}
	s.sent = &flight{batch: s.batch, to: to}
	s.batch = batch{}
	return s.send(ctx)
}

// send sends what is on its way, until its server has taken it or nobody can tell.
func (d *draft) send(ctx context.Context) error {
	done, err := d.sent.send(ctx, d.sc)
	if err == nil {
		d.took = d.sent.to.Name
	}
	if done {
		d.sent = nil
	}
	return err
}

// ops returns what is to be written, or on its way.
func (d *draft) ops() []*op {
	if d.sent != nil {
		return d.sent.batch.ops
	}
	return d.batch.ops
}

// choose returns the server of a shard key.
func (s *Scatter) choose(shard Shard, key string) (*server, error) {
	n := len(s.writers)
	if n == 0 {
		return nil, millrace.ErrBadArgument.Errorf("all servers are drained")
	}
	i := shard(key, n)
	if i < 0 || i >= n {
		return nil, millrace.ErrBadArgument.Errorf("Shard answered %d, which is not from 0 to %d", i, n-1)
	}
	return s.writers[i], nil
}

// Server returns the name of the server to which the last flush went, and "" before the
// first one.
func (s *Session) Server() string { return s.took }
