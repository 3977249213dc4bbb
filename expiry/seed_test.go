package expiry

import (
	"context"
	"fmt"
	"testing"

	"github.com/millrace/millrace/internal/redistest"
	"github.com/millrace/millrace/internal/reqid"
)

// TestHashesUnderASeed: what one process was asked and another one is asked again,
// under the same seed, is done once, and both answer the same, though the field was set
// in between. Under another seed it is another request.
func TestHashesUnderASeed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		before string // what the field holds, "" for nothing
		call   func(context.Context, *Hashes) (any, error)
		answer any
		other  any    // the answer under another seed, when the field was set to 2
		value  string // and what the field then holds
	}{
		{"set", "", func(ctx context.Context, h *Hashes) (any, error) {
			return h.Set(ctx, inHash, "f", []byte("1"), SetConfig{IfNone: true})
		}, SetResult{Set: true, Created: 1}, SetResult{}, "2"},
		{"incr", "1", func(ctx context.Context, h *Hashes) (any, error) {
			return h.Incr(ctx, inHash, "f", 5)
		}, int64(6), int64(7), "7"},
		{"delete", "1", func(ctx context.Context, h *Hashes) (any, error) {
			return h.Delete(ctx, inHash, "f", "none")
		}, 1, 1, "-"},
		{"delete the hash", "1", func(ctx context.Context, h *Hashes) (any, error) {
			return h.DeleteHash(ctx, inHash)
		}, true, true, "-"},
		{"expire", "1", func(ctx context.Context, h *Hashes) (any, error) {
			return h.Expire(ctx, inHash, 0, ExpireConfig{}, "f")
		}, []Outcome{Removed}, []Outcome{Removed}, "-"},
		{"persist", "1", func(ctx context.Context, h *Hashes) (any, error) {
			return h.Persist(ctx, inHash, "f")
		}, []Outcome{Applied}, []Outcome{HasNoTTL}, "2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			namespace := redistest.Name(t)
			replaced := func() *Hashes { return openHashesOn(t, redistest.Shared(t).Client(t), namespace, HashesConfig{}) }
			h := replaced()
			if tt.before != "" {
				put(t, h, inHash, "f", tt.before, hashLong)
			}
			got, err := tt.call(reqid.With(t.Context(), "one"), replaced())
			wantKey(t, "answer", got, tt.answer, err)
			put(t, h, inHash, "f", "2", 0)
			got, err = tt.call(reqid.With(t.Context(), "one"), replaced())
			wantKey(t, "answer to the repeat", got, tt.answer, err)
			wantKey(t, "the field, afterwards", value(t, h, inHash, "f"), "2", nil)
			got, err = tt.call(reqid.With(t.Context(), "two"), replaced())
			wantKey(t, "answer under another seed", got, tt.other, err)
			wantKey(t, "the field, under another seed", value(t, h, inHash, "f"), tt.value, nil)
		})
	}
}

// TestKeysUnderASeed is the same of deterministic values.
func TestKeysUnderASeed(t *testing.T) {
	t.Parallel()
	many := make([]string, 10*keysPerCall) // on several shards, in more than one part
	for i := range many {
		many[i] = fmt.Sprint("k", i)
	}
	ttl := func(t *testing.T, k *Keys) any {
		left, err := k.TTL(t.Context(), "k0")
		if err != nil {
			t.Fatal(err)
		}
		return left > keyLong
	}
	held := func(t *testing.T, k *Keys) any { return getKey(t, k, "k0") }
	for _, tt := range []struct {
		name   string
		keys   []string // those that there are, for an hour
		call   func(context.Context, *Keys) (any, error)
		answer any
		other  any // the answer under another seed, when k0 was set to 2, for two hours
		state  func(*testing.T, *Keys) any
		stays  any // the state after the repeat
		goes   any // the state under another seed
	}{
		{"set", many[:1], func(ctx context.Context, k *Keys) (any, error) {
			return k.Set(ctx, "k0", []byte("1"), keyLong, SetKeyConfig{})
		}, true, true, held, "2", "1"},
		{"expire", many[:1], func(ctx context.Context, k *Keys) (any, error) {
			return k.Expire(ctx, "k0", keyLong)
		}, true, true, ttl, true, false},
		{"delete", many, func(ctx context.Context, k *Keys) (any, error) {
			return k.Delete(ctx, many...)
		}, len(many), 1, held, "2", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			namespace := redistest.Name(t)
			replaced := func() *Keys {
				return openKeysOn(t, redistest.Shared(t).Client(t), namespace, KeysConfig{Shards: 4})
			}
			k := replaced()
			for _, key := range tt.keys {
				setKey(t, k, key, "0", keyLong)
			}
			got, err := tt.call(reqid.With(t.Context(), "one"), replaced())
			wantKey(t, "answer", got, tt.answer, err)
			setKey(t, k, "k0", "2", 2*keyLong)
			got, err = tt.call(reqid.With(t.Context(), "one"), replaced())
			wantKey(t, "answer to the repeat", got, tt.answer, err)
			wantKey(t, "the value, afterwards", tt.state(t, k), tt.stays, nil)
			got, err = tt.call(reqid.With(t.Context(), "two"), replaced())
			wantKey(t, "answer under another seed", got, tt.other, err)
			wantKey(t, "the value, under another seed", tt.state(t, k), tt.goes, nil)
		})
	}
}
