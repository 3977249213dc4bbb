package expiry

import (
	"context"
	"slices"
	"strconv"

	"github.com/millrace/millrace/internal/redis/shards"
)

// repairCalls is how many calls a slice of the repair makes for the hashes of a namespace.
const repairCalls = 100

type position = shards.Position

// repairHashes repairs the hashes of a page of the index, until it has made repairCalls calls or
// the context ends: the next call continues there.
func repairHashes(ctx context.Context, s *shards.Space, base string, shards int, at position) (wrong bool, next position, err error) {
	cursor, _ := strconv.ParseUint(at.Page, 10, 64) // it wrote the text itself; 0 at the beginning
	if cursor == 0 && at.Name == "" {
		if _, err := s.Ask(ctx, nil, "reap", base, shards, "0"); err != nil { // forgets old answers
			return false, at, err
		}
	}
	hashes, more, err := s.Index(ctx, base, cursor)
	if err != nil {
		return false, at, err
	}
	left := repairCalls
	for _, hash := range hashes[max(0, slices.Index(hashes, at.Name)):] {
		if hash != at.Name {
			at = position{Page: at.Page, Name: hash}
		}
		var done bool
		done, at, left, err = repairHash(ctx, s, base, shards, hash, at, left)
		wrong = wrong || done
		if ctx.Err() != nil || err == nil && at.Part != "" {
			return wrong, at, err
		} // a hash that fails must not block the others
	}
	if more != 0 {
		next.Page = strconv.FormatUint(more, 10)
	}
	return wrong, next, nil
}

// repairHash repairs one hash from a position on, and reports whether anything was wrong.
// It makes at most so many calls, and returns how many are left, and where to continue if
// none are.
func repairHash(ctx context.Context, s *shards.Space, base string, shards int, hash string, at position, calls int) (done bool, next position, left int, err error) {
	next, next.Name = at, hash
	if next.Part == "" {
		next.Part, next.Cursor = "places", "0"
	}
	for ; calls != 0 && next.Part != ""; calls-- {
		reply, err := s.Ask(ctx, nil, "repair", base, shards, hash, next.Part, next.Cursor)
		if err != nil {
			return done, next, calls - 1, err
		}
		next.Part, next.Cursor = reply.Text(), reply.Text()
		if done = reply.Int()+reply.Int() > 0 || done; reply.Err() != nil {
			return done, next, calls - 1, reply.Err()
		}
	}
	return done, next, calls, nil
}
