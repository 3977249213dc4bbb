package expiry

import (
	"strings"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/test/shardstest"
)

// replyHistories are the replies of Redis, in the order of its documentation, and the
// hash after them.
var replyHistories = []hashHistory{
	{"expire sets a deadline", func(s *hashTale) {
		s.put(0, "a")
		s.expire(hashLong, always, "a", Applied)
		s.ttl("a", hashLong)
		s.expire(2*hashLong, always, "a", Applied)
		s.ttl("a", 2*hashLong)
	}},
	{"expire under conditions", func(s *hashTale) {
		s.put(0, "a")
		s.put(hashLong, "b")
		s.expire(hashLong, ifTTL, "a", NotMet)
		s.expire(hashLong, ifLonger, "a", NotMet) // no deadline is one that never comes
		s.ttl("a", NoTTL)
		s.expire(hashLong, ifShorter, "a", Applied)
		s.ttl("a", hashLong)
		s.expire(hashLong, ifNoTTL, "b", NotMet)
		s.expire(hashLong/2, ifLonger, "b", NotMet)
		s.expire(2*hashLong, ifShorter, "b", NotMet)
		s.ttl("b", hashLong)
		s.expire(2*hashLong, ifLonger, "b", Applied)
		s.expire(hashLong, ifShorter, "b", Applied)
		s.expire(3*hashLong, ifTTL, "b", Applied)
		s.persist("b", Applied)
		s.expire(hashLong, ifNoTTL, "b", Applied)
		s.ttl("b", hashLong)
	}},
	{"the same deadline is neither longer nor shorter", func(s *hashTale) {
		deadline := time.Now().Add(hashLong).Truncate(time.Millisecond)
		s.set(SetConfig{Deadline: deadline}, true, "a")
		for _, only := range []ExpireConfig{ifLonger, ifShorter} {
			only.Deadline = deadline
			got, err := s.h.Expire(s.Context(), inHash, 0, only, "a")
			s.want("Expire at a time", got, []Outcome{NotMet}, err)
		}
	}},
	{"expire at once removes", func(s *hashTale) {
		s.put(0, "a")
		s.put(hashLong, "b")
		s.expire(0, always, "a", Removed)
		got, err := s.h.Expire(s.Context(), inHash, 0, ExpireConfig{Deadline: time.Now().Add(-hashLong)}, "b", "b")
		s.want("Expire in the past, twice", got, []Outcome{Removed, HasNoField}, err)
		s.want("deleted", hashStats(s.T, s.h).Deleted, int64(2), nil)
		s.there()
		s.gone()
	}},
	{"expire of what is not there", func(s *hashTale) {
		s.expire(hashLong, always, "a", HasNoField)
		s.expire(0, always, "a", HasNoField)
		s.put(0, "b")
		s.expire(hashLong, always, "a", HasNoField)
		s.expire(0, ifTTL, "a", HasNoField)
		s.there("b")
	}},
	{"expire with a negative ttl", func(s *hashTale) {
		s.put(0, "a")
		_, err := s.h.Expire(s.Context(), inHash, -time.Second, ExpireConfig{}, "a")
		s.wantError("Expire", err, millrace.ErrBadArgument)
		s.there("a")
	}},
	{"conditions come before a deadline that is past", func(s *hashTale) {
		s.put(0, "a")
		s.put(hashLong, "b")
		s.expire(0, ifTTL, "a", NotMet)
		s.expire(0, ifLonger, "a", NotMet)
		s.expire(0, ifNoTTL, "b", NotMet)
		s.expire(0, ifLonger, "b", NotMet)
		s.there("a", "b")
		s.expire(0, ifShorter, "a", Removed)
		s.expire(0, ifTTL, "b", Removed)
	}},
	{"a field that is named twice", func(s *hashTale) {
		s.put(0, "a")
		got, err := s.h.Expire(s.Context(), inHash, hashLong, ifNoTTL, "a", "a")
		s.want("Expire", got, []Outcome{Applied, NotMet}, err)
		got, err = s.h.Expire(s.Context(), inHash, NoTTL, ExpireConfig{}, "a", "a")
		s.want("Persist", got, []Outcome{Applied, HasNoTTL}, err)
		n, err := s.h.Remove(s.Context(), inHash, "a", "a")
		s.want("Delete", n, 1, err)
	}},
	{"a life is whole", func(s *hashTale) {
		values := valuesKey(baseOf(s.T, s.h, inHash), inHash)
		s.put(0, "a")
		for range 20 { // there are moments at which a millisecond has just begun
			for what, live := range map[string]func(){
				"Set": func() {
					_, err := s.h.Set(s.Context(), inHash, "a", []byte("x"), SetConfig{TTL: hashLong})
					s.want("Set", nil, nil, err)
				},
				"Expire": func() { s.expire(hashLong, always, "a", Applied) },
			} {
				began := clock(s.T, s.client)
				live()
				deadline := shardstest.DeadlineOf(raw(s.T, s.client, "HGET", values, "a"))
				s.want(what+": the field ends before its time", deadline.Sub(began) < hashLong, false, nil)
				for name, read := range map[string]func() (time.Duration, error){
					"Get": func() (time.Duration, error) {
						_, ttl, err := s.h.Get(s.Context(), inHash, "a")
						return ttl, err
					},
					"TTL": func() (time.Duration, error) {
						ttls, err := timesLeft(s.Context(), s.h, inHash, "a")
						return ttls[0], err
					},
				} {
					asked := clock(s.T, s.client)
					left, err := read()
					s.want(name+" tells of more than is left", asked.Add(left).After(deadline), false, err)
				}
			}
		}
	}},
	{"ttl", func(s *hashTale) {
		s.ttl("a", noField)
		s.put(0, "a")
		s.ttl("a", NoTTL)
		s.ttl("b", noField)
		s.put(hashLong, "b")
		s.ttl("b", hashLong)
	}},
	{"persist", func(s *hashTale) {
		s.persist("a", HasNoField)
		s.put(hashLong, "a")
		s.persist("a", Applied)
		s.persist("a", HasNoTTL)
		s.persist("b", HasNoField)
		s.ttl("a", NoTTL)
		s.want("index", indexed(s.T, s.h, inHash), int64(0), nil)
	}},
	{"an expired field is none", func(s *hashTale) {
		for _, try := range []func(){
			func() { s.ttl("a", noField) },
			func() { s.expire(hashLong, always, "a", HasNoField) },
			func() { s.expire(hashLong, ifShorter, "a", HasNoField) },
			func() { s.expire(0, always, "a", HasNoField) },
			func() { s.persist("a", HasNoField) },
			func() { s.set(SetConfig{IfExist: true}, notSet, "a") },
			func() {
				n, err := s.h.Remove(s.Context(), inHash, "a")
				s.want("Delete", n, 0, err)
			},
			func() {
				was, err := s.h.RemoveHash(s.Context(), inHash)
				s.want("RemoveHash", was, false, err)
			},
			func() { s.there() },
		} {
			s.put(hashLong, "a")
			s.over("a")
			try()
			s.there()
		}
	}},
	{"set if none is there", func(s *hashTale) {
		cfg := SetConfig{IfNone: true}
		s.set(cfg, true, "a", "b")
		s.set(cfg, notSet, "b", "c")
		s.there("a", "b")
		s.put(hashLong, "c")
		s.over("c")
		s.set(cfg, true, "c")
		s.ttl("c", NoTTL)
	}},
	{"set if all are there", func(s *hashTale) {
		cfg := SetConfig{IfExist: true, TTL: hashLong}
		s.set(cfg, notSet, "a")
		s.put(0, "a", "b")
		s.set(cfg, notSet, "a", "c")
		s.ttl("a", NoTTL)
		s.set(cfg, set, "a", "b")
		s.ttl("b", hashLong)
	}},
	{"set clears a deadline", func(s *hashTale) {
		s.put(hashLong, "a")
		s.put(hashLong, "b")
		for _, cfg := range []SetConfig{{}, {IfExist: true}} {
			s.set(SetConfig{TTL: hashLong}, set, "a")
			s.set(cfg, set, "a")
			s.ttl("a", NoTTL)
			_, deadlines := stored(s.T, s.h, inHash)
			s.want("deadlines", deadlines, int64(1), nil)
		}
		s.set(SetConfig{}, set, "b")
		must(s.T, s.client, "ZADD", baseOf(s.T, s.h, inHash)+":due", "1", inHash) // the time of its old deadline
		s.reap()
		s.want("index", indexed(s.T, s.h, inHash), int64(0), nil)
	}},
	{"a deadline that is moved", func(s *hashTale) {
		s.put(hashLong, "a")
		before := indexed(s.T, s.h, inHash)
		s.set(SetConfig{TTL: 2 * hashLong}, set, "a")
		s.want("index", indexed(s.T, s.h, inHash), before, nil) // it looks after the hash at the old one
		base := baseOf(s.T, s.h, inHash)
		must(s.T, s.client, "ZADD", base+":due", "1", inHash)
		must(s.T, s.client, "HSET", valuesKey(base, inHash), "", recordOf(1))
		s.want("reap", s.reap(), reaping{0, millrace.Idle}, nil)
		if after := indexed(s.T, s.h, inHash); after < before+hashLong.Milliseconds()/2 {
			s.want("index after a look", after, before+hashLong.Milliseconds(), nil)
		}
		s.there("a")
	}},
	{"set keeps deadlines", func(s *hashTale) {
		s.put(hashLong, "a")
		s.put(hashLong, "b")
		s.over("b")
		s.set(SetConfig{KeepTTL: true}, true, "a", "b", "c")
		s.ttl("a", hashLong)
		s.ttl("b", NoTTL) // it was none
		s.ttl("c", NoTTL)
		s.reap()
		s.there("a", "b", "c")
	}},
	{"set with a deadline that is past", func(s *hashTale) {
		past := SetConfig{Deadline: time.Now().Add(-hashLong)}
		s.set(past, true, "a")
		s.gone()
		s.put(hashLong, "a")
		s.put(hashLong, "b")
		s.over("b")
		s.set(past, true, "a", "b", "c")
		s.gone()
		s.set(past, true, strings.Split("0123456789ab", "")...) // more than a sweep takes
		s.gone()
	}},
	{"incr keeps a deadline", func(s *hashTale) {
		for _, want := range []int64{2, 4} {
			got, err := s.h.Incr(s.Context(), inHash, "a", 2)
			s.want("Incr", got, want, err)
			s.expire(hashLong, always, "a", Applied)
		}
		got, err := s.h.Incr(s.Context(), inHash, "a", 2)
		s.want("Incr", got, int64(6), err)
		s.ttl("a", hashLong)
		s.over("a")
		got, err = s.h.Incr(s.Context(), inHash, "a", 3)
		s.want("Incr of an expired field", got, int64(3), err)
		s.ttl("a", NoTTL)
	}},
	{"incr of what is no number", func(s *hashTale) {
		s.put(0, "a")
		before := s.dump()
		_, err := s.h.Incr(s.Context(), inHash, "a", 1)
		s.wantError("Incr", err, ErrNotNumber)
		s.want("what is stored", s.dump(), before, nil)
	}},
	{"the hash goes with its last field", func(s *hashTale) {
		s.put(hashLong, "a", "b")
		_, err := s.h.Remove(s.Context(), inHash, "a")
		s.want("Delete", nil, nil, err)
		s.over("b")
		s.want("reap", s.reap(), reaping{1, millrace.Worked}, nil)
		s.gone()
	}},
}
