package expiry

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/reqid"
	"github.com/millrace/millrace/internal/redis/shards"
)

// SetConfig configures [Hashes.Set] and [Hashes.SetMany]. The zero value sets fields
// without a deadline, and removes the deadlines that they had.
type SetConfig struct {
	// TTL is the time to live from now, rounded up to milliseconds. Defaults to no
	// deadline.
	TTL time.Duration

	// Deadline is when the fields expire, by the server's clock, rounded up to
	// milliseconds. If it is past, the fields are set and removed at once. Defaults to
	// no deadline; excludes TTL.
	Deadline time.Time

	// KeepTTL keeps the deadline of each field. It excludes TTL and Deadline.
	KeepTTL bool

	IfNone  bool // set only if none of the fields exists
	IfExist bool // set only if all of them exist
}

// Set stores a field of a hash, and creates the hash if need be. It reports whether it did:
// false if a condition was not met, and then nothing was changed. On a full server it first
// removes expired fields in the hash's shard; a field that still does not fit is refused.
//
// Without IfNone, IfExist and KeepTTL, Set needs less than half of the server's time. Then a
// call whose reply was lost, and which the library repeats, sets the field again: a TTL counts
// from the repeat, and a change that another program made in between is overwritten.
//
// Errors: [millrace.ErrBadName], [millrace.ErrBadArgument] and [millrace.ErrTooLarge] (for
// more than 8 MiB), before Redis was asked; [millrace.ErrFull], [millrace.ErrEvictable],
// [millrace.ErrBroken] and [millrace.ErrVersion], and then nothing was changed.
func (h *Hashes) Set(ctx context.Context, hash, field string, value []byte, cfg SetConfig) (bool, error) {
	return h.set(ctx, hash, []string{field, string(value)}, cfg)
}

// SetMany stores fields of a hash, all or none: at most 1,000, and 8 MiB of values. Errors
// are those of Set; more fields are an [millrace.ErrBadArgument].
func (h *Hashes) SetMany(ctx context.Context, hash string, fields map[string][]byte, cfg SetConfig) (bool, error) {
	if len(fields) > maxFields {
		return false, millrace.ErrBadArgument.Errorf("one call can set %d fields, not %d", maxFields, len(fields))
	}
	pairs := make([]string, 0, 2*len(fields))
	for field, value := range fields {
		pairs = append(pairs, field, string(value))
	}
	return h.set(ctx, hash, pairs, cfg)
}

func (h *Hashes) set(ctx context.Context, hash string, pairs []string, cfg SetConfig) (bool, error) {
	size := 0
	for i := 0; i < len(pairs); i += 2 {
		if err := check(hash, pairs[i]); err != nil {
			return false, err
		}
		pairs[i] = placeOf(pairs[i])
		size += len(pairs[i+1]) //nolint:gosec // they come in pairs
	}
	if err := cmp.Or(check(hash), shards.CheckSize(size)); err != nil {
		return false, err
	}
	only, life, ms, err := cfg.words()
	if err != nil || len(pairs) == 0 {
		return err == nil, err
	}
	name, args := "put", append([]string{hash, life, ms}, pairs...)
	if only != "" || cfg.KeepTTL || reqid.Seeded(ctx) {
		name, args = "set", slices.Insert(args, 1, only)
	}
	reply, err := h.space.Store(ctx, !cfg.IfExist, h.reap, name, hash, args...)
	if err != nil || reply == nil {
		return false, err
	}
	return reply.Bool(), reply.Err()
}

func (c SetConfig) words() (only, life, ms string, err error) {
	switch {
	case c.IfNone && c.IfExist:
		return "", "", "", millrace.ErrBadArgument.Errorf("IfNone and IfExist exclude each other")
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
		return "", "", millrace.ErrBadArgument.Errorf("negative TTL: %s", ttl)
	case ttl == 0:
		return "at", "0", nil
	}
	return "in", shards.CeilMillis(ttl), nil
}

// at is a deadline at a time, as scripts take it: their numbers are exact up to 2^53.
func at(deadline time.Time) (life, ms string, err error) {
	if deadline.Year() > 9999 {
		return "", "", millrace.ErrBadArgument.Errorf("deadline beyond the year 9999: %s", deadline)
	}
	whole := max(0, deadline.UnixMilli())
	if deadline.After(time.UnixMilli(whole)) {
		whole++
	}
	return "at", strconv.FormatInt(whole, 10), nil
}

// Incr adds to a field that holds a whole number, as text, and returns the sum. The field
// keeps its deadline. A field that does not exist, or has expired, starts at 0 without a
// deadline.
//
// Errors: [millrace.ErrBadName] and [millrace.ErrTooLarge], before Redis was asked;
// [ErrNotNumber], [millrace.ErrFull], [millrace.ErrEvictable], [millrace.ErrBroken] and
// [millrace.ErrVersion], and then nothing was changed.
func (h *Hashes) Incr(ctx context.Context, hash, field string, by int64) (int64, error) {
	if err := check(hash, field); err != nil {
		return 0, err
	}
	reply, err := h.space.Store(ctx, true, h.reap, "incr", hash, hash, placeOf(field), strconv.FormatInt(by, 10))
	if err != nil {
		return 0, err
	}
	return reply.Int(), reply.Err()
}
