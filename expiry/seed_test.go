package expiry

import (
	"context"
	"testing"

	"github.com/millrace/millrace/internal/redis/reqid"
	"github.com/millrace/millrace/internal/test/redistest"
)

// TestHashesUnderASeed: a request that two processes send under the same seed
// is done once, and both get the same answer, though the field was set
// in between. Under another seed it is another request.
func TestHashesUnderASeed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		before string // the field's value, "" for none
		call   func(context.Context, *Hashes) (any, error)
		answer any
		other  any    // the answer under another seed, when the field was set to 2
		value  string // and the field's value then
	}{
		{"set", "", func(ctx context.Context, h *Hashes) (any, error) {
			return h.Set(ctx, inHash, "f", []byte("1"), SetConfig{IfNone: true})
		}, true, false, "2"},
		{"set, whatever there is", "", func(ctx context.Context, h *Hashes) (any, error) {
			return h.Set(ctx, inHash, "f", []byte("1"), SetConfig{})
		}, true, true, "1"},
		{"incr", "1", func(ctx context.Context, h *Hashes) (any, error) {
			return h.Incr(ctx, inHash, "f", 5)
		}, int64(6), int64(7), "7"},
		{"delete", "1", func(ctx context.Context, h *Hashes) (any, error) {
			return h.Remove(ctx, inHash, "f", "none")
		}, 1, 1, "-"},
		{"delete the hash", "1", func(ctx context.Context, h *Hashes) (any, error) {
			return h.RemoveHash(ctx, inHash)
		}, true, true, "-"},
		{"expire", "1", func(ctx context.Context, h *Hashes) (any, error) {
			return h.Expire(ctx, inHash, 0, ExpireConfig{}, "f")
		}, []Outcome{Removed}, []Outcome{Removed}, "-"},
		{"persist", "1", func(ctx context.Context, h *Hashes) (any, error) {
			return h.Expire(ctx, inHash, NoTTL, ExpireConfig{}, "f")
		}, []Outcome{Applied}, []Outcome{HasNoTTL}, "2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			namespace := redistest.Name(t)
			replaced := func() *Hashes { return openOn(t, redistest.Shared(t).Client(t), namespace, Config{}) }
			h := replaced()
			if tt.before != "" {
				put(t, h, inHash, "f", tt.before, hashLong)
			}
			got, err := tt.call(reqid.With(t.Context(), "one"), replaced())
			wantIs(t, "answer", got, tt.answer, err)
			put(t, h, inHash, "f", "2", 0)
			got, err = tt.call(reqid.With(t.Context(), "one"), replaced())
			wantIs(t, "answer to the repeat", got, tt.answer, err)
			wantIs(t, "the field, afterwards", value(t, h, inHash, "f"), "2", nil)
			got, err = tt.call(reqid.With(t.Context(), "two"), replaced())
			wantIs(t, "answer under another seed", got, tt.other, err)
			wantIs(t, "the field, under another seed", value(t, h, inHash, "f"), tt.value, nil)
		})
	}
}
