package expiry

import (
	"fmt"
	"time"

	"github.com/millrace/millrace"
)

// indexHistories are about the index of a hash and of a shard: reaping, repair and damage by
// other programs.
var indexHistories = []hashHistory{
	{"a field that is written again is not reaped", func(s *hashTale) {
		s.put(hashLong, "a", "b", "c")
		s.over("a", "b", "c")
		s.set(SetConfig{}, true, "a")
		s.set(SetConfig{TTL: hashLong}, true, "b")
		s.reap()
		s.there("a", "b")
	}},
	{"the index follows", func(s *hashTale) {
		s.put(2*hashLong, "a")
		early := indexed(s.T, s.h, inHash)
		s.put(hashLong, "b")
		if late := indexed(s.T, s.h, inHash); late >= early || late == 0 {
			s.want("index after an earlier deadline", late, early-hashLong.Milliseconds(), nil)
		}
		s.put(3*hashLong, "c")
		if late := indexed(s.T, s.h, inHash); late >= early {
			s.want("index after a later deadline", late, early-hashLong.Milliseconds(), nil)
		}
		s.expire(time.Minute, always, "c", Applied)
		if late := indexed(s.T, s.h, inHash); late >= early-hashLong.Milliseconds() {
			s.want("index after an expire", late, "earlier", nil)
		}
		s.over("b", "c")
		s.want("reap", s.reap(), reaping{2, millrace.Worked}, nil)
		s.want("index after a reap", indexed(s.T, s.h, inHash), early, nil)
	}},
	{"a write sweeps a little", func(s *hashTale) {
		putMany(s.T, s.h, inHash, 100, hashLong)
		s.over()
		s.set(SetConfig{}, true, "a")
		values, _ := stored(s.T, s.h, inHash)
		s.want("stored after one write", values, int64(91), nil)
		for range 9 {
			s.set(SetConfig{}, set, "a")
		}
		values, deadlines := stored(s.T, s.h, inHash)
		s.want("stored after ten", []int64{values, deadlines, indexed(s.T, s.h, inHash)}, []int64{1, 0, 0}, nil)
	}},
	{"a large write sweeps as much", func(s *hashTale) {
		for round := range 3 { // if each left entries that it cannot sweep, there would be more and more
			fields := map[string][]byte{}
			for i := range 100 {
				fields[fmt.Sprint(round, " ", i)] = nil
			}
			got, err := s.h.SetMany(s.Context(), inHash, fields, SetConfig{TTL: hashLong})
			s.want("SetMany", got, true, err)
			values, _ := stored(s.T, s.h, inHash)
			s.want("stored", values, int64(100), nil)
			s.over()
		}
	}},
	{"the namespace began anew", func(s *hashTale) {
		s.put(0, "a")
		before := Config{Shards: 7}
		base := baseOf(s.T, s.h, inHash)
		must(s.T, s.client, "DEL", base, base+":due", valuesKey(base, inHash), deadlinesKey(base, inHash), kind.RecordKey(s.h.space.Name))
		others := openOn(s.T, s.client, s.h.space.Name, before)
		for i := range 20 { // some of them in the shard that the first process knows
			put(s.T, others, fmt.Sprint(inHash, i), "f", fmt.Sprint(i), 0)
		}
		if s.h.space.Known.Load() != 1 {
			s.Fatal("the first process knows of the new shards: this shows nothing")
		}
		for i := range 20 {
			value, _, err := s.h.Get(s.Context(), fmt.Sprint(inHash, i), "f")
			s.want("Get", string(value), fmt.Sprint(i), err)
		}
		for i := range 20 {
			s.h.space.Known.Store(1)
			got, err := s.h.Set(s.Context(), fmt.Sprint(inHash, i), "f", []byte("x"), SetConfig{IfExist: true})
			s.want("Set", got, set, err)
			n, err := others.Len(s.Context(), fmt.Sprint(inHash, i))
			s.want("Len", n, 1, err)
		}
		for i := range 20 {
			hash := fmt.Sprint(inHash, i)
			put(s.T, others, hash, "g", "1", hashLong)
			expire(s.T, others, hash)
		}
		s.h.space.Known.Store(1)
		job := s.h.Jobs()[0]
		for range 2 { // the first finds out
			_, err := job.Slice(s.Context())
			s.want("slice", nil, nil, err)
		}
		s.want("reaped", hashStats(s.T, others).Reaped, int64(20), nil)
	}},
	{"a slice spans hashes", func(s *hashTale) {
		for i := range 30 {
			hash := fmt.Sprint(inHash, i)
			put(s.T, s.h, hash, "a", "1", hashLong)
			put(s.T, s.h, hash, "b", "1", hashLong)
			expire(s.T, s.h, hash, "a")
		}
		got, err := s.h.Jobs()[0].Slice(s.Context())
		s.want("slice", got, millrace.Worked, err)
		s.want("reaped", hashStats(s.T, s.h).Reaped, int64(30), nil)
	}},
	{"a slice is bounded", func(s *hashTale) {
		putMany(s.T, s.h, inHash, 250, hashLong)
		s.over()
		for _, want := range []reaping{{100, millrace.More}, {100, millrace.More}, {50, millrace.Worked}, {0, millrace.Idle}} {
			s.want("reap", s.reap(), want, nil)
		}
	}},
	{"a hash of a wrong type does not stop the reaping", func(s *hashTale) {
		s.put(hashLong, "a")
		s.over("a")
		base := baseOf(s.T, s.h, inHash)
		must(s.T, s.client, "SET", valuesKey(base, "odd"), "x")
		must(s.T, s.client, "ZADD", deadlinesKey(base, "odd"), "1", "f")
		must(s.T, s.client, "ZADD", base+":due", "1", "odd")
		must(s.T, s.client, "SET", deadlinesKey(base, "odder"), "x")
		must(s.T, s.client, "ZADD", base+":due", "1", "odder")
		s.want("reap", s.reap(), reaping{1, millrace.Worked}, nil)
		s.want("index", integer(s.T, s.client, "ZCARD", base+":due"), int64(1), nil) // the placeholder
	}},
	{"a deadline without its field", func(s *hashTale) {
		s.put(hashLong, "a", "b")
		base := baseOf(s.T, s.h, inHash)
		must(s.T, s.client, "HDEL", valuesKey(base, inHash), "a")
		s.want("repair", s.repair(), true, nil)
		s.ttl("a", noField)
		s.ttl("b", hashLong)
		s.want("second repair", s.repair(), false, nil)
		must(s.T, s.client, "HDEL", valuesKey(base, inHash), "b")
		s.want("repair of the last", s.repair(), true, nil)
		s.gone()
	}},
	{"an index that is wrong", func(s *hashTale) {
		s.put(hashLong, "a")
		before := indexed(s.T, s.h, inHash)
		base := baseOf(s.T, s.h, inHash)
		must(s.T, s.client, "ZADD", base+":due", "9e12", inHash)
		s.want("repair", s.repair(), true, nil)
		s.want("index", indexed(s.T, s.h, inHash), before, nil)
		s.want("second repair", s.repair(), false, nil)
		must(s.T, s.client, "ZREM", base+":due", inHash)
		s.set(SetConfig{KeepTTL: true}, set, "a") // a write that looks at the index enters it again
		s.want("index", indexed(s.T, s.h, inHash), before, nil)
	}},
	{"a hash that has lost its deadlines", func(s *hashTale) {
		s.put(hashLong, "a", "c")
		s.put(0, "b")
		s.over("c")
		lose := func() { must(s.T, s.client, "DEL", deadlinesKey(baseOf(s.T, s.h, inHash), inHash)) }
		lose()
		s.ttl("a", hashLong)
		s.there("a", "b") // which collects them
		s.put(hashLong, "c")
		s.over("c")
		lose()
		s.set(SetConfig{IfNone: true}, notSet, "a", "d")
		s.set(SetConfig{IfNone: true, TTL: hashLong}, true, "c") // which is no full index
		s.over("c")
		s.there("a", "b")
		lose()
		s.want("repair", s.repair(), true, nil)
		s.want("second repair", s.repair(), false, nil)
		s.over("a")
		s.reap()
		values, deadlines := stored(s.T, s.h, inHash)
		s.want("stored", []int64{values, deadlines}, []int64{1, 0}, nil)
	}},
	{"a new hash has a whole index", func(s *hashTale) {
		s.put(0, "a")
		s.want("repair", s.repair(), false, nil)
	}},
	{"some deadlines are lost", func(s *hashTale) {
		s.put(hashLong, "a", "b", "c")
		s.over("a")
		t := deadlinesKey(baseOf(s.T, s.h, inHash), inHash)
		must(s.T, s.client, "ZREM", t, "a", "b")
		s.want("repair", s.repair(), true, nil)
		s.want("places", integer(s.T, s.client, "ZCARD", t), int64(3), nil) // b, c and the placeholder
		s.there("b", "c")
	}},
	{"the index of a hash is wrong", func(s *hashTale) {
		s.put(hashLong, "a", "b", "c")
		s.put(0, "d")
		base := baseOf(s.T, s.h, inHash)
		for _, field := range []string{"a", "d"} {
			must(s.T, s.client, "ZADD", deadlinesKey(base, inHash), "1", field)
		}
		must(s.T, s.client, "HSET", valuesKey(base, inHash), "b", "theirs, and long enough")
		must(s.T, s.client, "ZADD", deadlinesKey(base, inHash), "1", "b")
		must(s.T, s.client, "ZADD", base+":due", "1", inHash)
		s.reap() // goes by what stands in front of the values
		n, err := s.h.Len(s.Context(), inHash)
		s.want("Len", n, 4, err)
		values, deadlines := stored(s.T, s.h, inHash)
		s.want("stored", []int64{values, deadlines}, []int64{4, 2}, nil)
	}},
	{"something else in the place of a value", func(s *hashTale) {
		s.put(hashLong, "a", "b")
		must(s.T, s.client, "HSET", valuesKey(baseOf(s.T, s.h, inHash), inHash), "a", "theirs, and long enough", "n", "7")
		ctx, h := s.Context(), s.h
		for what, call := range map[string]func() error{
			"Get":         func() error { _, _, err := h.Get(ctx, inHash, "a"); return err },
			"GetMany":     func() error { _, err := h.GetMany(ctx, inHash, "b", "a"); return err },
			"TTL":         func() error { _, err := timesLeft(ctx, h, inHash, "a"); return err },
			"GetAll":      func() error { _, err := h.GetAll(ctx, inHash); return err },
			"Set if none": func() error { _, err := h.Set(ctx, inHash, "a", nil, SetConfig{IfNone: true}); return err },
			"Set KeepTTL": func() error { _, err := h.Set(ctx, inHash, "a", nil, SetConfig{KeepTTL: true}); return err },
			"Expire":      func() error { _, err := h.Expire(ctx, inHash, hashLong, ExpireConfig{}, "b", "a"); return err },
			"Incr":        func() error { _, err := h.Incr(ctx, inHash, "n", 1); return err },
		} {
			s.wantError(what, call(), millrace.ErrBroken)
		}
		s.set(SetConfig{}, set, "a", "n")
		n, err := h.Remove(ctx, inHash, "n")
		s.want("Delete", n, 1, err)
		s.there("a", "b")
	}},
	{"a ttl of Redis", func(s *hashTale) {
		s.put(hashLong, "a")
		base := baseOf(s.T, s.h, inHash)
		keys := []string{base, valuesKey(base, inHash), deadlinesKey(base, inHash), base + ":due"}
		for _, key := range keys {
			must(s.T, s.client, "EXPIRE", key, "1000")
		}
		s.want("repair", s.repair(), true, nil)
		for _, key := range keys {
			s.want("PTTL "+key, integer(s.T, s.client, "PTTL", key), int64(-1), nil)
		}
		s.want("second repair", s.repair(), false, nil)
	}},
	{"a repair reaps", func(s *hashTale) {
		s.put(hashLong, "a", "b")
		s.over("a")
		s.want("repair", s.repair(), true, nil)
		values, deadlines := stored(s.T, s.h, inHash)
		s.want("stored", []int64{values, deadlines}, []int64{1, 1}, nil)
	}},
}
