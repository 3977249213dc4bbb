package expiry

import (
	"context"
	"slices"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/script"
)

// Outcome is what came of changing a field's deadline. The numbers are those with
// which Redis answers.
type Outcome int

// What may have come of it.
const (
	Applied    Outcome = 1  // done
	NotMet     Outcome = 0  // the condition was not met, and nothing was changed
	Removed    Outcome = 2  // the deadline was past, so the field is gone
	HasNoTTL   Outcome = -1 // of Persist: there was no deadline to take away
	HasNoField Outcome = -2 // there is no such field
)

// String returns the outcome in words.
func (o Outcome) String() string {
	switch o {
	case Applied:
		return "applied"
	case NotMet:
		return "condition not met"
	case Removed:
		return "removed"
	case HasNoTTL:
		return "no ttl"
	case HasNoField:
		return "no field"
	}
	return "unknown"
}

// Condition is one under which a field is given a deadline.
type Condition int

// The conditions. No deadline counts as one that never comes: it can be made
// shorter, but not longer.
const (
	Always  Condition = iota
	IfNoTTL           // if it has no deadline
	IfTTL             // if it has one
	Longer            // if it then stays longer
	Shorter           // if it then stays shorter
)

// ExpireConfig is how deadlines are changed. The zero value works.
type ExpireConfig struct {
	// Only is the condition. It is looked at before the deadline: a field that does
	// not meet it stays even if the deadline is past. Defaults to [Always].
	Only Condition
}

// word is what the script takes for a condition.
func (c Condition) word() (string, error) {
	switch c {
	case Always:
		return "", nil
	case IfNoTTL:
		return "without", nil
	case IfTTL:
		return "with", nil
	case Longer:
		return "longer", nil
	case Shorter:
		return "shorter", nil
	}
	return "", millrace.ErrBadArgument.Saying("there is no condition %d", c)
}

// Expire gives fields a deadline in ttl from now, rounded up to milliseconds. A
// ttl of 0 removes them. It says for each field, in order, what came of it:
// [Applied], [NotMet], [Removed] or [HasNoField]. It works when the server is
// full. It makes a call for every [MaxFields] fields, each of which is applied
// whole; with an error it returns what is known.
//
// Errors: [millrace.ErrBadName], [millrace.ErrBadArgument] and millrace.ErrTooLarge, before Redis was asked;
// millrace.ErrBroken, millrace.ErrVersion.
func (h *Hashes) Expire(ctx context.Context, hash string, ttl time.Duration, cfg ExpireConfig, fields ...string) ([]Outcome, error) {
	life, ms, err := in(ttl)
	if err != nil {
		return nil, err
	}
	return h.expire(ctx, hash, cfg, life, ms, fields)
}

// ExpireAt is Expire with a deadline by the server's clock. One that is past
// removes the fields.
func (h *Hashes) ExpireAt(ctx context.Context, hash string, deadline time.Time, cfg ExpireConfig, fields ...string) ([]Outcome, error) {
	life, ms, err := at(deadline)
	if err != nil {
		return nil, err
	}
	return h.expire(ctx, hash, cfg, life, ms, fields)
}

func (h *Hashes) expire(ctx context.Context, hash string, cfg ExpireConfig, life, ms string, fields []string) ([]Outcome, error) {
	only, err := cfg.Only.word()
	if err != nil {
		return nil, err
	}
	return each(ctx, h.write, hash, fields, readOutcome, HasNoField, "hash_expire", only, life, ms)
}

// Persist takes the deadlines of fields away. It says for each field, in order,
// what came of it: [Applied], [HasNoTTL] or [HasNoField]. Errors, and calls, are
// those of Expire.
func (h *Hashes) Persist(ctx context.Context, hash string, fields ...string) ([]Outcome, error) {
	return each(ctx, h.write, hash, fields, readOutcome, HasNoField, "hash_persist")
}

// TTL returns for each field, in order, for how long it still lives, [NoTTL] or
// [NoField]. It makes a call for every [MaxFields] fields. Errors: [millrace.ErrBadName] and
// millrace.ErrTooLarge, before Redis was asked; millrace.ErrBroken.
func (h *Hashes) TTL(ctx context.Context, hash string, fields ...string) ([]time.Duration, error) {
	return each(ctx, h.space.read, hash, fields, readTTL, NoField, "hash_ttl")
}

// write runs a script that changes a hash that is there.
func (h *Hashes) write(ctx context.Context, name, hash string, args ...string) (*script.Reply, error) {
	return h.space.write(ctx, false, name, hash, args...)
}

func readOutcome(r *script.Reply) Outcome { return Outcome(r.Int()) }

// each runs a script that answers with something for each field, on parts of the
// fields, behind other arguments. For a hash that does not exist the answer is none.
func each[T any](
	ctx context.Context, run func(ctx context.Context, name, hash string, args ...string) (*script.Reply, error),
	hash string, fields []string, read func(*script.Reply) T, none T, name string, args ...string,
) ([]T, error) {
	if err := check(hash, fields...); err != nil {
		return nil, err
	}
	list := make([]T, 0, len(fields))
	for part := range slices.Chunk(fields, MaxFields) {
		reply, err := run(ctx, name, hash, slices.Concat([]string{hash}, args, part)...)
		if err != nil {
			return list, err
		}
		if reply == nil {
			list = append(list, slices.Repeat([]T{none}, len(part))...)
			continue
		}
		for range part {
			list = append(list, read(reply))
		}
		if err := reply.Err(); err != nil {
			return list[:len(list)-len(part)], err
		}
	}
	return list, nil
}
