package script_test

import (
	"context"
	"testing"
	"testing/fstest"
	"time"

	"github.com/millrace/millrace/internal/redis/reqid"
	"github.com/millrace/millrace/internal/redis/script"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/internal/test/scripttest"
)

// moving has a structure with a fixed set of keys, and items that come and go.
var moving = script.Load(fstest.MapFS{
	"add.lua": {Data: []byte(`-- test.add(K) by -> number
-- Needs    lane
-- Touches  K, log
-- Makes    K hash version 1, log zset
if answered then
  return tonumber(answered)
end
redis.call('HSET', K, 'version', '1')
redis.call('ZADD', prefix .. 'log', '+inf', '')
for i = 0, 1 do
  redis.call('HSETNX', prefix .. 'lanes:' .. i, '', '0')
end
return tonumber(answer(tostring(redis.call('HINCRBY', K, 'n', ARGV[1]))))
`)},
	"read.lua": {Data: []byte(`-- test.read(K) -> number
-- Touches  K, log
return tonumber(redis.call('HGET', K, 'n') or redis.call('ZCARD', prefix .. 'log'))
`)},
	"put.lua": {Data: []byte(`-- test.put(K) item -> 1
-- Touches  K, item:ARGV[1]
return redis.call('HSETNX', prefix .. 'item:' .. ARGV[1], 'f', redis.call('HGET', K, 'n'))
`)},
	"get.lua": {Data: []byte(`-- test.get(K) item -> text
-- Touches  K, item:ARGV[1]
-- Without  item:ARGV[1]
return redis.call('HGET', K, 'version') .. redis.call('HGET', prefix .. 'item:' .. ARGV[1], 'f')
`)},
	"take.lua": {Data: []byte(`-- test.take(K) item -> text
-- Needs    lane
-- Touches  K, item:ARGV[1]
-- Without  item:ARGV[1]
if answered then
  return answered
end
local text = redis.call('HGET', prefix .. 'item:' .. ARGV[1], 'f')
redis.call('UNLINK', prefix .. 'item:' .. ARGV[1])
return answer(text)
`)},
	"upkeep.lua": {Data: []byte(`-- test.upkeep(K) -> number
-- Needs    tidy
-- Touches  K
return tidy_lanes()
`)},
}, "K:")

// TestSlotOnItsWay calls scripts while their slot is on its way to another node, with
// none of its keys there, and with all of them. It may stay so for as long as it likes.
func TestSlotOnItsWay(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t, 2, 0)
	client := cluster.Client(t)
	run := script.Runner{Client: client, Scripts: moving, Lanes: &reqid.Lanes{}}
	call := func(want string, name, key string, args ...string) {
		t.Helper()
		reply, err := run.Run(t.Context(), name, key, args...)
		if err != nil {
			t.Errorf("%s of %s: %v", name, key, err)
			return
		}
		text, _ := reply.Maybe()
		if reply.None() {
			text = "nil"
		}
		if text != want || reply.Err() != nil && !reply.None() {
			t.Errorf("%s of %s = %q, %v, want %q", name, key, text, reply.Err(), want)
		}
	}
	const old, empty, begun = "{k}old", "{k}empty", "{k}new"
	call("1", "add", old, "1")
	for _, item := range []string{"a", "b", "c"} {
		call("1", "put", old, item)
	}
	m := cluster.BeginMigration(t, old)
	call("2", "add", old, "1")
	call("2", "read", old)
	call("0", "read", empty) // which is nowhere, so the other node answers
	call("11", "get", old, "a")
	call("nil", "get", old, "none")
	call("1", "take", old, "a")
	call("nil", "take", old, "a")
	call("1", "add", begun, "1")
	call("2", "add", begun, "1")
	call("2", "read", begun)

	m.Move(t, old) // and not its other keys
	brief, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	for _, name := range []string{"add", "read"} {
		if _, err := run.Run(brief, name, old, "1"); err == nil {
			t.Errorf("%s worked on half of a structure", name)
		}
	}

	m.MoveAll(t)
	call("3", "add", old, "1")
	call("3", "read", old)
	call("11", "get", old, "b")
	call("nil", "get", old, "none")
	call("1", "take", old, "b")
	call("1", "add", "{k}newer", "1")
	call("3", "add", begun, "1")

	m.Finish(t)
	call("4", "add", old, "1")
	call("4", "add", begun, "1")
	call("11", "get", old, "c")
}

// TestLanesOfASlotOnItsWay: forgetting lanes in a migrating slot leaves no key missing.
func TestLanesOfASlotOnItsWay(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t, 2, 0)
	client := cluster.Client(t)
	play := func(library *script.Library, key string, periods int) {
		run := script.Runner{Client: client, Scripts: library, Lanes: &reqid.Lanes{}}
		if _, err := run.Run(t.Context(), "add", key, "1"); err != nil {
			t.Fatal(err)
		}
		age(t, client, key, periods)
		m := cluster.BeginMigration(t, key)
		for _, name := range []string{"upkeep", "add", "upkeep", "add"} {
			if _, err := run.Run(t.Context(), name, key, "1"); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if n := len(m.Left(t)); n != 4 {
			t.Errorf("%d of 4 keys are left: %q", n, m.Left(t))
		}
		m.Finish(t)
	}
	play(moving, "{a}", 5)
	play(moving, "{b}", 1)

	guard := "local moving = on_cluster and type(redis.pcall('EXISTS', prefix .. 'none')) == 'table'"
	careless := scripttest.Without(t, moving, guard, "local moving = false")
	run := script.Runner{Client: client, Scripts: careless, Lanes: &reqid.Lanes{}}
	if _, err := run.Run(t.Context(), "add", "{c}", "1"); err != nil {
		t.Fatal(err)
	}
	age(t, client, "{c}", 5)
	cluster.BeginMigration(t, "{c}")
	if _, err := run.Run(t.Context(), "upkeep", "{c}"); err == nil {
		t.Error("tidying without a look at the slot is no trouble: this shows nothing")
	}
}

// TestTidy has a structure forget the answers of lanes that rest.
func TestTidy(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	key := "{" + redistest.Name(t) + "}"
	run := script.Runner{Client: client, Scripts: moving, Lanes: &reqid.Lanes{}}
	tidy := func(want int64) {
		t.Helper()
		reply, err := run.Run(t.Context(), "upkeep", key)
		if err != nil || reply.Int() != want {
			t.Errorf("tidy = %v, want %d forgotten", err, want)
		}
	}
	add := func(ctx context.Context, by string) int64 {
		t.Helper()
		reply, err := run.Run(ctx, "add", key, by)
		if err != nil {
			t.Fatal(err)
		}
		return reply.Int()
	}
	add(t.Context(), "1")
	keyed := func() int64 { return add(reqid.With(t.Context(), "seed"), "1") }
	if one, other := keyed(), keyed(); one != 2 || other != 2 {
		t.Error("a request with a key is done twice")
	}
	tidy(0)
	age(t, client, key, 1)
	tidy(0) // a repeat of the period before is known yet
	age(t, client, key, 5)
	tidy(2)
	tidy(0)
	if n, err := client.Do(t.Context(), client.B().Exists().Key(key, key+":lanes:0", key+":lanes:1", key+":keyed:0", key+":keyed:1").Build()).AsInt64(); err != nil || n != 3 {
		t.Errorf("%d keys are left, want the structure's and two for lanes", n)
	}
	if keyed() != 3 {
		t.Error("the answer is remembered, want it forgotten")
	}
}
