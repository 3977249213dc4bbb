package expiry

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redistest"
)

// moving plays something in each state in which a resharding can leave the slot of a
// shard for a while: no key of it moved, and all.
func moving(t *testing.T, cluster *redistest.ClusterServers, base string, play func(state string)) *redistest.Migration {
	t.Helper()
	m := cluster.BeginMigration(t, base)
	play("nothing moved")
	m.MoveAll(t)
	play("everything moved")
	return m
}

// rest makes the lanes of a shard so old that they are forgotten at the next chance.
func rest(t *testing.T, client rueidis.Client, base string) {
	t.Helper()
	for _, lanes := range []string{base + ":lanes:0", base + ":lanes:1"} {
		must(t, client, "HINCRBY", lanes, "", "-5")
	}
}

// TestKeysWhileTheirSlotMoves: a slot that is on its way to another node stops no call,
// however long it stays so.
func TestKeysWhileTheirSlotMoves(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t, 2, 0)
	client := cluster.Client(t)
	k := openKeysOn(t, client, "n", KeysConfig{Shards: 1})
	ctx := t.Context()
	setKey(t, k, "old", "x", keyLong)
	setKey(t, k, "over", "x", keyLong)
	base := keyBase(t, k, "old")
	round := 0
	moving(t, cluster, base, func(state string) {
		round++
		for try := range 2 { // the first empties the shard, and the second begins with it so
			what := func(call string) string { return fmt.Sprint(call, " with ", state, ", try ", try) }
			rest(t, client, base)
			setKey(t, k, "new", "y", keyLong)
			ok, err := k.Set(ctx, "new", []byte("z"), keyLong, SetKeyConfig{IfNone: true})
			wantKey(t, what("Set if none"), ok, false, err)
			ok, err = k.Set(ctx, "none", []byte("z"), keyLong, SetKeyConfig{IfExist: true})
			wantKey(t, what("Set if it exists"), ok, false, err)
			wantKey(t, what("Get"), getKey(t, k, "new"), "y", nil)
			wantKey(t, what("Get of nothing"), getKey(t, k, "none"), "", nil)
			many, err := k.GetMany(ctx, "new", "none")
			wantKey(t, what("GetMany"), len(many), 1, err)
			ttl, err := k.TTL(ctx, "new")
			wantKey(t, what("TTL"), ttl > 0, true, err)
			ok, err = k.Expire(ctx, "new", 2*keyLong)
			wantKey(t, what("Expire"), ok, true, err)
			setKey(t, k, "over", "x", keyLong)
			keyOver(t, k, "over")
			if _, err := k.ReapJob().Slice(ctx); err != nil {
				t.Errorf("%s: %v", what("reap"), err)
			}
			repairAll(t, client)
			if _, err := k.Delete(ctx, "old", "new", "none"); err != nil {
				t.Errorf("%s: %v", what("Delete"), err)
			}
			n, err := k.Len(ctx)
			wantKey(t, what("Len"), n, 0, err)
			for name, err := range k.Names(ctx) {
				t.Errorf("%s: %q, %v", what("Names"), name, err)
			}
			if n := keyRaw(t, client, "HGET", base, "repaired"); n != "" {
				t.Errorf("%s: %s things were repaired", what("repair"), n)
			}
		}
		fresh := openKeysOn(t, client, "n"+strconv.Itoa(round), KeysConfig{Shards: 1})
		_, _, err := fresh.Get(ctx, "a")
		wantKeyError(t, "Get in a namespace that is not there", err, millrace.ErrNotFound)
	}).Finish(t)
	setKey(t, k, "new", "y", keyLong)
	wantKey(t, "Get, afterwards", getKey(t, k, "new"), "y", nil)
	wantKey(t, "DeleteNamespace", nil, nil, k.DeleteNamespace(ctx))
}

// TestKeysBeginWhileTheirSlotMoves: so can the first value of a shard be stored, and a
// namespace be deleted.
func TestKeysBeginWhileTheirSlotMoves(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t, 2, 0)
	client := cluster.Client(t)
	k := openKeysOn(t, client, "n", KeysConfig{Shards: 1})
	base := kindKeys.shardKey("n", 0)
	moving(t, cluster, base, func(string) {
		wantKey(t, "Get", getKey(t, k, "a"), "", nil)
		setKey(t, k, "a", "x", keyLong)
		wantKey(t, "Get", getKey(t, k, "a"), "x", nil)
		wantKey(t, "DeleteNamespace", nil, nil, k.DeleteNamespace(t.Context()))
		wantKey(t, "keys", keyRaw(t, client, "EXISTS", base), "0", nil)
	})
	setKey(t, k, "a", "y", keyLong)
	wantKey(t, "Get", getKey(t, k, "a"), "y", nil)
}

// TestHashesWhileTheirSlotMoves: calls on hashes that are there go on, whatever the state
// of the slot, and so do reading and removing of those that are not. A hash that is not
// there can only begin when its slot has moved.
func TestHashesWhileTheirSlotMoves(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t, 2, 0)
	client := cluster.Client(t)
	h := openHashesOn(t, client, "n", HashesConfig{Shards: 1})
	ctx := t.Context()
	var hashes []string
	for i := range 2 {
		for _, part := range []string{"emptied", "dropped", "reaped"} {
			hash := part + strconv.Itoa(i)
			put(t, h, hash, "a", "1", 0)
			hashes = append(hashes, hash)
		}
	}
	put(t, h, inHash, "stays", "1", 0)
	base := baseOf(t, h, inHash)
	round := -1
	moving(t, cluster, base, func(state string) {
		round++
		want := func(call string, got, want any, err error) {
			t.Helper()
			wantKey(t, call+" with "+state, got, want, err)
		}
		for _, part := range []string{"emptied", "dropped", "reaped"} {
			hash := part + strconv.Itoa(round)
			rest(t, client, base)
			put(t, h, hash, "b", "2", hashLong)
			n, err := h.Incr(ctx, hash, "n", 3)
			want("Incr", n, int64(3), err)
			want("Get", value(t, h, hash, "b"), "2", nil)
			want("Get of nothing", value(t, h, hash, "none"), "-", nil)
			want("GetAll", all(t, h, hash), map[string]string{"a": "1", "b": "2", "n": "3"}, nil)
			want("Scan", scanned(t, h, hash), map[string]string{"a": "1", "b": "2", "n": "3"}, nil)
			want("Len", lenOf(t, h, hash), 3, nil)
			codes, err := h.Expire(ctx, hash, hashLong, ExpireConfig{}, "a", "none")
			want("Expire", codes, []Outcome{Applied, HasNoField}, err)
			codes, err = h.Persist(ctx, hash, "a", "n")
			want("Persist", codes, []Outcome{Applied, HasNoTTL}, err)
			want("TTL", ttlOf(t, h, hash, "a"), NoTTL, nil)
			switch part {
			case "emptied":
				put(t, h, hash, "over", "1", hashLong)
				expire(t, h, hash, "over")
				deleted, err := h.Delete(ctx, hash, "a", "b", "n")
				want("Delete", deleted, 3, err)
			case "dropped":
				was, err := h.DeleteHash(ctx, hash)
				want("DeleteHash", was, true, err)
			case "reaped":
				codes, err := h.Expire(ctx, hash, hashLong, ExpireConfig{}, "a", "n")
				want("Expire", codes, []Outcome{Applied, Applied}, err)
				expire(t, h, hash)
				if _, err := h.ReapJob().Slice(ctx); err != nil {
					t.Errorf("reap with %s: %v", state, err)
				}
			}
			values, deadlines := stored(t, h, hash)
			want("what is left", values+deadlines, int64(0), nil)

			want("Get of no hash", value(t, h, hash, "a"), "-", nil)
			want("GetAll of no hash", all(t, h, hash), map[string]string{}, nil)
			want("Scan of no hash", scanned(t, h, hash), map[string]string{}, nil)
			want("Len of no hash", lenOf(t, h, hash), 0, nil)
			want("TTL of no hash", ttlOf(t, h, hash, "a"), NoField, nil)
			deleted, err := h.Delete(ctx, hash, "a")
			want("Delete of no hash", deleted, 0, err)
			codes, err = h.Expire(ctx, hash, hashLong, ExpireConfig{}, "a")
			want("Expire of no hash", codes, []Outcome{HasNoField}, err)
			brief, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			if _, err := h.Set(brief, "never", "a", nil, SetConfig{}); err == nil {
				t.Error("Set began a hash, and the documentation says that it cannot")
			}
			cancel()
		}
		names := 0
		for _, err := range h.Names(ctx) {
			names++
			want("Names", nil, nil, err)
		}
		want("Names", names, 1+3*(1-round), nil)
		repairBy(t, RepairHashesJob(client))
		s := hashStats(t, h)
		want("repaired", s.Counters.Repaired, int64(0), nil)
	}).Finish(t)
	for _, hash := range hashes {
		put(t, h, hash, "a", "1", hashLong)
	}
	wantKey(t, "Get, afterwards", value(t, h, inHash, "stays"), "1", nil)
}

// TestHalfAHash: with a part of a shard moved to another node, no call works on the
// half that it finds there.
func TestHalfAHash(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t, 2, 0)
	h := openHashesOn(t, cluster.Client(t), "n", HashesConfig{Shards: 1})
	put(t, h, inHash, "over", "1", hashLong)
	put(t, h, inHash, "b", "1", hashLong)
	expire(t, h, inHash, "over")
	base := baseOf(t, h, inHash)
	m := cluster.BeginMigration(t, base)
	m.Move(t, base, valuesKey(base, inHash))

	brief, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if value, ttl, err := h.Get(brief, inHash, "over"); err == nil {
		t.Errorf("Get of an expired field = %q for another %v", value, ttl)
	}
	if _, err := h.Set(brief, inHash, "c", []byte("1"), SetConfig{TTL: hashLong}); err == nil {
		t.Error("Set worked on half of a hash")
	}
	m.Finish(t)
	if _, _, err := h.Get(t.Context(), inHash, "over"); !errors.Is(err, millrace.ErrNotFound) {
		t.Errorf("Get of an expired field, afterwards: %v", err)
	}
	put(t, h, inHash, "c", "1", hashLong)
	if n := lenOf(t, h, inHash); n != 2 {
		t.Errorf("Len = %d, want 2", n)
	}
}

// TestHalfAShardOfKeys is the same of values.
func TestHalfAShardOfKeys(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t, 2, 0)
	k := openKeysOn(t, cluster.Client(t), "n", KeysConfig{Shards: 1})
	setKey(t, k, "a", "x", keyLong)
	base := keyBase(t, k, "a")
	for _, key := range keysOfShard(base) {
		m := cluster.BeginMigration(t, base)
		m.Move(t, key)
		brief, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		if ok, err := k.Set(brief, "b", []byte("x"), keyLong, SetKeyConfig{}); err == nil {
			t.Errorf("Set with %s moved = %v", key, ok)
		}
		if n, err := k.Delete(brief, "a"); err == nil {
			t.Errorf("Delete with %s moved = %d", key, n)
		}
		cancel()
		m.Finish(t)
		wantKey(t, "Get, afterwards", getKey(t, k, "a"), "x", nil)
		n, err := k.Len(t.Context())
		wantKey(t, "Len, afterwards", n, 1, err)
	}
}
