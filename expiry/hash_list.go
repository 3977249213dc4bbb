package expiry

import (
	"context"
	"iter"

	"github.com/redis/rueidis"
)

// ListHashes returns the names of the namespaces of hashes that are registered, which each
// is by those who write to it, sorted. It takes as long as there are structures, whatever
// else Redis has. Where servers do not answer, it returns what the others have, and an
// error: see [millrace.ErrPartial].
func ListHashes(ctx context.Context, client rueidis.Client) ([]string, error) {
	return kindHashes.list(ctx, client)
}

// Names goes through the names of the namespace's hashes, in no order; one may come
// twice, and so may one whose fields are all expired. It ends with the first error.
func (h *Hashes) Names(ctx context.Context) iter.Seq2[string, error] { return h.space.names(ctx) }
