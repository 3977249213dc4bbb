package pinned

import (
	"context"
	"fmt"
	"testing"

	"github.com/millrace/millrace/internal/redis/reqid"
	"github.com/millrace/millrace/internal/test/redistest"
)

// TestKeysUnderASeed: a call that another process repeats with the same seed takes effect
// once, and both answer the same.
func TestKeysUnderASeed(t *testing.T) {
	t.Parallel()
	many := make([]string, 1000) // on several shards, in more than one part
	for i := range many {
		many[i] = fmt.Sprint("k", i)
	}
	ttl := func(t *testing.T, k *Keys) any {
		left, err := ttlOf(t.Context(), k, "k0")
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
			return k.Set(ctx, "k0", []byte("1"), keyLong, SetConfig{})
		}, true, true, held, "2", "1"},
		{"expire", many[:1], func(ctx context.Context, k *Keys) (any, error) {
			return k.Expire(ctx, "k0", keyLong)
		}, true, true, ttl, true, false},
		{"delete", many, func(ctx context.Context, k *Keys) (any, error) {
			return k.Remove(ctx, many...)
		}, len(many), 1, held, "2", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			namespace := redistest.Name(t)
			replaced := func() *Keys {
				return openOn(t, redistest.Shared(t).Client(t), namespace, Config{Shards: 4})
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
