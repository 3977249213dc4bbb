package expiry

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redistest"
)

// repairAll runs the repair until it has gone round and found nothing for long.
func repairAll(t *testing.T, client rueidis.Client) {
	t.Helper()
	repairBy(t, RepairKeysJob(client))
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
	k := openKeysOn(t, client, "n/1", KeysConfig{Shards: 2})
	const n = 600 // more than one page of an index
	for i := range n {
		setKey(t, k, fmt.Sprint(i), "x", keyLong)
	}
	setKey(t, k, "over", "x", keyLong)
	for i := range n {
		name := fmt.Sprint(i)
		base := keyBase(t, k, name)
		switch i % 4 {
		case 0:
			keyRaw(t, client, "ZREM", dueKey(base), name)
		case 1:
			keyRaw(t, client, "DEL", valueKey(base, name))
		case 2:
			keyRaw(t, client, "PEXPIRE", valueKey(base, name), "3600000")
		}
	}
	keyDeadline(t, k, "over", time.Now().Add(-time.Minute)) // its index says: in an hour
	base := keyBase(t, k, "0")
	keyRaw(t, client, "PEXPIRE", base, "3600000")
	keyRaw(t, client, "PEXPIRE", dueKey(base), "3600000")
	keyRaw(t, client, "SET", valueKey(base, "foreign"), "no deadline")
	keyRaw(t, client, "LPUSH", valueKey(base, "list"), "no value")
	keyRaw(t, client, "SET", "mr:key:{x/9999}:v:a", "not ours")

	repairAll(t, client)
	count, err := k.Len(t.Context())
	wantKey(t, "Len", count, n/4*3, err)
	wantSlice(t, k.ReapJob(), millrace.Worked)
	wantKey(t, "stored", keyStored(t, k, "over"), false, nil)
	for i := range n {
		name := fmt.Sprint(i)
		key := valueKey(keyBase(t, k, name), name)
		wantKey(t, "TTL of "+name, keyRaw(t, client, "PTTL", key), map[bool]string{true: "-2", false: "-1"}[i%4 == 1], nil)
	}
	for _, key := range []string{base, dueKey(base)} {
		wantKey(t, "TTL of "+key, keyRaw(t, client, "PTTL", key), "-1", nil)
	}
	wantKey(t, "a text of others", keyRaw(t, client, "GET", valueKey(base, "foreign")), "no deadline", nil)
	wantKey(t, "a list of others", keyRaw(t, client, "LLEN", valueKey(base, "list")), "1", nil)
}

// TestKeyShardIsRepaired: with its record lost, a shard has its values yet.
func TestKeyShardIsRepaired(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t, redistest.Options{}).Client(t)
	k := openKeysOn(t, client, "n", KeysConfig{Shards: 1})
	setKey(t, k, "a", "x", keyLong)
	setKey(t, k, "over", "x", keyLong)
	keyOver(t, k, "over")
	base := keyBase(t, k, "a")
	keyRaw(t, client, "DEL", base, dueKey(base))
	repairAll(t, client)
	wantKey(t, "version", keyRaw(t, client, "HGET", base, "version"), "1", nil)
	wantSlice(t, k.ReapJob(), millrace.Worked)
	n, err := k.Len(t.Context())
	wantKey(t, "Len", n, 1, err)
}

// TestForeignKeyShards: what is no shard of this version is refused and left
// alone.
func TestForeignKeyShards(t *testing.T) {
	t.Parallel()
	for i, c := range []struct {
		key     func(base string) string
		command []string
		want    error
	}{
		{func(base string) string { return base }, []string{"SET", "", "text"}, ErrBroken},
		{func(base string) string { return base }, []string{"HSET", "", "color", "red"}, ErrBroken},
		{func(base string) string { return base }, []string{"HSET", "", "version", "2"}, ErrVersion},
		{dueKey, []string{"SET", "", "text"}, ErrBroken},
		{func(base string) string { return valueKey(base, "a") }, []string{"SET", "", "text"}, ErrBroken},
		{func(base string) string { return valueKey(base, "a") }, []string{"SET", "", "0001700000000000"}, ErrBroken},
		{func(base string) string { return valueKey(base, "a") }, []string{"LPUSH", "", "text"}, ErrBroken},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			k := openKeys(t, KeysConfig{Shards: 1})
			client, ctx := k.space.run.Client, t.Context()
			base := keyBase(t, k, "a")
			c.command[1] = c.key(base)
			keyRaw(t, client, c.command...)
			before := keyRaw(t, client, "DUMP", c.command[1])
			broken := c.command[1] == dueKey(base) // reading does not need the index
			_, err := k.Set(ctx, "a", nil, keyLong, SetKeyConfig{})
			wantKeyError(t, "Set", err, c.want)
			if !broken {
				_, _, err = k.Get(ctx, "a")
				wantKeyError(t, "Get", err, c.want)
				_, err = k.TTL(ctx, "a")
				wantKeyError(t, "TTL", err, c.want)
			}
			_, err = k.Expire(ctx, "a", keyLong)
			wantKeyError(t, "Expire", err, c.want)
			_, err = k.Delete(ctx, "a")
			wantKeyError(t, "Delete", err, c.want)
			if c.command[1] != valueKey(base, "a") {
				_, err = k.ReapJob().Slice(ctx)
				wantKeyError(t, "reap", err, c.want)
				_, err = k.Len(ctx)
				wantKeyError(t, "Len", err, c.want)
			}
			if after := keyRaw(t, client, "DUMP", c.command[1]); after != before {
				t.Errorf("%q was changed", c.command)
			}
			for _, key := range keysOfKeys(base) {
				if key != c.command[1] && keyRaw(t, client, "EXISTS", key) == "1" {
					t.Errorf("%s was created", key)
				}
			}
		})
	}
}
