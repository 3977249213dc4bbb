package expiry

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/script"
)

// SetConfig is how fields are set. The zero value sets them for good: a deadline
// that they had is gone.
type SetConfig struct {
	// TTL is for how long the fields stay, from now, rounded up to milliseconds.
	// Defaults to no deadline.
	TTL time.Duration

	// Deadline is until when they stay, by the server's clock, rounded up to
	// milliseconds. If it is past, the fields are set and gone at once. Defaults to
	// no deadline; it excludes TTL.
	Deadline time.Time

	// KeepTTL leaves each field the deadline that it has. It excludes TTL and
	// Deadline. Defaults to off.
	KeepTTL bool

	IfNone  bool // set only if none of the fields is there
	IfExist bool // set only if all of them are there
}

// SetResult is what came of setting fields.
type SetResult struct {
	Set     bool // false if IfNone or IfExist was not met: then nothing was changed
	Created int  // how many of the fields were not there before
}

// Set stores a field of a hash, which it creates if need be. On a server that is
// full it first removes what has expired in the hash's shard; a field that still
// does not fit is refused.
//
// Errors: [millrace.ErrBadName], [millrace.ErrBadArgument] and millrace.ErrTooLarge, before Redis was asked;
// millrace.ErrFull, millrace.ErrBroken and millrace.ErrVersion, and then nothing was
// changed.
func (h *Hashes) Set(ctx context.Context, hash, field string, value []byte, cfg SetConfig) (SetResult, error) {
	return h.set(ctx, hash, []string{field, string(value)}, cfg)
}

// SetMany stores fields of a hash, all or none: at most [MaxFields], and [MaxValue]
// bytes of values. Errors are those of Set; more fields are an [millrace.ErrBadArgument].
func (h *Hashes) SetMany(ctx context.Context, hash string, fields map[string][]byte, cfg SetConfig) (SetResult, error) {
	if len(fields) > MaxFields {
		return SetResult{}, millrace.ErrBadArgument.Errorf("%d fields are more than one call can set, %d", len(fields), MaxFields)
	}
	pairs := make([]string, 0, 2*len(fields))
	for field, value := range fields {
		pairs = append(pairs, field, string(value))
	}
	return h.set(ctx, hash, pairs, cfg)
}

func (h *Hashes) set(ctx context.Context, hash string, pairs []string, cfg SetConfig) (SetResult, error) {
	size := 0
	for i := 0; i < len(pairs); i += 2 {
		if err := check(hash, pairs[i]); err != nil {
			return SetResult{}, err
		}
		size += len(pairs[i+1]) //nolint:gosec // they come in pairs
	}
	if err := cmp.Or(check(hash), checkSize(size)); err != nil {
		return SetResult{}, err
	}
	only, life, ms, err := cfg.words()
	if err != nil || len(pairs) == 0 {
		return SetResult{Set: err == nil}, err
	}
	reply, err := h.store(ctx, !cfg.IfExist, "hash_set", hash, append([]string{hash, only, life, ms}, pairs...)...)
	if err != nil || reply == nil {
		return SetResult{}, err
	}
	created := reply.Int()
	return SetResult{Set: created >= 0, Created: max(0, int(created))}, reply.Err()
}

// store runs a script that needs memory. If the server is full, it first removes
// what has expired in the shard, and then tries once more.
func (h *Hashes) store(ctx context.Context, create bool, name, hash string, args ...string) (*script.Reply, error) {
	request := h.space.run.Request(ctx)
	defer request.Done()
	reply, err := h.space.call(ctx, request, create, name, hash, args)
	if !errors.Is(err, millrace.ErrFull) {
		return reply, err
	}
	shards, unknown := h.space.count(ctx, false)
	if unknown != nil || shards == 0 {
		return nil, err
	}
	if r, failed := h.reap(ctx, h.space.base(hash, shards), shards, hashReapBudget); failed != nil || r.reaped == 0 {
		return nil, err
	}
	return h.space.call(ctx, request, create, name, hash, args)
}

// words are what the script takes for a config.
func (c SetConfig) words() (only, life, ms string, err error) {
	switch {
	case c.IfNone && c.IfExist:
		return "", "", "", millrace.ErrBadArgument.Errorf("fields cannot be set only if none is there and only if all are")
	case c.IfNone:
		only = "new"
	case c.IfExist:
		only = "old"
	}
	switch {
	case c.TTL != 0 && !c.Deadline.IsZero(), c.KeepTTL && (c.TTL != 0 || !c.Deadline.IsZero()):
		return "", "", "", millrace.ErrBadArgument.Errorf("TTL, Deadline and KeepTTL exclude each other")
	case c.KeepTTL:
		return only, "keep", "0", nil
	case c.TTL != 0:
		life, ms, err = in(c.TTL)
	case !c.Deadline.IsZero():
		life, ms, err = at(c.Deadline)
	default:
		return only, "none", "0", nil
	}
	return only, life, ms, err
}

// in is a deadline in ttl from now, as scripts take it.
func in(ttl time.Duration) (life, ms string, err error) {
	switch {
	case ttl < 0:
		return "", "", millrace.ErrBadArgument.Errorf("a TTL cannot be negative: %s", ttl)
	case ttl == 0:
		return "at", "0", nil
	}
	return "in", ceilMillis(ttl), nil
}

// at is a deadline at a moment, as scripts take it: their numbers are exact to
// 2^53.
func at(deadline time.Time) (life, ms string, err error) {
	if deadline.Year() > 9999 {
		return "", "", millrace.ErrBadArgument.Errorf("a deadline lies before the year 10000, not at %s", deadline)
	}
	whole := max(0, deadline.UnixMilli())
	if deadline.After(time.UnixMilli(whole)) {
		whole++
	}
	return "at", strconv.FormatInt(whole, 10), nil
}

// Incr adds to a field that holds a whole number, as text, and returns the sum. The
// field keeps its deadline. One that is not there, or is expired, starts at 0
// without a deadline.
//
// Errors: [millrace.ErrBadName] and millrace.ErrTooLarge, before Redis was asked; [ErrNotNumber],
// millrace.ErrFull, millrace.ErrBroken and millrace.ErrVersion, and then nothing was
// changed.
func (h *Hashes) Incr(ctx context.Context, hash, field string, by int64) (int64, error) {
	if err := check(hash, field); err != nil {
		return 0, err
	}
	reply, err := h.store(ctx, true, "hash_incr", hash, hash, field, strconv.FormatInt(by, 10))
	if err != nil {
		return 0, err
	}
	return reply.Int(), reply.Err()
}

// Delete removes fields and returns how many of them were there. It works when
// the server is full. It makes a call for every [MaxFields] fields, each of which
// is applied whole; with an error it returns how many are known to be deleted.
//
// Errors: [millrace.ErrBadName] and millrace.ErrTooLarge, before Redis was asked;
// millrace.ErrBroken, millrace.ErrVersion.
func (h *Hashes) Delete(ctx context.Context, hash string, fields ...string) (int, error) {
	if err := check(hash, fields...); err != nil {
		return 0, err
	}
	deleted := 0
	for part := range slices.Chunk(fields, MaxFields) {
		n, err := h.remove(ctx, "hash_delete", hash, part...)
		if deleted += n; err != nil {
			return deleted, err
		}
	}
	return deleted, nil
}

// DeleteHash removes a whole hash, of any size, and reports whether it had fields.
// It works when the server is full. Errors are those of Delete.
func (h *Hashes) DeleteHash(ctx context.Context, hash string) (bool, error) {
	if err := check(hash); err != nil {
		return false, err
	}
	n, err := h.remove(ctx, "hash_drop", hash)
	return n > 0, err
}

// remove runs a script that answers how many fields it removed.
func (h *Hashes) remove(ctx context.Context, name, hash string, fields ...string) (int, error) {
	reply, err := h.space.write(ctx, false, name, hash, append([]string{hash}, fields...)...)
	if err != nil || reply == nil {
		return 0, err
	}
	return int(reply.Int()), reply.Err()
}

// DeleteNamespace removes all hashes, however many there are, and all that belongs to the
// namespace, 100 hashes in a call whatever their size. If it ends early, what is left is a
// namespace yet, and a second one goes on. The next Set begins it anew. Nobody should
// write meanwhile: whether what they write stays is not known. Errors:
// millrace.ErrBroken, millrace.ErrVersion.
func (h *Hashes) DeleteNamespace(ctx context.Context) error {
	n := h.space
	if _, err := n.each(ctx, func(base string, shards int) error {
		for cursor := uint64(0); ; {
			hashes, next, err := n.index(ctx, base, cursor)
			if err == nil && len(hashes) > 0 {
				_, err = n.ask(ctx, nil, "hash_clear", base, shards, hashes...)
			}
			if err != nil {
				return err
			}
			if cursor = next; cursor == 0 {
				break
			}
		}
		_, err := n.ask(ctx, nil, "hash_clear", base, shards)
		return err
	}); err != nil {
		return err
	}
	return n.forget(ctx)
}
