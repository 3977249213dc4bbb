package expiry

import (
	"context"
	"slices"
	"time"

	"github.com/millrace/millrace"
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
	return "", millrace.ErrBadArgument.Errorf("there is no condition %d", c)
}

// Expire gives fields a deadline in ttl from now, rounded up to milliseconds. A
// ttl of 0 removes them. It says for each field, in order, what came of it:
// [Applied], [NotMet], [Removed] or [HasNoField]. It works when the server is
// full. It makes a call for every [MaxFields] fields, and for about every mebibyte of
// values, each of which is applied whole; with an error it returns what is known.
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
	return h.outcomes(ctx, hash, only, life, ms, fields)
}

// Persist takes the deadlines of fields away. It says for each field, in order,
// what came of it: [Applied], [HasNoTTL] or [HasNoField]. Errors, and calls, are
// those of Expire.
func (h *Hashes) Persist(ctx context.Context, hash string, fields ...string) ([]Outcome, error) {
	outcomes, err := h.outcomes(ctx, hash, "with", "none", "0", fields)
	for i, o := range outcomes {
		if o == NotMet {
			outcomes[i] = HasNoTTL
		}
	}
	return outcomes, err
}

// outcomes changes the deadlines of fields, as many in a call as it takes.
func (h *Hashes) outcomes(ctx context.Context, hash, only, life, ms string, fields []string) ([]Outcome, error) {
	if err := check(hash, fields...); err != nil {
		return nil, err
	}
	list := make([]Outcome, 0, len(fields))
	for len(list) < len(fields) {
		part := fields[len(list):min(len(list)+MaxFields, len(fields))]
		reply, err := h.space.write(ctx, false, "hash_expire", hash, append([]string{hash, only, life, ms}, part...)...)
		if err != nil {
			return list, err
		}
		if reply == nil { // there is no such hash
			return append(list, slices.Repeat([]Outcome{HasNoField}, len(fields)-len(list))...), nil
		}
		for first := true; first || reply.More(); first = false {
			list = append(list, Outcome(reply.Int()))
		}
		if err := reply.Err(); err != nil {
			return list[:len(list)-1], err
		}
	}
	return list, nil
}

// TTL returns for each field, in order, for how long it still lives, [NoTTL] or
// [NoField]. It reads the values, as GetMany does. Errors: [millrace.ErrBadName] and
// millrace.ErrTooLarge, before Redis was asked; millrace.ErrBroken, millrace.ErrVersion.
func (h *Hashes) TTL(ctx context.Context, hash string, fields ...string) ([]time.Duration, error) {
	if err := check(hash, fields...); err != nil {
		return nil, err
	}
	ttls := slices.Repeat([]time.Duration{NoField}, len(fields))
	err := h.read(ctx, hash, fields, func(i int, v Value) { ttls[i] = v.TTL })
	return ttls, err
}
