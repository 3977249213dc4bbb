package pinned

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/registry"
	"github.com/millrace/millrace/internal/test/redistest"
)

// TestKeysAreNotEvicted holds 1,000 values while cache entries fill the memory,
// under every policy.
func TestKeysAreNotEvicted(t *testing.T) {
	t.Parallel()
	const fill = "for i = 1, ARGV[1] do redis.call('SET', 'cache:' .. ARGV[2] .. ':' .. i, string.rep('x', 200), 'PX', 3600000) end"
	for _, policy := range []string{
		"noeviction", "volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl",
		"allkeys-lru", "allkeys-lfu", "allkeys-random",
	} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, redistest.Options{MaxMemory: "8mb", Policy: policy})
			client := server.Client(t)
			if strings.HasPrefix(policy, "allkeys-") {
				_, err := Open(t.Context(), client, "n", Config{})
				wantKeyError(t, "Open", err, millrace.ErrEvictable)
				var logged bytes.Buffer
				k := openOn(t, client, "n", Config{AllowEvictable: true, Logger: slog.New(slog.NewTextHandler(&logged, nil))})
				wantKey(t, "keys after opening", keyRaw(t, client, "DBSIZE"), "0", nil)
				setKey(t, k, "a", "x", keyLong)
				setKey(t, k, "b", "x", keyLong)
				if got := strings.Count(logged.String(), "level=WARN"); got != 1 || !strings.Contains(logged.String(), policy) {
					t.Errorf("log = %q, want one warning", logged.String())
				}
				return
			}
			k := openOn(t, client, "n", Config{})
			const n = 1000
			names := make([]string, n)
			for i := range names {
				names[i] = strconv.Itoa(i)
				setKey(t, k, names[i], "value "+names[i], keyLong)
			}
			refused := 0
			for i := range 200 { // twice what fits, and more
				err := client.Do(t.Context(), client.B().Eval().Script(fill).Numkeys(0).Arg("500", strconv.Itoa(i)).Build()).Error()
				if err != nil && !rueidis.IsRedisNil(err) {
					refused++
				}
			}
			evicted := server.Info("stats")["evicted_keys"]
			if (policy == "noeviction") != (refused > 0) || (policy != "noeviction") != (evicted != "0") {
				t.Errorf("%d writes refused, %s keys evicted: the memory was never full", refused, evicted)
			}
			values, err := k.GetMany(t.Context(), names...)
			wantKey(t, "values kept", len(values), n, err)
			for name, value := range values {
				if string(value) != "value "+name {
					t.Errorf("value %s is %q", name, value)
				}
			}
			count, err := lenOf(t, k)
			wantKey(t, "Len", count, n, err)
		})
	}
}

// fullKeys returns values on a server that gets full: of them, some are overdue.
func fullKeys(t *testing.T, overdue int) (k *Keys, limit func(string)) {
	t.Helper()
	client := redistest.Start(t, redistest.Options{}).Client(t)
	k = openOn(t, client, "n", Config{Shards: 1})
	for i := range overdue {
		name := fmt.Sprint("over", i)
		setKey(t, k, name, strings.Repeat("x", 10000), keyLong)
	}
	for i := range overdue { // not before, since each Set reaps
		keyOver(t, k, fmt.Sprint("over", i))
	}
	return k, func(max string) { keyRaw(t, client, "CONFIG", "SET", "maxmemory", max) }
}

// keyDump returns all that is stored, to see whether anything changed.
func keyDump(t *testing.T, k *Keys) string {
	t.Helper()
	client := k.space.Run.Client
	names, err := client.Do(t.Context(), client.B().Keys().Pattern("*").Build()).AsStrSlice()
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	all := ""
	for _, name := range names {
		if strings.HasPrefix(name, "mr:registry:") {
			continue // entered in the background
		}
		all += name + "=" + keyRaw(t, client, "DUMP", name) + "\n"
	}
	return all
}

// TestKeysOnAFullServer: a value that does not fit is refused wholly; other calls
// work.
func TestKeysOnAFullServer(t *testing.T) {
	t.Parallel()
	k, limit := fullKeys(t, 0)
	ctx := t.Context()
	setKey(t, k, "a", "x", keyLong)
	setKey(t, k, "b", "x", keyLong)
	before := keyDump(t, k)
	limit("1")
	for what, cfg := range map[string]SetConfig{"new": {}, "none": {IfNone: true}} {
		_, err := k.Set(ctx, what, []byte("y"), keyLong, cfg)
		wantKeyError(t, "Set of a new value", err, millrace.ErrFull)
	}
	for _, cfg := range []SetConfig{{}, {IfExist: true}} {
		_, err := k.Set(ctx, "a", []byte("y"), 2*keyLong, cfg)
		wantKeyError(t, "Set of a value that is there", err, millrace.ErrFull)
	}
	if after := keyDump(t, k); after != before {
		t.Errorf("a refused Set changed something:\n%q\n%q", before, after)
	}
	fresh := openOn(t, k.space.Run.Client, "fresh", Config{})
	_, err := fresh.Set(ctx, "a", nil, keyLong, SetConfig{})
	wantKeyError(t, "Set in a new namespace", err, millrace.ErrFull)
	wantKey(t, "keys", keyDump(t, k) == before, true, nil)

	wantKey(t, "Get", getKey(t, k, "a"), "x", nil)
	ok, err := k.Expire(ctx, "a", 2*keyLong)
	wantKey(t, "Expire", ok, true, err)
	ttl, err := ttlOf(ctx, k, "a")
	wantKey(t, "TTL is longer", ttl > keyLong, true, err)
	n, err := lenOf(t, k)
	wantKey(t, "Len", n, 2, err)
	n, err = k.Remove(ctx, "b")
	wantKey(t, "Delete", n, 1, err)
	keyOverFull(t, k, limit, "a")
	wantSlice(t, k.Jobs()[0], millrace.Worked)
	wantKey(t, "Stats", keyStats(t, k), Stats{Shards: 1, Set: 2, Deleted: 1, Reaped: 1}, nil)
	limit("0")
	setKey(t, k, "a", "y", keyLong)
}

// keyOverFull makes a value overdue past the limit.
func keyOverFull(t *testing.T, k *Keys, limit func(string), key string) {
	t.Helper()
	limit("0")
	keyOver(t, k, key)
	limit("1")
}

// TestKeyUpkeepOnAFullServer: reaping that finds a value which lives on, and the
// repair, write into the index of a full server.
func TestKeyUpkeepOnAFullServer(t *testing.T) {
	t.Parallel()
	k, limit := fullKeys(t, 0)
	client := k.space.Run.Client
	setKey(t, k, "a", "x", keyLong)
	setKey(t, k, "b", "x", keyLong)
	keyIndex(t, k, "a", time.Now().Add(-time.Minute)) // a lower bound
	keyRaw(t, client, "ZREM", dueKey(keyBase(t, k, "b")), "b")
	registry.Settle(t.Context(), client)
	limit("1")
	wantSlice(t, k.Jobs()[0], millrace.Worked)
	wantSlice(t, k.Jobs()[0], millrace.Idle)
	repairAll(t, client)
	n, err := lenOf(t, k)
	wantKey(t, "Len", n, 2, err)
}

// TestKeySetMakesRoom: a full server's overdue values go before a value is
// refused.
func TestKeySetMakesRoom(t *testing.T) {
	t.Parallel()
	k, limit := fullKeys(t, 50)
	used := redisMemory(t, k)
	limit(strconv.Itoa(used - 200000))
	setKey(t, k, "a", "x", keyLong)
	if s := keyStats(t, k); s.Keys != 1 || s.Overdue != 0 {
		t.Errorf("Stats = %+v, want what was overdue gone", s)
	}
}

func redisMemory(t *testing.T, k *Keys) int {
	t.Helper()
	client := k.space.Run.Client
	for line := range strings.Lines(keyRaw(t, client, "INFO", "memory")) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), "used_memory:"); ok {
			n, err := strconv.Atoi(text)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatal("INFO does not tell the memory")
	return 0
}

// TestBigValueOnAnAlmostFullServer: Redis looks at its memory before a script and
// not in it. A value that passes is stored whole, with its place in the index,
// however big it is; the next one is refused.
func TestBigValueOnAnAlmostFullServer(t *testing.T) {
	t.Parallel()
	k, limit := fullKeys(t, 0)
	setKey(t, k, "a", "x", keyLong)
	limit(strconv.Itoa(redisMemory(t, k) + 1<<20))
	big := strings.Repeat("x", 4<<20)
	refused := false
	for i := range 3 {
		name := fmt.Sprint("big", i)
		_, err := k.Set(t.Context(), name, []byte(big), keyLong, SetConfig{})
		score := keyRaw(t, k.space.Run.Client, "ZSCORE", dueKey(keyBase(t, k, name)), name)
		if err == nil {
			wantKey(t, "a big value", getKey(t, k, name) == big && score != "", true, nil)
		} else {
			refused = true
			wantKeyError(t, "Set", err, millrace.ErrFull)
			wantKey(t, "a refused value", getKey(t, k, name) == "" && score == "", true, nil)
		}
	}
	wantKey(t, "the last was refused", refused, true, nil)
	wantKey(t, "the small value", getKey(t, k, "a"), "x", nil)
}

// TestKeyPolicyChanges changes a server's eviction policy under a running program,
// and back.
func TestKeyPolicyChanges(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t, redistest.Options{MaxMemory: "16mb", Policy: "volatile-lru"}).Client(t)
	var strictLog, laxLog bytes.Buffer
	strict := openOn(t, client, "n", Config{Logger: slog.New(slog.NewTextHandler(&strictLog, nil))})
	lax := openOn(t, client, "n", Config{AllowEvictable: true, Logger: slog.New(slog.NewTextHandler(&laxLog, nil))})
	setKey(t, strict, "a", "x", keyLong)
	setKey(t, lax, "c", "x", keyLong)
	learn := func(policy string) {
		t.Helper()
		keyRaw(t, client, "CONFIG", "SET", "maxmemory-policy", policy)
		for _, k := range []*Keys{strict, lax} {
			redistest.Eventually(t, "the change is seen", func() bool {
				progress, err := k.Jobs()[1].Slice(t.Context())
				return err == nil && progress == millrace.Worked
			})
			wantSlice(t, k.Jobs()[1], millrace.Idle)
		}
	}
	learn("allkeys-lfu")
	for range 3 {
		_, err := strict.Set(t.Context(), "b", nil, keyLong, SetConfig{})
		wantKeyError(t, "Set", err, millrace.ErrEvictable)
		setKey(t, lax, "c", "x", keyLong)
	}
	wantKey(t, "Get", getKey(t, strict, "a"), "x", nil)
	ok, err := strict.Expire(t.Context(), "a", 2*keyLong)
	wantKey(t, "Expire", ok, true, err)
	n, err := strict.Remove(t.Context(), "c")
	wantKey(t, "Delete", n, 1, err)
	learn("noeviction")
	setKey(t, strict, "b", "x", keyLong)
	for who, logged := range map[string]*bytes.Buffer{"strict": &strictLog, "lax": &laxLog} {
		text := logged.String()
		if strings.Count(text, "level=WARN") != 1 || strings.Count(text, "level=INFO") != 1 {
			t.Errorf("%s logged %q, want a warning and the all-clear", who, text)
		}
	}
}

// TestOpenWithoutAQuestion: a program that accepts any policy opens a namespace without asking
// for it; a silent server blocks no call.
func TestOpenWithoutAQuestion(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{MaxMemory: "8mb", Policy: "allkeys-lru"})
	client := server.Client(t)
	keyRaw(t, client, "CONFIG", "RESETSTAT")
	openOn(t, client, "n", Config{AllowEvictable: true})
	if got, asked := server.Info("commandstats")["cmdstat_info"]; asked {
		t.Errorf("INFO was asked for: %s", got)
	}
}

// TestKeysWithoutInfo: an unknown policy is accepted, with a
// warning.
func TestKeysWithoutInfo(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{MaxMemory: "8mb", Policy: "allkeys-lru"})
	keyRaw(t, server.Client(t), "ACL", "SETUSER", "noinfo", "on", ">pw", "~*", "&*", "+@all", "-info")
	client := server.Client(t, func(o *rueidis.ClientOption) { o.Username, o.Password = "noinfo", "pw" })
	var logged bytes.Buffer
	k := openOn(t, client, "n", Config{Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	setKey(t, k, "a", "x", keyLong)
	if got := strings.Count(logged.String(), "level=WARN"); got != 1 {
		t.Errorf("log = %q, want one warning", logged.String())
	}
}
