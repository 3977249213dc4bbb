package pinned

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/script"
	"github.com/millrace/millrace/internal/redis/shards"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/internal/test/scripttest"
)

// A keyHistory plays one way in which a value could break its word, and returns
// an error if it did.
type keyHistory struct {
	name string
	play func(t *testing.T, k *Keys) error
}

// setErr stores a value and checks the result of Set.
func setErr(t *testing.T, k *Keys, key, value string, cfg SetConfig, want bool) error {
	t.Helper()
	ok, err := k.Set(t.Context(), key, []byte(value), keyLong, cfg)
	if err != nil || ok != want {
		return fmt.Errorf("Set of %q = %v, %w, want %v", value, ok, err, want)
	}
	return nil
}

// claimKey claims a key and checks the value that comes with the claim, "" for none.
func claimKey(t *testing.T, k *Keys, key, want string) string {
	t.Helper()
	claim, value, left, err := k.Claim(t.Context(), key, keyLong)
	if err != nil || claim == "" || string(value) != want || (left > 0) != (want != "") {
		t.Fatalf("Claim of %q = %q, %q, %v, %v, want a claim and %q", key, claim, value, left, err, want)
	}
	return claim
}

// holds checks a value, "" for none.
func holds(t *testing.T, k *Keys, key, want string) error {
	t.Helper()
	value, _, err := k.Get(t.Context(), key)
	if want == "" && errors.Is(err, millrace.ErrNotFound) {
		return nil
	}
	if err != nil || string(value) != want {
		return fmt.Errorf("Get of %q = %q, %w, want %q", key, value, err, want)
	}
	return nil
}

// counted checks how many values there are, and how many are overdue.
func counted(t *testing.T, k *Keys, alive, overdue int) error {
	t.Helper()
	s, err := k.Stats(t.Context())
	if err != nil || s.Keys != alive || s.Overdue != overdue {
		return fmt.Errorf("Stats = %+v, %w, want %d alive and %d overdue", s, err, alive, overdue)
	}
	return nil
}

// reaped runs a slice and checks its progress.
func reaped(t *testing.T, k *Keys, want millrace.Progress) error {
	t.Helper()
	progress, err := k.Jobs()[0].Slice(t.Context())
	if err != nil || progress != want {
		return fmt.Errorf("reap = %v, %w, want %v", progress, err, want)
	}
	return nil
}

// keyHas checks the reply to a command past the library.
func keyHas(t *testing.T, k *Keys, want string, args ...string) error {
	t.Helper()
	if got := keyRaw(t, k.space.Run.Client, args...); got != want {
		return fmt.Errorf("%q = %s, want %s", args, got, want)
	}
	return nil
}

// again runs a script twice as one request whose first reply was lost, and checks
// the answers. Something may happen in between.
func again(t *testing.T, k *Keys, name string, between func(), args ...string) error {
	t.Helper()
	request := k.space.Run.Request(t.Context())
	defer request.Done()
	var answers [2]int64
	for try := range answers {
		reply, err := k.space.Call(t.Context(), request, true, name, args[0], args...)
		if err != nil {
			return fmt.Errorf("try %d: %w", try+1, err)
		}
		answers[try] = reply.Int()
		if try == 0 {
			between()
		}
	}
	if answers[0] != 1 || answers[1] != 1 {
		return fmt.Errorf("the tries answered %d, want 1 and 1", answers)
	}
	return nil
}

func keyLimit(t *testing.T, k *Keys, limit string) {
	t.Helper()
	keyRaw(t, k.space.Run.Client, "CONFIG", "SET", "maxmemory", limit)
}

const hourMillis = "3600000"

var keyHistories = []keyHistory{
	{"over", func(t *testing.T, k *Keys) error {
		setKey(t, k, "a", "x", keyLong)
		keyOver(t, k, "a")
		_, ttlErr := ttlOf(t.Context(), k, "a")
		ok, err := k.Expire(t.Context(), "a", keyLong)
		if !errors.Is(ttlErr, millrace.ErrNotFound) || ok || err != nil {
			return fmt.Errorf("of what is over, TTL = %w, Expire = %v, %w", ttlErr, ok, err)
		}
		n, err := k.Remove(t.Context(), "a")
		if n != 0 || err != nil {
			return fmt.Errorf("Delete of what is over = %d, %w", n, err)
		}
		return holds(t, k, "a", "")
	}},
	{"a life is whole", func(t *testing.T, k *Keys) error {
		client, base := k.space.Run.Client, keyBase(t, k, "a")
		setKey(t, k, "a", "x", keyLong)
		for range 20 { // there are moments at which a millisecond has just begun
			for what, live := range map[string]func() error{
				"Set": func() error { return setErr(t, k, "a", "x", SetConfig{}, true) },
				"Expire": func() error {
					_, err := k.Expire(t.Context(), "a", keyLong)
					return err
				},
			} {
				began := clock(t, client)
				if err := live(); err != nil {
					return err
				}
				deadline := storedDeadline(keyRaw(t, client, "HGET", shardValues(base), "a"))
				if deadline.Sub(began) < keyLong {
					return fmt.Errorf("%s: the value ends %v after it, want %v at least", what, deadline.Sub(began), keyLong)
				}
				asked := clock(t, client)
				_, got, err := k.Get(t.Context(), "a")
				if told := asked.Add(got); err != nil || told.After(deadline) {
					return fmt.Errorf("after %s, Get tells of %v, %w, more than is left", what, got, err)
				}
				asked = clock(t, client)
				got, err = ttlOf(t.Context(), k, "a")
				if told := asked.Add(got); err != nil || told.After(deadline) {
					return fmt.Errorf("after %s, TTL tells of %v, %w, more than is left", what, got, err)
				}
			}
		}
		return nil
	}},
	{"read when it is over", func(t *testing.T, k *Keys) error {
		setKey(t, k, "a", "x", keyLong)
		keyOver(t, k, "a")
		return holds(t, k, "a", "")
	}},
	{"set if none", func(t *testing.T, k *Keys) error {
		return errors.Join(
			setErr(t, k, "a", "x", SetConfig{IfNone: true}, true),
			setErr(t, k, "a", "y", SetConfig{IfNone: true}, false),
			holds(t, k, "a", "x"),
		)
	}},
	{"set if none where one is over", func(t *testing.T, k *Keys) error {
		setKey(t, k, "a", "x", keyLong)
		keyOver(t, k, "a")
		return setErr(t, k, "a", "y", SetConfig{IfNone: true}, true)
	}},
	{"set if it exists", func(t *testing.T, k *Keys) error {
		setKey(t, k, "a", "x", keyLong)
		keyOver(t, k, "a")
		return setErr(t, k, "a", "y", SetConfig{IfExist: true}, false)
	}},
	{"reaped", func(t *testing.T, k *Keys) error {
		setKey(t, k, "a", "x", keyLong)
		setKey(t, k, "b", "x", keyLong)
		keyOver(t, k, "a")
		return errors.Join(
			counted(t, k, 1, 1), reaped(t, k, millrace.Worked), counted(t, k, 1, 0), holds(t, k, "b", "x"),
			keyHas(t, k, "0", "HEXISTS", shardValues(keyBase(t, k, "a")), "a"),
		)
	}},
	{"the index lags behind a value", func(t *testing.T, k *Keys) error {
		setKey(t, k, "a", "x", keyLong)
		keyIndex(t, k, "a", time.Now().Add(-time.Minute))
		return errors.Join(
			reaped(t, k, millrace.Worked), holds(t, k, "a", "x"), reaped(t, k, millrace.Idle), counted(t, k, 1, 0),
		)
	}},
	{"something else in the place of a value", func(t *testing.T, k *Keys) error {
		setKey(t, k, "a", "x", keyLong)
		keyOver(t, k, "a")
		values := shardValues(keyBase(t, k, "a"))
		keyRaw(t, k.space.Run.Client, "HSET", values, "a", "theirs, and long enough")
		return errors.Join(
			reaped(t, k, millrace.Worked), keyHas(t, k, "1", "HEXISTS", values, "a"), reaped(t, k, millrace.Idle),
		)
	}},
	{"something else is read", func(t *testing.T, k *Keys) error {
		setKey(t, k, "a", "x", keyLong)
		for _, theirs := range []string{"theirs, and long enough", "\xfb\x02another mark", "\xfa\x03another version", "\xfa\x02short"} {
			keyRaw(t, k.space.Run.Client, "HSET", shardValues(keyBase(t, k, "a")), "a", theirs)
			for what, call := range map[string]func() error{
				"Get":      func() error { _, _, err := k.Get(t.Context(), "a"); return err },
				"GetMany":  func() error { _, err := k.GetMany(t.Context(), "a"); return err },
				"TTL":      func() error { _, err := ttlOf(t.Context(), k, "a"); return err },
				"Expire":   func() error { _, err := k.Expire(t.Context(), "a", keyLong); return err },
				"Set none": func() error { _, err := k.Set(t.Context(), "a", nil, keyLong, SetConfig{IfNone: true}); return err },
			} {
				if err := call(); !errors.Is(err, millrace.ErrBroken) {
					return fmt.Errorf("%s of %q = %w, want ErrBroken", what, theirs, err)
				}
			}
		}
		return nil
	}},
	{"the namespace began anew", func(t *testing.T, k *Keys) error {
		setKey(t, k, "a", "x", keyLong)
		base := keyBase(t, k, "a")
		keyRaw(t, k.space.Run.Client, append([]string{"DEL", kind.RecordKey(k.space.Name)}, keysOfShard(base)...)...)
		others := openOn(t, k.space.Run.Client, k.space.Name, Config{Shards: 7})
		var names []string
		for i := range 20 { // some of them in the shard that the first process knows
			names = append(names, fmt.Sprint(i))
			setKey(t, others, fmt.Sprint(i), "x", keyLong)
		}
		stale := func() {
			if got := k.space.Known.Swap(1); got == 0 {
				t.Fatal("nothing is known")
			}
		}
		stale()
		many, err := k.GetMany(t.Context(), names...)
		if err != nil || len(many) != len(names) {
			return fmt.Errorf("GetMany = %d, %w", len(many), err)
		}
		stale()
		ok, err := k.Expire(t.Context(), "1", keyLong)
		if err != nil || !ok {
			return fmt.Errorf("Expire = %v, %w", ok, err)
		}
		stale()
		if err := holds(t, k, "2", "x"); err != nil {
			return err
		}
		stale()
		n, err := k.Remove(t.Context(), names...)
		if err != nil || n != len(names) {
			return fmt.Errorf("Delete = %d, %w", n, err)
		}
		return nil
	}},
	{"reaped by writes", func(t *testing.T, k *Keys) error {
		for _, name := range []string{"a", "b", "c"} {
			setKey(t, k, name, "x", keyLong)
		}
		for _, name := range []string{"a", "b"} {
			keyOver(t, k, name)
		}
		if ok, err := k.Expire(t.Context(), "c", keyLong); !ok || err != nil {
			return fmt.Errorf("Expire = %v, %w", ok, err)
		}
		for _, name := range []string{"d", "e"} {
			setKey(t, k, name, "x", keyLong)
		}
		if err := counted(t, k, 3, 0); err != nil {
			return err
		}
		keyOver(t, k, "d")
		setKey(t, k, "f", "x", keyLong)
		return counted(t, k, 3, 0)
	}},
	{"prolonged", func(t *testing.T, k *Keys) error {
		setKey(t, k, "a", "x", time.Minute)
		base := keyBase(t, k, "a")
		if ok, err := k.Expire(t.Context(), "a", keyLong); !ok || err != nil {
			return fmt.Errorf("Expire = %v, %w", ok, err)
		}
		ttl, err := ttlOf(t.Context(), k, "a")
		if err != nil || ttl <= time.Minute {
			return fmt.Errorf("TTL = %v, %w", ttl, err)
		}
		value := keyRaw(t, k.space.Run.Client, "HGET", shardValues(base), "a")
		score := fmt.Sprint(storedDeadline(value).UnixMilli())
		return errors.Join(holds(t, k, "a", "x"), keyHas(t, k, score, "ZSCORE", dueKey(base), "a"))
	}},
	{"deleted", func(t *testing.T, k *Keys) error {
		setKey(t, k, "a", "x", keyLong)
		if n, err := k.Remove(t.Context(), "a"); n != 1 || err != nil {
			return fmt.Errorf("Delete = %d, %w", n, err)
		}
		return errors.Join(holds(t, k, "a", ""), counted(t, k, 0, 0))
	}},
	{"repeated set over a later one", func(t *testing.T, k *Keys) error {
		later := func() { setKey(t, k, "a", "later", keyLong) }
		return errors.Join(again(t, k, "set", later, "a", hourMillis, "", "x"), holds(t, k, "a", "later"))
	}},
	{"repeated set if none", func(t *testing.T, k *Keys) error {
		return again(t, k, "set", func() {}, "a", hourMillis, "none", "x")
	}},
	{"repeated expire", func(t *testing.T, k *Keys) error {
		setKey(t, k, "a", "x", keyLong)
		return again(t, k, "expire", func() { keyOver(t, k, "a") }, "a", hourMillis)
	}},
	{"repeated delete", func(t *testing.T, k *Keys) error {
		setKey(t, k, "a", "x", keyLong)
		later := func() { setKey(t, k, "a", "later", keyLong) }
		return errors.Join(again(t, k, "delete", later, "a"), holds(t, k, "a", "later"))
	}},
	{"removed after it was claimed", func(t *testing.T, k *Keys) error {
		setKey(t, k, "a", "old", keyLong)
		claim := claimKey(t, k, "a", "old")
		if _, err := k.Remove(t.Context(), "a"); err != nil {
			return err
		}
		return errors.Join(setErr(t, k, "a", "older", SetConfig{Claim: claim}, false), holds(t, k, "a", ""), counted(t, k, 0, 0))
	}},
	{"set after it was claimed", func(t *testing.T, k *Keys) error {
		claim := claimKey(t, k, "a", "")
		setKey(t, k, "a", "newer", keyLong)
		return errors.Join(setErr(t, k, "a", "older", SetConfig{Claim: claim}, false), holds(t, k, "a", "newer"), counted(t, k, 1, 0))
	}},
	{"claimed twice", func(t *testing.T, k *Keys) error {
		first, second := claimKey(t, k, "a", ""), claimKey(t, k, "a", "")
		return errors.Join(
			setErr(t, k, "a", "older", SetConfig{Claim: first}, false), setErr(t, k, "a", "newer", SetConfig{Claim: second}, true),
			setErr(t, k, "a", "older", SetConfig{Claim: first}, false), setErr(t, k, "a", "again", SetConfig{Claim: second}, false),
			holds(t, k, "a", "newer"), counted(t, k, 1, 0),
		)
	}},
	{"a claim is reaped", func(t *testing.T, k *Keys) error {
		claim := claimKey(t, k, "a", "")
		if err := counted(t, k, 1, 0); err != nil {
			return err
		}
		keyOver(t, k, claimPrefix+"a")
		return errors.Join(
			counted(t, k, 0, 1), reaped(t, k, millrace.Worked), counted(t, k, 0, 0), setErr(t, k, "a", "late", SetConfig{Claim: claim}, false),
		)
	}},
	{"repeated claim after it was removed", func(t *testing.T, k *Keys) error {
		request := k.space.Run.Request(t.Context())
		defer request.Done()
		claim := func() error {
			_, err := k.space.Call(t.Context(), request, true, "claim_key", "a", "a", hourMillis, "claim")
			return err
		}
		if err := claim(); err != nil {
			return err
		}
		if _, err := k.Remove(t.Context(), "a"); err != nil {
			return err
		}
		if err := claim(); err != nil {
			return err
		}
		return setErr(t, k, "a", "older", SetConfig{Claim: "claim"}, false)
	}},
	{"repeated set with a claim", func(t *testing.T, k *Keys) error {
		claim := claimKey(t, k, "a", "")
		return errors.Join(again(t, k, "set", func() {}, "a", hourMillis, "claim", "x", claim), holds(t, k, "a", "x"))
	}},
	{"foreign arguments", func(t *testing.T, k *Keys) error {
		setKey(t, k, "a", "x", keyLong)
		base := keyBase(t, k, "a")
		before := keyRaw(t, k.space.Run.Client, "DUMP", shardValues(base)) + keyRaw(t, k.space.Run.Client, "DUMP", dueKey(base))
		for _, args := range [][]string{
			{"set", "", hourMillis, "", "y"}, {"set", "\x00a", hourMillis, "", "y"}, {"set", "a", hourMillis, "", "y", "more"},
			{"set", "a", "-1e15", "", "y"}, {"set", "a", "1e3", "", "y"}, {"set", "a", "0", "", "y"}, {"set", "a", "281474976710655", "", "y"},
			{"set", "a", " 1", "", "y"}, {"set", "a", hourMillis, "claims", "y"}, {"set", "a", hourMillis, "claim", "y"},
			{"claim_key", "", hourMillis, "c"}, {"claim_key", "\x00a", hourMillis, "c"}, {"claim_key", "a", "nan", "c"},
			{"claim_key", "a", "281474976710655", "c"}, {"claim_key", "a", hourMillis},
		} {
			reply, err := k.space.Write(t.Context(), args[0], "a", args[1:]...)
			if err == nil {
				return fmt.Errorf("%.60q = %+v, want an error", args, reply)
			}
		}
		after := keyRaw(t, k.space.Run.Client, "DUMP", shardValues(base)) + keyRaw(t, k.space.Run.Client, "DUMP", dueKey(base))
		if before != after {
			return fmt.Errorf("the shard is %q, want it as before: %q", after, before)
		}
		return nil
	}},
	{"another version", func(t *testing.T, k *Keys) error {
		setKey(t, k, "a", "x", keyLong)
		keyRaw(t, k.space.Run.Client, "HSET", keyBase(t, k, "a"), "version", "1")
		for what, call := range map[string]func() error{
			"Get":   func() error { _, _, err := k.Get(t.Context(), "none"); return err },
			"Set":   func() error { _, err := k.Set(t.Context(), "a", nil, keyLong, SetConfig{}); return err },
			"reap":  func() error { _, err := k.Jobs()[0].Slice(t.Context()); return err },
			"Stats": func() error { _, err := k.Stats(t.Context()); return err },
		} {
			if err := call(); !errors.Is(err, millrace.ErrVersion) {
				return fmt.Errorf("%s = %w, want ErrVersion", what, err)
			}
		}
		return nil
	}},
}

// keyServerHistories are histories that need a server of their own.
var keyServerHistories = []keyHistory{
	{"set on a full server", func(t *testing.T, k *Keys) error {
		setKey(t, k, "a", "x", keyLong)
		keyLimit(t, k, "1")
		if _, err := k.Set(t.Context(), "a", []byte("y"), keyLong, SetConfig{}); !errors.Is(err, millrace.ErrFull) {
			return fmt.Errorf("Set = %w, want ErrFull", err)
		}
		return holds(t, k, "a", "x")
	}},
	{"expire on a full server", func(t *testing.T, k *Keys) error {
		setKey(t, k, "a", "x", keyLong)
		keyLimit(t, k, "1")
		if ok, err := k.Expire(t.Context(), "a", keyLong); !ok || err != nil {
			return fmt.Errorf("Expire = %v, %w", ok, err)
		}
		return nil
	}},
	{"the index lags on a full server", func(t *testing.T, k *Keys) error {
		setKey(t, k, "a", "x", keyLong)
		keyIndex(t, k, "a", time.Now().Add(-time.Minute))
		keyLimit(t, k, "1")
		return reaped(t, k, millrace.Worked)
	}},
	{"repaired", func(t *testing.T, k *Keys) error {
		client := k.space.Run.Client
		for _, name := range []string{"a", "b", "c", "d"} {
			setKey(t, k, name, "x", keyLong)
		}
		base := keyBase(t, k, "a")
		keyRaw(t, client, "ZREM", dueKey(base), "a", "")
		keyRaw(t, client, "HDEL", shardValues(base), "b", "c", "")
		keyRaw(t, client, "DEL", base+":lanes:0")
		for _, key := range keysOfShard(base) {
			keyRaw(t, client, "PEXPIRE", key, hourMillis)
		}
		repairBy(t, shards.RepairJob(client, &kind, func(ctx context.Context, s *shards.Space, base string, n int, at shards.Position) (bool, shards.Position, error) {
			s.Run.Scripts = k.space.Run.Scripts
			return repairValues(ctx, s, base, n, at)
		}))
		errs := []error{
			counted(t, k, 2, 0), keyHas(t, k, "3", "HLEN", shardValues(base)), keyHas(t, k, "3", "ZCARD", dueKey(base)),
		}
		for _, key := range keysOfShard(base) {
			errs = append(errs, keyHas(t, k, "-1", "PTTL", key))
		}
		return errors.Join(errs...)
	}},
}

// keyProtections are the safeguards that keep the histories from failing, and how to take
// each out.
var keyProtections = []struct {
	name, old, replacement string
	histories              []string // those that must catch it
}{
	{"a life begins when its millisecond is over", "soon + ARGV[3]", "now + ARGV[3]", []string{"a life is whole"}},
	{"what is over is not prolonged", "elseif deadline <= now then", "elseif deadline == 0 then", []string{"over"}},
	{"what is over is not counted as deleted", "if not deadline or tonumber(deadline) > now then", "if true then", []string{"over"}},
	{"set if none heeds what is there", "condition == 'none' and old > now or", "", []string{"set if none"}},
	{"what is over is none", "condition == 'none' and old > now", "condition == 'none' and old > 0", []string{"set if none where one is over"}},
	{"what is over does not exist", "condition == 'exist' and old <= now", "condition == 'exist' and old == 0", []string{"set if it exists"}},
	{"set writes the index", "redis.call('ZADD', due, string.format('%.0f', deadline), name)\nredis.call('HSET', values, name, head_of(deadline) .. ARGV[5])",
		"redis.call('HSET', values, name, head_of(deadline) .. ARGV[5])", []string{"reaped"}},
	{"set begins with what is refused", "redis.call('ZADD', due, string.format('%.0f', deadline), name)\nredis.call('HSET', values, name, head_of(deadline) .. ARGV[5])",
		"redis.call('HDEL', K, '')\nredis.call('ZADD', due, string.format('%.0f', deadline), name)\nredis.call('HSET', values, name, head_of(deadline) .. ARGV[5])",
		[]string{"set on a full server"}},
	{"what has no mark is no value", "if mark ~= 250 or version ~= 2 or not f then", "if not f then", []string{"something else is read"}},
	{"reap heeds the value's own deadline", "if deadline and deadline > now then", "if false then", []string{"the index lags behind a value"}},
	{"reap mends the index", "redis.call('ZADD', due, string.format('%.0f', deadline), name)\n    else", "do end\n    else", []string{"the index lags behind a value"}},
	{"reap frees the value", "redis.call('HDEL', values, name)\n", "1\n", []string{"reaped"}},
	{"reap clears the index", "      redis.call('ZREM', due, name)\n", "", []string{"reaped", "something else in the place of a value"}},
	{"reap leaves what is no value", "      if deadline then\n", "      if true then\n", []string{"something else in the place of a value"}},
	{"reap begins with what is not refused", "redis.call('HDEL', K, '') -- a full server accepts this first write\ntidy", "tidy", []string{"the index lags on a full server"}},
	{"reap begins with the first due", "'-inf', now", "now, '+inf'", []string{"reaped"}},
	{"writes reap", "reap(2)\n", "", []string{"reaped by writes"}},
	{"expire writes the index", "redis.call('ZADD', due, string.format('%.0f', deadline), name)\nredis.call('HSET', values, name, head_of(deadline) .. string.sub",
		"redis.call('HSET', values, name, head_of(deadline) .. string.sub", []string{"prolonged"}},
	{"expire writes the value", "redis.call('HSET', values, name, head_of(deadline) .. string.sub(value, 9))", "", []string{"prolonged"}},
	{"expire begins with what is not refused", "redis.call('HDEL', K, '') -- a full server accepts this first write\nredis.call('ZADD'", "redis.call('ZADD'",
		[]string{"expire on a full server"}},
	{"delete clears the index", "redis.call('ZREM', due, ARGV[i], ", "redis.call('ZREM', due, ", []string{"deleted"}},
	{"removing ends a claim", "  redis.call('HDEL', values, '\\0' .. ARGV[i])\n", "", []string{"removed after it was claimed"}},
	{"setting ends a claim", "if redis.call('HDEL', values, claim) == 1 then", "if false then", []string{"set after it was claimed", "claimed twice"}},
	{"an ended claim is in no index", "  redis.call('ZREM', due, claim)\n", "", []string{"set after it was claimed"}},
	{"a removed claim is in no index", "ARGV[i], '\\0' .. ARGV[i])", "ARGV[i])", []string{"removed after it was claimed"}},
	{"claims are told apart", "if not held or string.sub(held, 9) ~= ARGV[6] then", "if not held then", []string{"claimed twice"}},
	{"a claim is needed", "if not held or string.sub(held, 9) ~= ARGV[6] then", "if held and string.sub(held, 9) ~= ARGV[6] then", []string{"removed after it was claimed"}},
	{"a late claim is known again", "if not answered then", "if true then", []string{"repeated claim after it was removed"}},
	{"a claim has an index", "redis.call('ZADD', due, string.format('%.0f', deadline), '\\0' .. name)", "do end", []string{"a claim is reaped"}},
	{"set refuses foreign arguments", "  return redis.error_reply('ERR invalid arguments of a write')\n", "", []string{"foreign arguments"}},
	{"claims refuse foreign arguments", "  return redis.error_reply('ERR invalid arguments of a claim')\n", "", []string{"foreign arguments"}},
	{"calls are known again", "if answered then", "if false then",
		[]string{"repeated set over a later one", "repeated set if none", "repeated expire", "repeated delete"}},
	{"answers are remembered", "answer('1')", "", []string{"repeated set if none", "repeated expire"}},
	{"the number of deleted values is remembered", "answer(string.format('%.0f', deleted))", "", []string{"repeated delete"}},
	{"versions are told apart", "if found[1] and found[1] ~= wire then", "if false then", []string{"another version"}},
	{"the number of shards is checked", "elseif found[2] ~= ARGV[1] then", "elseif false then", []string{"the namespace began anew"}},
	{"the repair indexes values", "if name ~= '' and deadline then", "if false then", []string{"repaired"}},
	{"the repair counts values", "redis.call('HLEN', values) > redis.call('ZCARD', due)", "false", []string{"repaired"}},
	{"the repair takes the TTL from the record", "redis.call('PERSIST', K) +", "0 +", []string{"repaired"}},
	{"the repair takes the TTL from the index", "+ redis.call('PERSIST', due)", "", []string{"repaired"}},
	{"the repair takes the TTL from the values", "+ redis.call('PERSIST', values)", "", []string{"repaired"}},
	{"the repair takes the TTLs from the lanes", "+ redis.call('PERSIST', prefix .. 'lanes:1')", "", []string{"repaired"}},
	{"the repair puts the index's placeholder back", "redis.call('ZADD', due, 'NX', '+inf', '') +", "0 +", []string{"repaired"}},
	{"the repair puts the values' placeholder back", "+ redis.call('HSETNX', values, '', '0')", "", []string{"repaired"}},
	{"the repair puts the lanes' placeholder back", "redis.call('HSETNX', prefix .. 'lanes:0', '', '0') +", "0 +", []string{"repaired"}},
	{"the repair clears the index", "mended + redis.call('ZREM', due, page[2][i])", "0", []string{"repaired"}},
}

func playKey(t *testing.T, name string, scripts *script.Library) error {
	t.Helper()
	is := func(h keyHistory) bool { return h.name == name }
	list := keyHistories
	i := slices.IndexFunc(list, is)
	var k *Keys
	if i >= 0 {
		k = open(t, Config{Shards: 1})
	} else {
		list = keyServerHistories
		i = slices.IndexFunc(list, is)
		k = openOn(t, redistest.Start(t, redistest.Options{}).Client(t), "n", Config{Shards: 1})
	}
	k.space.Run.Scripts = scripts
	return list[i].play(t, k)
}

// TestKeyHistories plays calls in a given order, with faults between them, and compares each reply.
func TestKeyHistories(t *testing.T) {
	t.Parallel()
	for _, h := range slices.Concat(keyHistories, keyServerHistories) {
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			if err := playKey(t, h.name, kind.Library); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestEveryKeyProtectionIsNeeded takes each protection out and expects the
// histories to notice.
func TestEveryKeyProtectionIsNeeded(t *testing.T) {
	t.Parallel()
	for _, p := range keyProtections {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			for _, name := range p.histories {
				if err := playKey(t, name, scripttest.Without(t, kind.Library, p.old, p.replacement)); err == nil {
					t.Errorf("history %q holds without the protection", name)
				}
			}
		})
	}
}
