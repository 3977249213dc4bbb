package expiry

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/internal/test/shardstest"
)

// TestHashesWhileTheirSlotMoves: calls on hashes that are there go on, whatever the state
// of the slot, and so do reading and removing of those that are not. A hash that is not
// there can only begin when its slot has moved.
func TestHashesWhileTheirSlotMoves(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t, 2, 0)
	client := cluster.Client(t)
	h := openOn(t, client, "n", Config{Shards: 1})
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
	shardstest.Moving(t, cluster, base, func(state string) {
		round++
		want := func(call string, got, want any, err error) {
			t.Helper()
			wantIs(t, call+" with "+state, got, want, err)
		}
		for _, part := range []string{"emptied", "dropped", "reaped"} {
			hash := part + strconv.Itoa(round)
			shardstest.AgeLanes(t, client, base)
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
			codes, err = h.Expire(ctx, hash, NoTTL, ExpireConfig{}, "a", "n")
			want("Persist", codes, []Outcome{Applied, HasNoTTL}, err)
			want("TTL", ttlOf(t, h, hash, "a"), NoTTL, nil)
			switch part {
			case "emptied":
				put(t, h, hash, "over", "1", hashLong)
				expire(t, h, hash, "over")
				deleted, err := h.Remove(ctx, hash, "a", "b", "n")
				want("Delete", deleted, 3, err)
			case "dropped":
				was, err := h.RemoveHash(ctx, hash)
				want("RemoveHash", was, true, err)
			case "reaped":
				codes, err := h.Expire(ctx, hash, hashLong, ExpireConfig{}, "a", "n")
				want("Expire", codes, []Outcome{Applied, Applied}, err)
				expire(t, h, hash)
				if _, err := h.Jobs()[0].Slice(ctx); err != nil {
					t.Errorf("reap with %s: %v", state, err)
				}
			}
			values, deadlines := stored(t, h, hash)
			want("what is left", values+deadlines, int64(0), nil)

			want("Get of no hash", value(t, h, hash, "a"), "-", nil)
			want("GetAll of no hash", all(t, h, hash), map[string]string{}, nil)
			want("Scan of no hash", scanned(t, h, hash), map[string]string{}, nil)
			want("Len of no hash", lenOf(t, h, hash), 0, nil)
			want("TTL of no hash", ttlOf(t, h, hash, "a"), noField, nil)
			deleted, err := h.Remove(ctx, hash, "a")
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
		repairAll(t, client)
		s := hashStats(t, h)
		want("repaired", s.Repaired, int64(0), nil)
	}).Finish(t)
	for _, hash := range hashes {
		put(t, h, hash, "a", "1", hashLong)
	}
	wantIs(t, "Get, afterwards", value(t, h, inHash, "stays"), "1", nil)
}

// TestHalfAHash: with a part of a shard moved to another node, no call works on the
// half that it finds there.
func TestHalfAHash(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t, 2, 0)
	h := openOn(t, cluster.Client(t), "n", Config{Shards: 1})
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
