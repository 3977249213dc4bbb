package expiry

import (
	"context"
	"slices"
)

// Remove removes fields and returns how many of them existed. It works when the server is
// full. It makes a call for every 1,000 fields, each of which is applied whole; with an
// error it returns how many are known to be removed.
//
// Errors: [millrace.ErrBadName] and [millrace.ErrTooLarge], before Redis was asked;
// [millrace.ErrBroken], [millrace.ErrVersion].
func (h *Hashes) Remove(ctx context.Context, hash string, fields ...string) (int, error) {
	if err := check(hash, fields...); err != nil {
		return 0, err
	}
	removed := 0
	for some := range slices.Chunk(fields, maxFields) {
		n, err := h.remove(ctx, "delete", hash, placesOf(some)...)
		if removed += n; err != nil {
			return removed, err
		}
	}
	return removed, nil
}

// RemoveHash removes a whole hash, of any size, and reports whether it had fields. It works
// when the server is full. Errors are those of Remove.
func (h *Hashes) RemoveHash(ctx context.Context, hash string) (bool, error) {
	if err := check(hash); err != nil {
		return false, err
	}
	n, err := h.remove(ctx, "drop", hash)
	return n > 0, err
}

// remove runs a script that replies how many fields it removed.
func (h *Hashes) remove(ctx context.Context, name, hash string, places ...string) (int, error) {
	reply, err := h.space.Write(ctx, name, hash, append([]string{hash}, places...)...)
	if err != nil || reply == nil {
		return 0, err
	}
	return int(reply.Int()), reply.Err()
}

// Delete removes all hashes, however many there are, and everything that belongs to the
// namespace, 100 hashes in a call whatever their size. If it ends early, the rest is still
// a namespace, and another Delete continues. Stop writing first: a concurrent write may or
// may not remain. The next Set creates the namespace again. Errors: [millrace.ErrBroken],
// [millrace.ErrVersion].
func (h *Hashes) Delete(ctx context.Context) error {
	return h.space.Delete(ctx, func(base string, shards int) error {
		for cursor := uint64(0); ; {
			hashes, next, err := h.space.Index(ctx, base, cursor)
			if err == nil && len(hashes) > 0 {
				_, err = h.space.Ask(ctx, nil, "clear", base, shards, hashes...)
			}
			if err != nil {
				return err
			}
			if cursor = next; cursor == 0 {
				break
			}
		}
		_, err := h.space.Ask(ctx, nil, "clear", base, shards)
		return err
	})
}
