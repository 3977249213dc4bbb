package expiry

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redistest"
	script "github.com/millrace/millrace/internal/oldscript"
)

// A keyHistory plays one way in which a value could break its word, and returns
// an error if it did.
type keyHistory struct {
	name string
	play func(t *testing.T, k *Keys) error
}

// setErr stores a value and checks what Set answers.
func setErr(t *testing.T, k *Keys, key, value string, cfg SetKeyConfig, want bool) error {
	t.Helper()
	ok, err := k.Set(t.Context(), key, []byte(value), keyLong, cfg)
	if err != nil || ok != want {
		return fmt.Errorf("Set of %q = %v, %w, want %v", value, ok, err, want)
	}
	return nil
}

// holds checks a value, "" for none.
func holds(t *testing.T, k *Keys, key, want string) error {
	t.Helper()
	value, _, err := k.Get(t.Context(), key)
	if want == "" && errors.Is(err, ErrNotFound) {
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

// reaped runs a slice and checks what it found.
func reaped(t *testing.T, k *Keys, want millrace.Progress) error {
	t.Helper()
	progress, err := k.ReapJob().Slice(t.Context())
	if err != nil || progress != want {
		return fmt.Errorf("reap = %v, %w, want %v", progress, err, want)
	}
	return nil
}

// keyHas checks what a command past the library answers.
func keyHas(t *testing.T, k *Keys, want string, args ...string) error {
	t.Helper()
	if got := keyRaw(t, k.space.run.Client, args...); got != want {
		return fmt.Errorf("%q = %s, want %s", args, got, want)
	}
	return nil
}

// again runs a script twice as one request whose first reply was lost, and checks
// the answers. Something may happen in between.
func again(t *testing.T, k *Keys, s *script.Script, between func(), args ...string) error {
	t.Helper()
	client, base := k.space.run.Client, keyBase(t, k, args[0])
	args = slices.Insert(args, 0, "id")
	var answers [2]int64
	for try := range answers {
		var err error
		cmd := client.B().Eval().Script(s.Source()).Numkeys(1).Key(base).Arg(args...).Arg(fmt.Sprint(try + 1)).Build()
		if answers[try], err = client.Do(t.Context(), cmd).AsInt64(); err != nil {
			return fmt.Errorf("try %d: %w", try+1, err)
		}
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
	keyRaw(t, k.space.run.Client, "CONFIG", "SET", "maxmemory", limit)
}

const hourMillis = "3600000"

var keyHistories = []keyHistory{
	{"over", func(t *testing.T, k *Keys) error {
		setKey(t, k, "a", "x", keyLong)
		keyOver(t, k, "a")
		_, ttlErr := k.TTL(t.Context(), "a")
		ok, err := k.Expire(t.Context(), "a", keyLong)
		if !errors.Is(ttlErr, ErrNotFound) || ok || err != nil {
			return fmt.Errorf("of what is over, TTL = %w, Expire = %v, %w", ttlErr, ok, err)
		}
		n, err := k.Delete(t.Context(), "a")
		if n != 0 || err != nil {
			return fmt.Errorf("Delete of what is over = %d, %w", n, err)
		}
		return holds(t, k, "a", "")
	}},
	{"a life is whole", func(t *testing.T, k *Keys) error {
		client, base := k.space.run.Client, keyBase(t, k, "a")
		setKey(t, k, "a", "x", keyLong)
		for range 20 { // there are moments at which a millisecond has just begun
			for what, live := range map[string]func() error{
				"Set": func() error { return setErr(t, k, "a", "x", SetKeyConfig{}, true) },
				"Expire": func() error {
					_, err := k.Expire(t.Context(), "a", keyLong)
					return err
				},
			} {
				began := clock(t, client)
				if err := live(); err != nil {
					return err
				}
				ms, err := strconv.ParseInt(keyRaw(t, client, "GETRANGE", valueKey(base, "a"), "0", "15"), 10, 64)
				if deadline := time.UnixMilli(ms); err != nil || deadline.Sub(began) < keyLong {
					return fmt.Errorf("%s: the value ends %v after it, %w, want %v at least", what, deadline.Sub(began), err, keyLong)
				}
				asked := clock(t, client)
				_, got, err := k.Get(t.Context(), "a")
				if told := asked.Add(got); err != nil || told.After(time.UnixMilli(ms)) {
					return fmt.Errorf("after %s, Get tells of %v, %w, more than is left", what, got, err)
				}
				asked = clock(t, client)
				got, err = k.TTL(t.Context(), "a")
				if told := asked.Add(got); err != nil || told.After(time.UnixMilli(ms)) {
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
			setErr(t, k, "a", "x", SetKeyConfig{IfNone: true}, true),
			setErr(t, k, "a", "y", SetKeyConfig{IfNone: true}, false),
			holds(t, k, "a", "x"),
		)
	}},
	{"set if none where one is over", func(t *testing.T, k *Keys) error {
		setKey(t, k, "a", "x", keyLong)
		keyOver(t, k, "a")
		return setErr(t, k, "a", "y", SetKeyConfig{IfNone: true}, true)
	}},
	{"set if it exists", func(t *testing.T, k *Keys) error {
		setKey(t, k, "a", "x", keyLong)
		keyOver(t, k, "a")
		return setErr(t, k, "a", "y", SetKeyConfig{IfExist: true}, false)
	}},
	{"reaped", func(t *testing.T, k *Keys) error {
		setKey(t, k, "a", "x", keyLong)
		setKey(t, k, "b", "x", keyLong)
		keyOver(t, k, "a")
		return errors.Join(
			counted(t, k, 1, 1), reaped(t, k, millrace.Worked), counted(t, k, 1, 0), holds(t, k, "b", "x"),
			keyHas(t, k, "0", "EXISTS", valueKey(keyBase(t, k, "a"), "a")),
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
		key := valueKey(keyBase(t, k, "a"), "a")
		keyRaw(t, k.space.run.Client, "DEL", key)
		keyRaw(t, k.space.run.Client, "LPUSH", key, "theirs")
		return errors.Join(
			reaped(t, k, millrace.Worked), keyHas(t, k, "1", "LLEN", key), reaped(t, k, millrace.Idle),
		)
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
		ttl, err := k.TTL(t.Context(), "a")
		if err != nil || ttl <= time.Minute {
			return fmt.Errorf("TTL = %v, %w", ttl, err)
		}
		value := keyRaw(t, k.space.run.Client, "GET", valueKey(base, "a"))
		score := strings.TrimLeft(value[:16], "0")
		return errors.Join(holds(t, k, "a", "x"), keyHas(t, k, score, "ZSCORE", dueKey(base), "a"))
	}},
	{"deleted", func(t *testing.T, k *Keys) error {
		setKey(t, k, "a", "x", keyLong)
		if n, err := k.Delete(t.Context(), "a"); n != 1 || err != nil {
			return fmt.Errorf("Delete = %d, %w", n, err)
		}
		return errors.Join(holds(t, k, "a", ""), counted(t, k, 0, 0))
	}},
	{"a Redis TTL before a Set", func(t *testing.T, k *Keys) error {
		setKey(t, k, "a", "x", keyLong)
		key := valueKey(keyBase(t, k, "a"), "a")
		keyRaw(t, k.space.run.Client, "PEXPIRE", key, hourMillis)
		setKey(t, k, "a", "y", keyLong)
		return keyHas(t, k, "-1", "PTTL", key)
	}},
	{"a Redis TTL before an Expire", func(t *testing.T, k *Keys) error {
		setKey(t, k, "a", "x", keyLong)
		key := valueKey(keyBase(t, k, "a"), "a")
		keyRaw(t, k.space.run.Client, "PEXPIRE", key, hourMillis)
		if ok, err := k.Expire(t.Context(), "a", keyLong); !ok || err != nil {
			return fmt.Errorf("Expire = %v, %w", ok, err)
		}
		return keyHas(t, k, "-1", "PTTL", key)
	}},
	{"repeated set over a later one", func(t *testing.T, k *Keys) error {
		later := func() { setKey(t, k, "a", "later", keyLong) }
		return errors.Join(again(t, k, k.scripts.set, later, "a", hourMillis, "", "x"), holds(t, k, "a", "later"))
	}},
	{"repeated set if none", func(t *testing.T, k *Keys) error {
		return again(t, k, k.scripts.set, func() {}, "a", hourMillis, "none", "x")
	}},
	{"repeated expire", func(t *testing.T, k *Keys) error {
		setKey(t, k, "a", "x", keyLong)
		return again(t, k, k.scripts.expire, func() { keyOver(t, k, "a") }, "a", hourMillis)
	}},
	{"repeated delete", func(t *testing.T, k *Keys) error {
		setKey(t, k, "a", "x", keyLong)
		later := func() { setKey(t, k, "a", "later", keyLong) }
		return errors.Join(again(t, k, k.scripts.delete, later, "a"), holds(t, k, "a", "later"))
	}},
	{"a version to come", func(t *testing.T, k *Keys) error {
		setKey(t, k, "a", "x", keyLong)
		keyRaw(t, k.space.run.Client, "HSET", keyBase(t, k, "a"), "version", "2")
		for what, call := range map[string]func() error{
			"Get":   func() error { _, _, err := k.Get(t.Context(), "a"); return err },
			"Set":   func() error { _, err := k.Set(t.Context(), "a", nil, keyLong, SetKeyConfig{}); return err },
			"reap":  func() error { _, err := k.ReapJob().Slice(t.Context()); return err },
			"Stats": func() error { _, err := k.Stats(t.Context()); return err },
		} {
			if err := call(); !errors.Is(err, ErrVersion) {
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
		if _, err := k.Set(t.Context(), "a", []byte("y"), keyLong, SetKeyConfig{}); !errors.Is(err, millrace.ErrFull) {
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
		client := k.space.run.Client
		for _, name := range []string{"a", "b", "c", "d"} {
			setKey(t, k, name, "x", keyLong)
		}
		base := keyBase(t, k, "a")
		keyRaw(t, client, "ZREM", dueKey(base), "a")
		keyRaw(t, client, "DEL", valueKey(base, "b"))
		keyRaw(t, client, "PEXPIRE", valueKey(base, "c"), hourMillis)
		keyIndex(t, k, "d", time.Now().Add(100*keyLong))
		keyRaw(t, client, "PEXPIRE", base, hourMillis)
		keyRaw(t, client, "PEXPIRE", dueKey(base), hourMillis)
		repairBy(t, millrace.Job{Name: "repair", Slice: newKeyRepair(client, k.scripts).slice})
		return errors.Join(
			counted(t, k, 3, 0),
			keyHas(t, k, "-1", "PTTL", valueKey(base, "c")),
			keyHas(t, k, "-1", "PTTL", base),
			keyHas(t, k, "-1", "PTTL", dueKey(base)),
			keyHas(t, k, strings.TrimLeft(keyRaw(t, client, "GETRANGE", valueKey(base, "d"), "0", "15"), "0"), "ZSCORE", dueKey(base), "d"),
		)
	}},
}

// keyProtections are what keeps the histories from failing, and how to take it
// out.
var keyProtections = []struct {
	name, old, replacement string
	histories              []string // those that must catch it
}{
	{"what is over is not read", "left = left_of(tonumber(string.sub(value, 1, 16)))", "left = 1", []string{"read when it is over"}},
	{"what is over has no ttl", "return left_of(deadline)", "return 1", []string{"over"}},
	{"a life begins when its millisecond is over", "stamp(soon + ARGV[3])", "stamp(now + ARGV[3])", []string{"a life is whole"}},
	{"what is left does not count the millisecond that has begun", "deadline - soon)", "deadline - now)", []string{"a life is whole"}},
	{"what is over is not prolonged", "elseif deadline <= now then", "elseif deadline == 0 then", []string{"over"}},
	{"what is over is not counted as deleted", "alive[i] = deadline > now", "alive[i] = deadline > 0", []string{"over"}},
	{"set if none heeds what is there", "condition == 'none' and deadline > now or", "", []string{"set if none"}},
	{"what is over is none", "condition == 'none' and deadline > now", "condition == 'none' and deadline > 0", []string{"set if none where one is over"}},
	{"what is over does not exist", "condition == 'exist' and deadline <= now", "condition == 'exist' and deadline == 0", []string{"set if it exists"}},
	{"set writes the index", "redis.call('ZADD', due, at, name)\nredis.call('SET'", "redis.call('SET'", []string{"reaped"}},
	{"set begins with what is refused", "redis.call('ZADD', due, at, name)\nredis.call('SET'", "redis.call('HDEL', K, '')\nredis.call('ZADD', due, at, name)\nredis.call('SET'",
		[]string{"set on a full server"}},
	{"set takes a TTL away", "redis.call('SET', key, value)", "redis.call('SET', key, value, 'KEEPTTL')", []string{"a Redis TTL before a Set"}},
	{"reap heeds the value's own deadline", "if deadline and deadline > now then", "if false then", []string{"the index lags behind a value"}},
	{"reap mends the index", "redis.call('ZADD', due, stamp(deadline), name)", "do end", []string{"the index lags behind a value"}},
	{"reap frees the value", "redis.call('UNLINK', key)\n", "1\n", []string{"reaped"}},
	{"reap clears the index", "      redis.call('ZREM', due, name)\n", "", []string{"reaped", "something else in the place of a value"}},
	{"reap leaves what is no value", "      if deadline then\n", "      if true then\n", []string{"something else in the place of a value"}},
	{"reap begins with what is not refused", "redis.call('HDEL', K, '')", "", []string{"the index lags on a full server"}},
	{"reap begins with the first due", "'-inf', stamp(now)", "stamp(now), '+inf'", []string{"reaped"}},
	{"writes reap", "reap(2)\n", "", []string{"reaped by writes"}},
	{"expire writes the index", "redis.call('ZADD', due, at, name)\nredis.call('SETRANGE'", "redis.call('SETRANGE'", []string{"prolonged"}},
	{"expire writes the value", "redis.call('SETRANGE', key, 0, at)", "", []string{"prolonged"}},
	{"expire takes a TTL away", "redis.call('PERSIST', key)\nredis.call('ZADD', due, at", "redis.call('ZADD', due, at", []string{"a Redis TTL before an Expire", "expire on a full server"}},
	{"delete clears the index", "redis.call('ZREM', due, ARGV[i])", "do end", []string{"deleted"}},
	{"a set is known again", "if ARGV[#ARGV] ~= '1' and reqid_recall(id) then", "if false then",
		[]string{"repeated set over a later one", "repeated set if none", "repeated expire"}},
	{"a delete is known again", "ARGV[#ARGV] ~= '1' and reqid_recall(id)\nif before", "false\nif before", []string{"repeated delete"}},
	{"answers are remembered", "reqid_remember(id, '1')", "", []string{"repeated set if none", "repeated expire"}},
	{"versions are told apart", "if version and version ~= '1' then", "if false then", []string{"a version to come"}},
	{"the repair indexes values", "redis.call('ZADD', due, stamp(deadline), ARGV[1])", "do end", []string{"repaired"}},
	{"the repair compares deadlines", "if indexed ~= deadline then", "if indexed == 0 then", []string{"repaired"}},
	{"the repair takes TTLs from values", "redis.call('PERSIST', key) --", "0 --", []string{"repaired"}},
	{"the repair takes TTLs from the record", "redis.call('PERSIST', K) +", "0 +", []string{"repaired"}},
	{"the repair takes TTLs from the index", "+ redis.call('PERSIST', due)", "", []string{"repaired"}},
	{"the repair clears the index", "mended + redis.call('ZREM', due, page[2][i])", "0", []string{"repaired"}},
}

// withoutKey returns the scripts with one protection taken out.
func withoutKey(t *testing.T, old, replacement string) *keyScripts {
	t.Helper()
	found := false
	cut := func(source string) string {
		found = found || strings.Contains(source, old)
		return strings.ReplaceAll(source, old, replacement)
	}
	s := assembleKeys(func(name, source string, fragments ...string) *script.Script {
		whole := cut(strings.Join(append(slices.Clone(fragments), source), "\n"))
		return script.New(name, whole)
	})
	if !found {
		t.Fatalf("no script has %q: the sabotage would prove nothing", old)
	}
	return s
}

func playKey(t *testing.T, name string, s *keyScripts) error {
	t.Helper()
	is := func(h keyHistory) bool { return h.name == name }
	list := keyHistories
	i := slices.IndexFunc(list, is)
	var k *Keys
	if i >= 0 {
		k = openKeys(t, KeysConfig{Shards: 1})
	} else {
		list = keyServerHistories
		i = slices.IndexFunc(list, is)
		k = openKeysOn(t, redistest.Start(t, redistest.Options{}).Client(t), "n", KeysConfig{Shards: 1})
	}
	k.scripts = s
	return list[i].play(t, k)
}

func TestKeyHistories(t *testing.T) {
	t.Parallel()
	for _, h := range slices.Concat(keyHistories, keyServerHistories) {
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			if err := playKey(t, h.name, standardKeyScripts); err != nil {
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
				if err := playKey(t, name, withoutKey(t, p.old, p.replacement)); err == nil {
					t.Errorf("history %q holds without the protection", name)
				}
			}
		})
	}
}
