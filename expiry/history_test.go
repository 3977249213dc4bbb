package expiry

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redistest"
	"github.com/millrace/millrace/internal/script"
	"github.com/millrace/millrace/internal/shards/shardstest"
)

// A hashHistory plays one way in which hashes could break their word. It is played
// with the scripts as they are, and with a protection taken out of them, when it
// has to notice.
type hashHistory struct {
	name string
	play func(s *hashTale)
}

// hashTale is one play. It keeps the first thing that was wrong.
type hashTale struct {
	*testing.T

	h      *Hashes
	client rueidis.Client
	err    error
}

// want notes what is not as it should be.
func (s *hashTale) want(what string, got, want any, err error) {
	s.Helper()
	diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.EquateComparable(reaping{}))
	if s.err == nil && (err != nil || diff != "") {
		s.err = fmt.Errorf("%s = %w (-want +got):\n%s", what, err, diff)
	}
}

func (s *hashTale) wantError(what string, err, want error) {
	if s.err == nil && !errors.Is(err, want) {
		s.err = fmt.Errorf("%s = %w, want %w", what, err, want)
	}
}

// set sets fields, each to its own name, and wants the result.
func (s *hashTale) set(cfg SetConfig, want SetResult, fields ...string) {
	s.Helper()
	values := map[string][]byte{}
	for _, f := range fields {
		values[f] = []byte(f)
	}
	got, err := s.h.SetMany(s.Context(), inHash, values, cfg)
	s.want(fmt.Sprintf("SetMany(%q) with %+v", fields, cfg), got, want, err)
}

// put sets new fields.
func (s *hashTale) put(ttl time.Duration, fields ...string) {
	s.Helper()
	s.set(SetConfig{TTL: ttl}, SetResult{Set: true, Created: len(fields)}, fields...)
}

func (s *hashTale) expire(ttl time.Duration, only ExpireConfig, field string, want Outcome) {
	s.Helper()
	got, err := s.h.Expire(s.Context(), inHash, ttl, only, field)
	s.want(fmt.Sprintf("Expire(%s, %s) if %+v", ttl, field, only), got, []Outcome{want}, err)
}

func (s *hashTale) persist(field string, want Outcome) {
	s.Helper()
	got, err := s.h.Persist(s.Context(), inHash, field)
	s.want("Persist("+field+")", got, []Outcome{want}, err)
}

// ttl wants what is left of a field: NoTTL, NoField, or about a time.
func (s *hashTale) ttl(field string, want time.Duration) {
	s.Helper()
	got, err := s.h.TTL(s.Context(), inHash, field)
	if err == nil && want > 0 && got[0] > want-time.Minute && got[0] <= want {
		got[0] = want
	}
	s.want("TTL("+field+")", got, []time.Duration{want}, err)
}

// there wants those fields, by every call that tells.
func (s *hashTale) there(want ...string) {
	s.Helper()
	ctx := s.Context()
	n, err := s.h.Len(ctx, inHash)
	s.want("Len", n, len(want), err)
	values, err := s.h.GetAll(ctx, inHash)
	names := []string{}
	for f := range values {
		names = append(names, f)
	}
	slices.Sort(names)
	s.want("GetAll", names, want, err)
	names = names[:0]
	for f, err := range s.h.Scan(ctx, inHash) {
		s.want("Scan", nil, nil, err)
		names = append(names, f.Name)
	}
	slices.Sort(names)
	s.want("Scan", names, want, nil)
	for _, f := range []string{"a", "b", "c"} {
		_, _, err := s.h.Get(ctx, inHash, f)
		got := err == nil
		if errors.Is(err, millrace.ErrNotFound) {
			err = nil
		}
		s.want("Get("+f+")", got, slices.Contains(want, f), err)
	}
	many, err := s.h.GetMany(ctx, inHash, "a", "b", "c")
	s.want("GetMany", len(many), len(want), err)
}

// gone wants no key of the hash.
func (s *hashTale) gone() {
	s.Helper()
	values, deadlines := stored(s.T, s.h, inHash)
	s.want("what is left of a hash without fields", []int64{values, deadlines, indexed(s.T, s.h, inHash)}, []int64{0, 0, 0}, nil)
}

// again runs a script twice under the same request, the second time as a repeat, and
// wants the same answer.
func (s *hashTale) again(what, name string, args ...string) {
	s.Helper()
	request := s.h.space.Run.Request(s.Context())
	defer request.Done()
	var answers []string
	for range 2 {
		reply, err := s.h.space.Call(s.Context(), request, true, name, inHash, append([]string{inHash}, args...)...)
		s.want(what, nil, nil, err)
		text := ""
		for err == nil && reply.More() {
			text += reply.Text() + " "
		}
		answers = append(answers, text)
	}
	s.want("answer to a repeated "+what, answers[1], answers[0], nil)
}

// reaping is what one call reaped.
type reaping struct {
	fields   int64
	progress millrace.Progress
}

func (s *hashTale) reap() reaping {
	before := hashStats(s.T, s.h).Reaped
	progress, err := s.h.reap(s.Context(), baseOf(s.T, s.h, inHash), 1, true)
	s.want("reap", nil, nil, err)
	return reaping{hashStats(s.T, s.h).Reaped - before, progress}
}

// repair mends the hash.
func (s *hashTale) repair() bool {
	done, _, _, err := repairHash(s.Context(), s.h.space, baseOf(s.T, s.h, inHash), 1, inHash, position{}, -1)
	s.want("repair", nil, nil, err)
	return done
}

// over lets deadlines come, see expire.
func (s *hashTale) over(fields ...string) { expire(s.T, s.h, inHash, fields...) }

func (s *hashTale) fill() { must(s.T, s.client, "CONFIG", "SET", "maxmemory", "1") }

// dump returns all that is stored in the hash's shard.
func (s *hashTale) dump() string {
	base := baseOf(s.T, s.h, inHash)
	text := ""
	for _, key := range []string{base, valuesKey(base, inHash), deadlinesKey(base, inHash), base + ":due"} {
		one, _ := do(s.client, "DUMP", key).ToString()
		text += strconv.Quote(one) + "\n"
	}
	return text
}

var set, notSet = SetResult{Set: true}, SetResult{}

// hashHistories begin with the replies of Redis, in the order of its documentation.
var hashHistories = []hashHistory{
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
		s.set(SetConfig{Deadline: deadline}, SetResult{Set: true, Created: 1}, "a")
		for _, only := range []ExpireConfig{ifLonger, ifShorter} {
			got, err := s.h.ExpireAt(s.Context(), inHash, deadline, only, "a")
			s.want("ExpireAt", got, []Outcome{NotMet}, err)
		}
	}},
	{"expire at once removes", func(s *hashTale) {
		s.put(0, "a")
		s.put(hashLong, "b")
		s.expire(0, always, "a", Removed)
		got, err := s.h.ExpireAt(s.Context(), inHash, time.Now().Add(-hashLong), ExpireConfig{}, "b", "b")
		s.want("ExpireAt in the past, twice", got, []Outcome{Removed, HasNoField}, err)
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
		got, err = s.h.Persist(s.Context(), inHash, "a", "a")
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
						ttls, err := s.h.TTL(s.Context(), inHash, "a")
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
		s.ttl("a", NoField)
		s.put(0, "a")
		s.ttl("a", NoTTL)
		s.ttl("b", NoField)
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
			func() { s.ttl("a", NoField) },
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
		s.set(cfg, SetResult{Set: true, Created: 2}, "a", "b")
		s.set(cfg, notSet, "b", "c")
		s.there("a", "b")
		s.put(hashLong, "c")
		s.over("c")
		s.set(cfg, SetResult{Set: true, Created: 1}, "c")
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
		s.set(SetConfig{}, set, "a")
		s.ttl("a", NoTTL)
		s.want("index", indexed(s.T, s.h, inHash), int64(0), nil)
	}},
	{"set keeps deadlines", func(s *hashTale) {
		s.put(hashLong, "a")
		s.put(hashLong, "b")
		s.over("b")
		s.set(SetConfig{KeepTTL: true}, SetResult{Set: true, Created: 2}, "a", "b", "c")
		s.ttl("a", hashLong)
		s.ttl("b", NoTTL) // it was none
		s.ttl("c", NoTTL)
		s.reap()
		s.there("a", "b", "c")
	}},
	{"set with a deadline that is past", func(s *hashTale) {
		past := SetConfig{Deadline: time.Now().Add(-hashLong)}
		s.set(past, SetResult{Set: true, Created: 1}, "a")
		s.gone()
		s.put(hashLong, "a")
		s.put(hashLong, "b")
		s.over("b")
		s.set(past, SetResult{Set: true, Created: 2}, "a", "b", "c")
		s.gone()
		s.set(past, SetResult{Set: true, Created: 12}, strings.Split("0123456789ab", "")...) // more than a sweep takes
		s.gone()
	}},
	{"created counts what was not there", func(s *hashTale) {
		s.put(hashLong, "a", "b")
		s.over("a")
		s.set(SetConfig{TTL: hashLong}, SetResult{Set: true, Created: 2}, "a", "b", "c")
		s.there("a", "b", "c")
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

	// What only the companion can get wrong.

	{"a field that is written again is not reaped", func(s *hashTale) {
		s.put(hashLong, "a", "b", "c")
		s.over("a", "b", "c")
		s.set(SetConfig{}, SetResult{Set: true, Created: 1}, "a")
		s.set(SetConfig{TTL: hashLong}, SetResult{Set: true, Created: 1}, "b")
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
		s.set(SetConfig{}, SetResult{Set: true, Created: 1}, "a")
		values, _ := stored(s.T, s.h, inHash)
		s.want("stored after one write", values, int64(91), nil)
		for range 9 {
			s.set(SetConfig{}, set, "a")
		}
		values, deadlines := stored(s.T, s.h, inHash)
		s.want("stored after ten", []int64{values, deadlines, indexed(s.T, s.h, inHash)}, []int64{1, 0, 0}, nil)
	}},
	{"a large write sweeps as much", func(s *hashTale) {
		for round := range 3 { // if each left what it cannot sweep, there would be more and more
			fields := map[string][]byte{}
			for i := range 100 {
				fields[fmt.Sprint(round, " ", i)] = nil
			}
			got, err := s.h.SetMany(s.Context(), inHash, fields, SetConfig{TTL: hashLong})
			s.want("SetMany", got, SetResult{Set: true, Created: 100}, err)
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
		for _, want := range []reaping{{100, millrace.Full}, {100, millrace.Full}, {50, millrace.Worked}, {0, millrace.Idle}} {
			s.want("reap", s.reap(), want, nil)
		}
	}},
	{"a stranger does not stop the reaping", func(s *hashTale) {
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
		s.ttl("a", NoField)
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
		s.set(SetConfig{KeepTTL: true}, set, "a") // the next write enters it again
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
		s.set(SetConfig{IfNone: true, TTL: hashLong}, SetResult{Set: true, Created: 1}, "c") // which is no full index
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
			"TTL":         func() error { _, err := h.TTL(ctx, inHash, "a"); return err },
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
		s.refuses(millrace.ErrVersion, func(base string) { must(s.T, s.client, "HSET", base, "version", "1") })
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
	{"an index of a wrong type", func(s *hashTale) {
		s.put(0, "a", "n")
		s.refuses(millrace.ErrBroken, func(base string) { must(s.T, s.client, "SET", base+":due", "x") })
	}},
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
		"Set past":    func() error { _, err := h.Set(ctx, inHash, "a", nil, SetConfig{Deadline: time.Unix(1, 0)}); return err },
		"Incr":        func() error { _, err := h.Incr(ctx, inHash, "n", 1); return err },
		"Delete":      func() error { _, err := h.Remove(ctx, inHash, "a"); return err },
		"RemoveHash":  func() error { _, err := h.RemoveHash(ctx, inHash); return err },
		"Expire":      func() error { _, err := h.Expire(ctx, inHash, hashLong, ExpireConfig{}, "a"); return err },
		"Expire past": func() error { _, err := h.Expire(ctx, inHash, 0, ExpireConfig{}, "a"); return err },
		"Persist":     func() error { _, err := h.Persist(ctx, inHash, "a"); return err },
	} {
		s.wantError(what, call(), want)
	}
	s.want("what is stored", s.dump(), before, nil)
}

// fullHashHistories need a server of their own.
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

// playHash plays a history with the scripts given, in a namespace of one shard.
func playHash(t *testing.T, name string, scripts *script.Library) error {
	t.Helper()
	client, list := redistest.Shared(t).Client(t), hashHistories
	if strings.HasPrefix(name, "full: ") {
		client, list = redistest.Start(t, redistest.Options{}).Client(t), fullHashHistories
	}
	i := slices.IndexFunc(list, func(h hashHistory) bool { return h.name == name })
	s := &hashTale{T: t, h: openOn(t, client, redistest.Name(t), Config{Shards: 1}), client: client}
	s.h.space.Run.Scripts = scripts
	list[i].play(s)
	return s.err
}

func TestHashHistories(t *testing.T) {
	t.Parallel()
	for _, h := range slices.Concat(hashHistories, fullHashHistories) {
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			if err := playHash(t, h.name, kind.Library); err != nil {
				t.Error(err)
			}
		})
	}
}
