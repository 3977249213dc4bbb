package expiry

import (
	"context"
	"slices"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
)

// repairCalls is how many calls a slice of the repair makes for the hashes of a
// namespace.
const repairCalls = 100

// RepairHashesJob returns the job that puts the hashes of all namespaces to rights
// after others have been at them. A deadline without its field is removed, deadlines that
// a hash has lost are collected from its fields, the index is corrected, a Redis TTL is
// taken away, and some of what is expired is removed.
//
// A slice looks at about 50 hashes of each of up to 50 namespaces, at the same time, and at
// 10,000 fields of a large one; the next one goes on where it ended.
func RepairHashesJob(client rueidis.Client) millrace.Job {
	return millrace.Job{Name: "expiry.hash_repair", Slice: newRepair(client, kindHashes, repairHashes)}
}

// repairHashes mends hashes of a page of the index.
func repairHashes(ctx context.Context, n *namespace, base string, shards int, at spot) (wrong bool, next spot, err error) {
	cursor, _ := strconv.ParseUint(at.page, 10, 64) // of its own making; 0 at the beginning
	if cursor == 0 && at.hash == "" {
		if _, err := n.ask(ctx, nil, "hash_reap", base, shards, "0"); err != nil { // which tidies
			return false, spot{}, err
		}
	}
	hashes, more, err := n.index(ctx, base, cursor)
	if err != nil {
		return false, spot{}, err
	}
	left := repairCalls
	for _, hash := range hashes[max(0, slices.Index(hashes, at.hash)):] {
		if hash != at.hash {
			at.hash, at.part, at.cursor = hash, "", ""
		}
		var done bool
		done, at, left, err = repairHash(ctx, n, base, shards, hash, at, left)
		if ctx.Err() != nil {
			return false, spot{}, context.Cause(ctx)
		}
		wrong = wrong || err == nil && done // one that fails must not keep the others
		if err == nil && at.part != "" {
			return wrong, at, nil
		}
	}
	if more != 0 {
		next.page = strconv.FormatUint(more, 10)
	}
	return wrong, next, nil
}

// repairHash mends one hash, from a spot on, and reports whether there was anything to do.
// It makes at most so many calls, and returns how many are left, and where to go on if
// there are none.
func repairHash(ctx context.Context, n *namespace, base string, shards int, hash string, at spot, calls int) (done bool, next spot, left int, err error) {
	next, next.hash = at, hash
	if next.part == "" {
		next.part, next.cursor = "places", "0"
	}
	for ; calls != 0 && next.part != ""; calls-- {
		reply, err := n.ask(ctx, nil, "hash_repair", base, shards, hash, next.part, next.cursor)
		if err != nil {
			return done, next, calls - 1, err
		}
		next.part, next.cursor = reply.Text(), reply.Text()
		if done = reply.Int()+reply.Int() > 0 || done; reply.Err() != nil {
			return done, next, calls - 1, reply.Err()
		}
	}
	return done, next, calls, nil
}
