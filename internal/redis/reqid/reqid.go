package reqid

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"sync/atomic"
)

// With returns a context under which [Next] derives its ids from a seed. The same calls in the
// same order under the same seed, in any process, get the same ids.
//
// A seed identifies one request. It contains all that distinguishes the request from others:
// the client and the content, not only the key that the client chose. An empty one removes the
// seed of ctx, for calls that are not part of the request.
func With(ctx context.Context, seed string) context.Context {
	if seed == "" {
		if !Seeded(ctx) {
			return ctx
		}
		return context.WithValue(ctx, sourceKey{}, (*source)(nil))
	}
	return context.WithValue(ctx, sourceKey{}, &source{seed: seed})
}

// Seeded reports whether ids under ctx come from a seed. The first try of such a request may be
// the repeat of one by another process.
func Seeded(ctx context.Context) bool { return sourceOf(ctx) != nil }

// Next returns the next request id of ctx's seed, or a random one without a seed. It is safe for
// concurrent use, but a repeat gets the same ids only if it makes its calls in the same order.
func Next(ctx context.Context) string {
	if s := sourceOf(ctx); s != nil {
		return s.id(s.drawn.Add(1))
	}
	return rand.Text()
}

// source has the inputs that ids are derived from.
type source struct {
	seed  string
	drawn atomic.Uint64
}

// sourceKey is the key of a context's source.
type sourceKey struct{}

func sourceOf(ctx context.Context) *source {
	s, _ := ctx.Value(sourceKey{}).(*source)
	return s
}

// alphabet is that of ids.
const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"

// id returns the id of a number: 130 bits of a SHA-256.
func (s *source) id(number uint64) string {
	sum := sha256.Sum256(append(binary.BigEndian.AppendUint64(nil, number), s.seed...))
	text := sum[:26]
	for i, b := range text {
		text[i] = alphabet[b%32]
	}
	return string(text)
}
