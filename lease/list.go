package lease

import (
	"context"
	"iter"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/registry"
)

// List goes through the names of leases, in no order: those that are held; those whose
// deadline came, until they are taken over or, a minute later, reaped by [Locker.ReapJob];
// and for up to a minute those that were released, but for the ones that were held for a
// moment only. [Locker.Show] tells them apart. A lease is found some 10 ms after it was
// acquired, and at once by the client that acquired it. It takes as long as there are such
// leases, whatever else Redis has.
//
// Where servers do not answer, it yields what the others have, and then an error: see
// [millrace.ErrPartial].
func List(ctx context.Context, client rueidis.Client) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for name, err := range registry.ListLeases(ctx, client) {
			if (err != nil || CheckName(name) == nil) && !yield(name, err) {
				return
			}
		}
	}
}
