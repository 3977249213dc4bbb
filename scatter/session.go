package scatter

import (
	"context"
	"math"

	"github.com/millrace/millrace"
)

const (
	maxBody = 1 << 20 // bytes of a list entry or a member
	maxCap  = 10_000  // entries that a list keeps
)

// Session collects the writes of one event: counters, list entries, members. It goes to one
// server in one call. It is for one goroutine at a time.
//
// An invalid operation makes Flush fail before anything is sent. Names of values are 1 to 500
// bytes without control characters, and not those of keys that a structure owns: they do not begin
// with mr:, and have no /ick/{ in them.
type Session struct {
	*draft

	// Server is the name of the server of the last Flush by this value that wrote something.
	Server string

	in interval // of the values
}

// draft is shared by all views of a session.
type draft struct {
	sc    *Scatter
	shard func(key string, n int) int
	key   string

	batch batch   // not yet sent
	sent  *flight // in flight
}

// Session begins a session for the server of that shard key. It does no I/O.
func (s *Scatter) Session(shardKey string) *Session {
	return &Session{draft: &draft{sc: s, shard: s.cfg.Shard, key: shardKey}}
}

// In returns a view of the session whose values go into time buckets. One Flush sends both.
func (s *Session) In(b Bucket) *Session {
	b, err := b.checked()
	if err != nil {
		s.batch.fail(err)
	}
	return &Session{draft: s.draft, in: b.interval()}
}

// Add adds n to a counter, which begins with 0, as INCRBY does.
func (s *Session) Add(key string, n int64) { s.batch.add(key, n, s.in) }

// AddFloat adds x to a counter, as INCRBYFLOAT does: with 17 digits behind the point. A counter
// is used either with Add or with AddFloat.
func (s *Session) AddFloat(key string, x float64) { s.batch.addFloat(key, x, s.in) }

// Push puts an entry of at most 1 MiB in front of a list, with the server's clock at the flush.
// Each server keeps the newest most entries, 1 to 10,000.
func (s *Session) Push(key string, most int, body []byte) {
	switch {
	case most < 1 || most > maxCap:
		s.batch.fail(millrace.ErrBadArgument.Errorf("a list keeps 1 to %d entries, not %d", maxCap, most))
	case len(body) > maxBody:
		s.batch.fail(millrace.ErrTooLarge.Errorf("an entry of %q has %d bytes, more than %d", key, len(body), maxBody))
	default:
		packed := pack(body, s.sc.cfg.Gzip)
		s.batch.bytes += len(packed)
		if o := s.batch.put(verbPush, key, s.in, 1, packed); o != nil {
			o.most = most
		}
	}
}

// Insert puts members of at most 1 MiB into a set.
func (s *Session) Insert(key string, members ...string) {
	for _, member := range members {
		s.batch.member(key, member)
	}
	if len(members) > 0 {
		s.batch.put(verbInsert, key, s.in, len(members), members...)
	}
}

// Score changes the score of a member, of at most 1 MiB, of a sorted set. [Sum] adds to the
// score, which begins with 0; [Max] only raises it and [Min] only lowers it. Readers use the
// same Merge.
func (s *Session) Score(key, member string, score float64, merge Merge) {
	switch {
	case merge < Sum || merge > Min:
		s.batch.fail(errMerge(merge))
	case math.IsNaN(score) || merge == Sum && math.IsInf(score, 0):
		s.batch.fail(millrace.ErrBadArgument.Errorf("invalid score of %q in %q: %v", member, key, score))
	default:
		s.batch.member(key, member)
		s.batch.put(verbScore+verb(merge), key, s.in, 1, member, decimal(score))
	}
}

// Flush sends the session in one call, which applies completely or not at all, and empties it
// for further use. An empty session sends nothing. A session has at most 1,000 operations and 1
// MiB.
//
// After a failure the session stays as it is. Flush it again: that repeats the same call to the
// same server, and operations that were applied are not applied twice. Operations added meanwhile
// go with the next call. No other server replaces one that does not answer, because it may have
// applied the call. A caller that prefers to lose the session, or to count it twice, begins another
// one.
//
// A flush without an answer, which may have been applied, fails with [millrace.ErrUncertain]; a
// repeat finds out, for nine minutes. A later repeat empties the
// session, and its error is [millrace.ErrStale], too: all of it was written, or nothing, and no
// call can tell. If no try can have reached the server, because it refuses connections, a
// repeat may come at any time.
//
// Errors: [millrace.ErrBadName], [millrace.ErrBadArgument] and [millrace.ErrTooLarge], before
// anything is sent; [ErrType], [ErrOverflow], [millrace.ErrEvictable], [millrace.ErrFull],
// [millrace.ErrVersion] and [millrace.ErrBroken], with nothing written;
// [millrace.ErrUncertain]; those of a server that could not be reached within Config.Timeout.
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

// send sends the batch in flight until the server applied it or the outcome is unknown.
func (s *Session) send(ctx context.Context) error {
	done, err := s.sent.send(ctx, s.sc)
	if err == nil {
		s.Server = s.sent.to.Name
	}
	if done {
		s.sent = nil
	}
	return err
}

// ops returns the operations that are not flushed yet.
func (d *draft) ops() []*op {
	if d.sent != nil {
		return d.sent.batch.ops
	}
	return d.batch.ops
}

// choose returns the server of a shard key.
func (s *Scatter) choose(shard func(string, int) int, key string) (*server, error) {
	n := len(s.writers)
	if n == 0 {
		return nil, millrace.ErrBadArgument.Errorf("all servers are drained")
	}
	i := shard(key, n)
	if i < 0 || i >= n {
		return nil, millrace.ErrBadArgument.Errorf("Shard returned %d, which is not from 0 to %d", i, n-1)
	}
	return s.writers[i], nil
}
