package lease

import (
	"context"
	"iter"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/script"
)

// List goes through the names of the leases on all masters, in no order: those
// that are held; those that were released within the last hour; and those whose
// deadline came, until they are taken over or, an hour later, reaped by
// [Locker.ReapJob]. [Locker.Show] tells them apart. It takes as long as a SCAN of
// all keys.
func List(ctx context.Context, client rueidis.Client) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		seen := make(map[string]bool)
		for key, err := range script.Scan(ctx, client, keyPrefix+"*}") {
			if err != nil {
				yield("", err)
				return
			}
			name, ok := nameOf(key)
			if !ok || seen[name] {
				continue
			}
			seen[name] = true
			if !yield(name, nil) {
				return
			}
		}
	}
}
