package expiry

import (
	"context"
	"math/rand/v2"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
)

const (
	// deadlinesPage is how many deadlines one call of the repair looks at, and
	// deadlinesPages how many calls it makes for one hash.
	deadlinesPage  = 500
	deadlinesPages = 10
)

// RepairHashesJob returns the job that puts the hashes of all namespaces to rights
// after others have been at them. A deadline without its field is removed, so is a hash
// that has lost its deadlines, since nobody can read it; the index is corrected, a Redis
// TTL is taken away, and some of what is expired is removed.
//
// A slice looks at about 100 hashes of each of up to 50 namespaces, at the same time, and at
// 5,000 deadlines of a hash at most, where the others come in later rounds; the next one
// goes on where it ended.
func RepairHashesJob(client rueidis.Client) millrace.Job {
	return millrace.Job{Name: "expiry.hash_repair", Slice: newRepair(client, kindHashes, repairHashes)}
}

// repairHashes mends the hashes of a page of the index.
func repairHashes(ctx context.Context, n *namespace, base string, shards int, at spot) (wrong bool, next spot, err error) {
	cursor, _ := strconv.ParseUint(at.cursor, 10, 64) // of its own making; 0 at the beginning
	if cursor == 0 {
		if _, err := n.ask(ctx, nil, "hash_due", base, shards, "0"); err != nil { // which tidies
			return false, spot{}, err
		}
	}
	hashes, more, err := n.index(ctx, base, cursor)
	if err != nil {
		return false, spot{}, err
	}
	for _, hash := range hashes {
		done, err := repairHash(ctx, n, base, shards, hash)
		if ctx.Err() != nil {
			return false, spot{}, context.Cause(ctx)
		}
		wrong = wrong || err == nil && done // one that fails must not keep the others
	}
	if more != 0 {
		next.cursor = strconv.FormatUint(more, 10)
	}
	return wrong, next, nil
}

// repairHash mends one hash, and reports whether there was anything to do.
func repairHash(ctx context.Context, n *namespace, base string, shards int, hash string) (done bool, err error) {
	for page, from := 0, 0; page < deadlinesPages; page++ {
		reply, err := n.ask(ctx, nil, "hash_repair", base, shards, hash, strconv.Itoa(from), strconv.Itoa(deadlinesPage))
		if err != nil {
			return done, err
		}
		mended, reaped, size, next := reply.Int(), reply.Int(), int(reply.Int()), int(reply.Int())
		done = done || mended+reaped > 0
		if err := reply.Err(); err != nil || next >= size {
			return done, err
		}
		if from = next; page == 0 && size > deadlinesPage*deadlinesPages {
			from = rand.IntN(size - deadlinesPage*(deadlinesPages-1) + 1)
		}
	}
	return done, nil
}
