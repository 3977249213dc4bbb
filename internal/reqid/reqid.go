package reqid

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"sync/atomic"
)

// With returns a context under which [Next] derives its ids from a seed. Whoever
// asks again, in whichever process, under a context of the same seed and with the
// same calls in the same order, asks with the same ids.
//
// A seed stands for one request. It has in it all that tells the request from
// others: who asks and for what, not only the key that the asker chose. An empty
// one takes the seed of ctx away, for what is not a part of the request.
func With(ctx context.Context, seed string) context.Context {
	if seed == "" {
		if !Seeded(ctx) {
			return ctx
		}
		return context.WithValue(ctx, sourceKey{}, (*source)(nil))
	}
	return context.WithValue(ctx, sourceKey{}, &source{seed: seed})
}

// Seeded reports whether ids under ctx come from a seed. The first try of such a
// request may be a repeat of one that another process made.
func Seeded(ctx context.Context) bool { return sourceOf(ctx) != nil }

// Next returns the next request id of ctx's seed: the first, the second and so on
// of that context. Without a seed it is one that nobody else has. It is safe for concurrent use, but
// calls get the ids in the order in which they come: a repeat gets the same ones
// only if the order is the same, as that of calls made one after the other is.
func Next(ctx context.Context) string {
	if s := sourceOf(ctx); s != nil {
		return s.id(s.drawn.Add(1))
	}
	return rand.Text()
}

// source is what ids are derived from.
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

// id returns the id of that number: 130 bits of a SHA-256.
func (s *source) id(number uint64) string {
	sum := sha256.Sum256(append(binary.BigEndian.AppendUint64(nil, number), s.seed...))
	text := sum[:26]
	for i, b := range text {
		text[i] = alphabet[b%32]
	}
	return string(text)
}
