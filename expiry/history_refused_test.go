package expiry

import (
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/test/shardstest"
)

// refusedHistories are about repeated and refused calls.
var refusedHistories = []hashHistory{
	{"repeated calls", func(s *hashTale) {
		s.again("set", "set", "", "none", "0", "a", "1", "b", "2")
		s.again("set if none", "set", "new", "none", "0", "n", "1")
		s.again("incr", "incr", "n", "5")
		s.want("value", value(s.T, s.h, inHash, "n"), "6", nil)
		s.again("expire", "expire", "without", "in", "1000000", "a", "none")
		s.again("persist", "expire", "with", "none", "0", "a", "b", "none")
		s.again("delete", "delete", "a", "none")
		s.again("expire at once", "expire", "", "at", "0", "b")
		s.again("drop", "drop")
	}},
	{"a repeat does not overwrite", func(s *hashTale) {
		request := s.h.space.Run.Request(s.Context())
		defer request.Done()
		set := func() {
			_, err := s.h.space.Call(s.Context(), request, true, "set", inHash, inHash, "", "none", "0", "a", "old")
			s.want("set", nil, nil, err)
		}
		set()
		put(s.T, s.h, inHash, "a", "new", 0)
		set()
		s.want("value", value(s.T, s.h, inHash, "a"), "new", nil)
	}},
	{"another version", func(s *hashTale) {
		s.put(hashLong, "a")
		s.refuses(millrace.ErrVersion, func(base string) {
			must(s.T, s.client, "HSET", base, "version", "3")
			must(s.T, s.client, "HDEL", valuesKey(base, inHash), "") // as version 3 had it
		})
	}},
	{"a hash of another version", func(s *hashTale) {
		s.put(hashLong, "a")
		s.refuses(millrace.ErrVersion, func(base string) {
			must(s.T, s.client, "HSET", valuesKey(base, inHash), "", shardstest.HeadOf(time.Now().Add(time.Minute))+"5")
		})
	}},
	{"a field without a place", func(s *hashTale) {
		put(s.T, s.h, "other", "a", "1", 0)
		s.placeless()
		s.put(hashLong, "a")
		s.placeless()
	}},
	{"a shard that exists is not begun anew", func(s *hashTale) {
		s.put(hashLong, "a")
		base := baseOf(s.T, s.h, inHash)
		begin := func(shards int, want string) {
			before := s.dump()
			_, err := s.h.space.Ask(s.Context(), nil, "begin", base, shards)
			s.want("code of a begin", millrace.Code(err), want, nil)
			s.want("what is stored", s.dump(), before, nil)
		}
		begin(1, "")
		begin(2, "other_shards")
		must(s.T, s.client, "HSET", base, "version", "5")
		begin(1, millrace.ErrVersion.Code)
	}},
	{"no version", func(s *hashTale) {
		s.refuses(millrace.ErrBroken, func(base string) { must(s.T, s.client, "HSET", base, "color", "red") })
	}},
	{"a record of a wrong type", func(s *hashTale) {
		s.refuses(millrace.ErrBroken, func(base string) { must(s.T, s.client, "SET", base, "x") })
	}},
	{"values of a wrong type", func(s *hashTale) {
		put(s.T, s.h, "other", "a", "1", 0)
		s.refuses(millrace.ErrBroken, func(base string) { must(s.T, s.client, "SET", valuesKey(base, inHash), "x") })
	}},
	{"deadlines of a wrong type", func(s *hashTale) {
		put(s.T, s.h, "other", "a", "1", 0)
		s.refuses(millrace.ErrBroken, func(base string) { must(s.T, s.client, "SET", deadlinesKey(base, inHash), "x") })
	}},
	{"deadlines of a wrong type, of a hash that exists", func(s *hashTale) {
		s.put(hashLong, "a", "n")
		s.refuses(millrace.ErrBroken, func(base string) { must(s.T, s.client, "SET", deadlinesKey(base, inHash), "x") })
	}},
	{"an index of a wrong type", func(s *hashTale) {
		s.put(0, "a", "n")
		s.refuses(millrace.ErrBroken, func(base string) {
			must(s.T, s.client, "SET", base+":due", "x")
			must(s.T, s.client, "HDEL", valuesKey(base, inHash), "") // with its record a set needs no index
		})
	}},
}

// placeless wants every script that writes to refuse a field without a place, and to change
// nothing: the place is that of the hash's record.
func (s *hashTale) placeless() {
	before := s.dump()
	for name, args := range map[string][]string{
		"put": {"in", "9000000", "b", "1", "", "1"}, "set": {"", "none", "0", "b", "1", "", "1"}, "incr": {"", "1"},
		"delete": {"a", ""}, "expire": {"", "in", "1000000", "a", ""},
	} {
		_, err := s.h.space.Call(s.Context(), nil, false, name, inHash, append([]string{inHash}, args...)...)
		s.wantError(name, err, millrace.ErrBroken)
	}
	s.want("what is stored", s.dump(), before, nil)
}

// refuses spoils something, and wants every call that writes to fail and change
// nothing.
func (s *hashTale) refuses(want error, spoil func(base string)) {
	ctx, h := s.Context(), s.h
	spoil(baseOf(s.T, h, inHash))
	before := s.dump()
	for what, call := range map[string]func() error{
		"Set":         func() error { _, err := h.Set(ctx, inHash, "a", nil, SetConfig{}); return err },
		"Set TTL":     func() error { _, err := h.Set(ctx, inHash, "a", nil, SetConfig{TTL: 1}); return err },
		"Set longer":  func() error { _, err := h.Set(ctx, inHash, "a", nil, SetConfig{TTL: 9 * hashLong}); return err },
		"Set past":    func() error { _, err := h.Set(ctx, inHash, "a", nil, SetConfig{Deadline: time.Unix(1, 0)}); return err },
		"Incr":        func() error { _, err := h.Incr(ctx, inHash, "n", 1); return err },
		"Delete":      func() error { _, err := h.Remove(ctx, inHash, "a"); return err },
		"RemoveHash":  func() error { _, err := h.RemoveHash(ctx, inHash); return err },
		"Expire":      func() error { _, err := h.Expire(ctx, inHash, hashLong, ExpireConfig{}, "a"); return err },
		"Expire past": func() error { _, err := h.Expire(ctx, inHash, 0, ExpireConfig{}, "a"); return err },
		"Persist":     func() error { _, err := h.Expire(ctx, inHash, NoTTL, ExpireConfig{}, "a"); return err },
	} {
		s.wantError(what, call(), want)
	}
	s.want("what is stored", s.dump(), before, nil)
}

var fullHashHistories = []hashHistory{
	{"full: set changes nothing", func(s *hashTale) {
		s.put(hashLong, "a")
		s.put(0, "b", "n")
		s.fill()
		before := s.dump()
		ctx := s.Context()
		for _, cfg := range []SetConfig{{}, {TTL: hashLong}, {KeepTTL: true}, {IfExist: true}} {
			_, err := s.h.Set(ctx, inHash, "a", []byte("x"), cfg)
			s.wantError("Set", err, millrace.ErrFull)
		}
		_, err := s.h.Incr(ctx, inHash, "count", 1)
		s.wantError("Incr", err, millrace.ErrFull)
		s.want("what is stored", s.dump(), before, nil)
		_, err = openOn(s.T, s.client, "fresh", Config{}).Set(ctx, inHash, "a", nil, SetConfig{})
		s.wantError("Set in a new namespace", err, millrace.ErrFull)
		s.want("fresh", integer(s.T, s.client, "EXISTS", kind.RecordKey("fresh")), int64(0), nil)
	}},
	{"full: set over what is expired", func(s *hashTale) {
		s.put(hashLong, "a")
		s.put(hashLong, "b")
		s.over("a")
		s.fill()
		_, err := s.h.Incr(s.Context(), inHash, "a", 1) // a sweep cannot help: memory stays full
		s.wantError("Incr", err, millrace.ErrFull)
		s.there("b")
		s.want("reaped", hashStats(s.T, s.h).Reaped, int64(1), nil)
	}},
	{"full: reads", func(s *hashTale) {
		s.put(hashLong, "a", "b")
		s.over("b")
		s.fill()
		s.there("a")
		s.ttl("a", hashLong)
	}},
	{"full: deadlines", func(s *hashTale) {
		s.put(0, "a", "b", "c")
		s.fill()
		s.expire(hashLong, always, "a", Applied)
		s.ttl("a", hashLong)
		s.persist("a", Applied)
		s.expire(0, always, "b", Removed)
		s.there("a", "c")
	}},
	{"full: delete", func(s *hashTale) {
		s.put(hashLong, "a", "b", "c")
		s.fill()
		n, err := s.h.Remove(s.Context(), inHash, "a")
		s.want("Delete", n, 1, err)
		s.set(SetConfig{Deadline: time.Unix(1, 0)}, set, "b")
		was, err := s.h.RemoveHash(s.Context(), inHash)
		s.want("RemoveHash", was, true, err)
		s.gone()
	}},
	{"full: reap", func(s *hashTale) {
		s.put(hashLong, "a", "b", "c")
		s.over("a")
		put(s.T, s.h, "other", "a", "1", hashLong)
		must(s.T, s.client, "ZADD", baseOf(s.T, s.h, "other")+":due", "1", "other") // has nothing due
		s.fill()
		job := s.h.Jobs()[0]
		got, err := job.Slice(s.Context())
		s.want("slice", got, millrace.Worked, err)
		got, err = job.Slice(s.Context())
		s.want("slice with nothing left", got, millrace.Idle, err)
		values, _ := stored(s.T, s.h, inHash)
		s.want("stored", values, int64(2), nil)
	}},
	{"full: repair", func(s *hashTale) {
		s.put(hashLong, "a")
		must(s.T, s.client, "ZREM", baseOf(s.T, s.h, inHash)+":due", inHash)
		s.fill()
		s.want("repair", s.repair(), true, nil)
		if indexed(s.T, s.h, inHash) == 0 {
			s.want("index", 0, 1, nil)
		}
	}},
}
