package pinned

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/internal/test/shardstest"
)

// TestKeysWhileTheirSlotMoves: a slot that is on its way to another node stops no call,
// however long it stays so.
func TestKeysWhileTheirSlotMoves(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t, 2, 0)
	client := cluster.Client(t)
	k := openOn(t, client, "n", Config{Shards: 1})
	ctx := t.Context()
	setKey(t, k, "old", "x", keyLong)
	setKey(t, k, "over", "x", keyLong)
	base := keyBase(t, k, "old")
	round := 0
	shardstest.Moving(t, cluster, base, func(state string) {
		round++
		for try := range 2 { // the first empties the shard, and the second begins with it so
			what := func(call string) string { return fmt.Sprint(call, " with ", state, ", try ", try) }
			shardstest.AgeLanes(t, client, base)
			setKey(t, k, "new", "y", keyLong)
			ok, err := k.Set(ctx, "new", []byte("z"), keyLong, SetConfig{IfNone: true})
			wantKey(t, what("Set if none"), ok, false, err)
			ok, err = k.Set(ctx, "none", []byte("z"), keyLong, SetConfig{IfExist: true})
			wantKey(t, what("Set if it exists"), ok, false, err)
			wantKey(t, what("Get"), getKey(t, k, "new"), "y", nil)
			wantKey(t, what("Get of nothing"), getKey(t, k, "none"), "", nil)
			many, err := k.GetMany(ctx, "new", "none")
			wantKey(t, what("GetMany"), len(many), 1, err)
			ttl, err := ttlOf(ctx, k, "new")
			wantKey(t, what("TTL"), ttl > 0, true, err)
			ok, err = k.Expire(ctx, "new", 2*keyLong)
			wantKey(t, what("Expire"), ok, true, err)
			setKey(t, k, "over", "x", keyLong)
			keyOver(t, k, "over")
			if _, err := k.Jobs()[0].Slice(ctx); err != nil {
				t.Errorf("%s: %v", what("reap"), err)
			}
			repairAll(t, client)
			if _, err := k.Remove(ctx, "old", "new", "none"); err != nil {
				t.Errorf("%s: %v", what("Delete"), err)
			}
			n, err := lenOf(t, k)
			wantKey(t, what("Len"), n, 0, err)
			for name, err := range k.Names(ctx) {
				t.Errorf("%s: %q, %v", what("Names"), name, err)
			}
			if n := keyRaw(t, client, "HGET", base, "repaired"); n != "" {
				t.Errorf("%s: %s things were repaired", what("repair"), n)
			}
		}
		fresh := openOn(t, client, "n"+strconv.Itoa(round), Config{Shards: 1})
		_, _, err := fresh.Get(ctx, "a")
		wantKeyError(t, "Get in a namespace that is not there", err, millrace.ErrNotFound)
	}).Finish(t)
	setKey(t, k, "new", "y", keyLong)
	wantKey(t, "Get, afterwards", getKey(t, k, "new"), "y", nil)
	wantKey(t, "Delete", nil, nil, k.Delete(ctx))
}

// TestKeysBeginWhileTheirSlotMoves: so can the first value of a shard be stored, and a
// namespace be deleted.
func TestKeysBeginWhileTheirSlotMoves(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t, 2, 0)
	client := cluster.Client(t)
	k := openOn(t, client, "n", Config{Shards: 1})
	base := kind.ShardKey("n", 0)
	shardstest.Moving(t, cluster, base, func(string) {
		wantKey(t, "Get", getKey(t, k, "a"), "", nil)
		setKey(t, k, "a", "x", keyLong)
		wantKey(t, "Get", getKey(t, k, "a"), "x", nil)
		wantKey(t, "Delete", nil, nil, k.Delete(t.Context()))
		wantKey(t, "keys", keyRaw(t, client, "EXISTS", base), "0", nil)
	})
	setKey(t, k, "a", "y", keyLong)
	wantKey(t, "Get", getKey(t, k, "a"), "y", nil)
}

// TestHalfAShardOfKeys: with a key of a shard moved to another node, no call works on the
// half that it finds there.
func TestHalfAShardOfKeys(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t, 2, 0)
	k := openOn(t, cluster.Client(t), "n", Config{Shards: 1})
	setKey(t, k, "a", "x", keyLong)
	base := keyBase(t, k, "a")
	for _, key := range keysOfShard(base) {
		m := cluster.BeginMigration(t, base)
		m.Move(t, key)
		brief, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		if ok, err := k.Set(brief, "b", []byte("x"), keyLong, SetConfig{}); err == nil {
			t.Errorf("Set with %s moved = %v", key, ok)
		}
		if n, err := k.Remove(brief, "a"); err == nil {
			t.Errorf("Delete with %s moved = %d", key, n)
		}
		cancel()
		m.Finish(t)
		wantKey(t, "Get, afterwards", getKey(t, k, "a"), "x", nil)
		n, err := lenOf(t, k)
		wantKey(t, "Len, afterwards", n, 1, err)
	}
}
