package pinned

import (
	"fmt"
	"testing"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/test/redistest"
)

// repairAll runs the repair until it has gone round and found nothing for long.
func repairAll(t *testing.T, client rueidis.Client) {
	t.Helper()
	repairBy(t, Jobs(client)[0])
}

func repairBy(t *testing.T, job millrace.Job) {
	t.Helper()
	idle := 0
	for slices := 0; idle < 50 && slices < 1000; slices++ {
		progress, err := job.Slice(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if idle++; progress != millrace.Idle {
			idle = 0
		}
	}
}

// TestKeysAreRepaired damages values in every way that another program could.
func TestKeysAreRepaired(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t, redistest.Options{}).Client(t)
	k := openOn(t, client, "n/1", Config{Shards: 2})
	const n = 600 // more than one page of an index
	for i := range n {
		setKey(t, k, fmt.Sprint(i), "x", keyLong)
	}
	setKey(t, k, "over", "x", keyLong)
	for i := range n {
		name := fmt.Sprint(i)
		base := keyBase(t, k, name)
		switch i % 3 {
		case 0:
			keyRaw(t, client, "ZREM", dueKey(base), name)
		case 1:
			keyRaw(t, client, "HDEL", shardValues(base), name)
		}
	}
	keyOver(t, k, "over")
	base := keyBase(t, k, "0")
	for _, key := range append(keysOfShard(base), kind.RecordKey("n/1")) {
		keyRaw(t, client, "PEXPIRE", key, "3600000")
	}
	keyRaw(t, client, "HSET", shardValues(base), "foreign", "no deadline")
	keyRaw(t, client, "SET", "mr:keys:{x", "not ours")
	keyRaw(t, client, "HSET", "mr:keys:{empty}", "version", "2", "shards", "3")
	keyRaw(t, client, "HSET", "mr:keys:{old}", "version", "1", "shards", "3")

	repairAll(t, client)
	count, err := lenOf(t, k)
	wantKey(t, "Len", count, n/3*2, err)
	wantSlice(t, k.Jobs()[0], millrace.Worked)
	wantKey(t, "stored", keyStored(t, k, "over"), false, nil)
	many, err := k.GetMany(t.Context(), "0", "1", "2", "3")
	wantKey(t, "GetMany", len(many), 3, err)
	for _, key := range append(keysOfShard(base), kind.RecordKey("n/1")) {
		wantKey(t, "TTL of "+key, keyRaw(t, client, "PTTL", key), "-1", nil)
	}
	wantKey(t, "a field of others", keyRaw(t, client, "HGET", shardValues(base), "foreign"), "no deadline", nil)
}

// TestKeyShardIsFoundAgain: with its record lost, a shard has its values yet. They are
// read, and the next write makes the record anew.
func TestKeyShardIsFoundAgain(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t, redistest.Options{}).Client(t)
	k := openOn(t, client, "n", Config{Shards: 1})
	setKey(t, k, "a", "x", keyLong)
	setKey(t, k, "over", "x", keyLong)
	keyOver(t, k, "over")
	base := keyBase(t, k, "a")
	keyRaw(t, client, "DEL", base, dueKey(base))
	wantKey(t, "Get", getKey(t, k, "a"), "x", nil)
	repairAll(t, client) // it repairs no key that is not a shard
	setKey(t, k, "b", "x", keyLong)
	repairAll(t, client)
	wantSlice(t, k.Jobs()[0], millrace.Worked)
	n, err := lenOf(t, k)
	wantKey(t, "Len", n, 2, err)
}

// TestForeignKeyShards: a key that is no shard of this version is refused and left
// alone.
func TestForeignKeyShards(t *testing.T) {
	t.Parallel()
	for i, c := range []struct {
		key     func(base string) string
		command []string
		want    error
	}{
		{func(base string) string { return base }, []string{"SET", "", "text"}, millrace.ErrBroken},
		{func(base string) string { return base }, []string{"HSET", "", "color", "red"}, millrace.ErrBroken},
		{func(base string) string { return base }, []string{"HSET", "", "version", "1"}, millrace.ErrVersion},
		{dueKey, []string{"SET", "", "text"}, millrace.ErrBroken},
		{shardValues, []string{"SET", "", "text"}, millrace.ErrBroken},
		{func(base string) string { return base + ":lanes:0" }, []string{"SET", "", "text"}, millrace.ErrBroken},
		{func(base string) string { return base + ":lanes:1" }, []string{"SET", "", "text"}, millrace.ErrBroken},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			k := open(t, Config{Shards: 1})
			client, ctx := k.space.Run.Client, t.Context()
			base := keyBase(t, k, "a")
			c.command[1] = c.key(base)
			keyRaw(t, client, c.command...)
			before := keyRaw(t, client, "DUMP", c.command[1])
			_, err := k.Set(ctx, "a", nil, keyLong, SetConfig{})
			wantKeyError(t, "Set", err, c.want)
			if c.command[1] == base {
				_, _, err = k.Get(ctx, "a")
				wantKeyError(t, "Get", err, c.want)
				_, err = ttlOf(ctx, k, "a")
				wantKeyError(t, "TTL", err, c.want)
				_, err = k.Expire(ctx, "a", keyLong)
				wantKeyError(t, "Expire", err, c.want)
				_, err = k.Remove(ctx, "a")
				wantKeyError(t, "Delete", err, c.want)
				_, err = k.Jobs()[0].Slice(ctx)
				wantKeyError(t, "reap", err, c.want)
				_, err = lenOf(t, k)
				wantKeyError(t, "Len", err, c.want)
				wantKeyError(t, "Delete", k.Delete(ctx), c.want)
			}
			if after := keyRaw(t, client, "DUMP", c.command[1]); after != before {
				t.Errorf("%q was changed", c.command)
			}
			for _, key := range keysOfShard(base) {
				if key != c.command[1] && keyRaw(t, client, "EXISTS", key) == "1" {
					t.Errorf("%s was created", key)
				}
			}
		})
	}
}

// TestForeignKeyRecords: a namespace's record of another version, or that is not whole, is refused and
// stays as it is.
func TestForeignKeyRecords(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		command []string
		want    error
	}{
		{[]string{"HSET", "", "version", "1"}, millrace.ErrVersion},
		{[]string{"HDEL", "", "version"}, millrace.ErrBroken},
		{[]string{"HDEL", "", "shards"}, millrace.ErrBroken},
	} {
		t.Run(fmt.Sprint(c.command), func(t *testing.T) {
			t.Parallel()
			k := open(t, Config{Shards: 3})
			client := k.space.Run.Client
			setKey(t, k, "a", "x", keyLong)
			c.command[1] = kind.RecordKey(k.space.Name)
			keyRaw(t, client, c.command...)
			before := keyRaw(t, client, "DUMP", c.command[1])
			k.space.Known.Store(0) // as in a program that has just started
			_, err := k.Set(t.Context(), "a", nil, keyLong, SetConfig{})
			wantKeyError(t, "Set", err, c.want)
			if after := keyRaw(t, client, "DUMP", c.command[1]); after != before {
				t.Errorf("the record was changed after %q", c.command)
			}
		})
	}
}

// TestKeyIndexOfAWrongType: a shard that has begun is refused, too, and nothing changed.
func TestKeyIndexOfAWrongType(t *testing.T) {
	t.Parallel()
	for _, wrong := range []func(base string) string{dueKey, shardValues} {
		k := open(t, Config{Shards: 1})
		client, ctx := k.space.Run.Client, t.Context()
		setKey(t, k, "a", "x", keyLong)
		base := keyBase(t, k, "a")
		keyRaw(t, client, "DEL", wrong(base))
		keyRaw(t, client, "SET", wrong(base), "text")
		before := keyRaw(t, client, "DUMP", dueKey(base)) + keyRaw(t, client, "DUMP", shardValues(base)) + keyRaw(t, client, "DUMP", base)
		for what, call := range map[string]func() error{
			"Set":    func() error { _, err := k.Set(ctx, "a", nil, keyLong, SetConfig{}); return err },
			"Expire": func() error { _, err := k.Expire(ctx, "a", keyLong); return err },
			"Delete": func() error { _, err := k.Remove(ctx, "a"); return err },
			"reap":   func() error { _, err := k.Jobs()[0].Slice(ctx); return err },
		} {
			wantKeyError(t, what, call(), millrace.ErrBroken)
		}
		after := keyRaw(t, client, "DUMP", dueKey(base)) + keyRaw(t, client, "DUMP", shardValues(base)) + keyRaw(t, client, "DUMP", base)
		wantKey(t, "nothing is changed", after == before, true, nil)
	}
}
