package expiry

import (
	"context"
	"slices"
	"time"

	"github.com/millrace/millrace"
)

// Outcome is the result of changing a field's deadline, by the number with which Redis
// answers HEXPIRE.
type Outcome int

// The outcomes.
const (
	Applied    Outcome = 1  // done
	NotMet     Outcome = 0  // the condition was not met, nothing was changed
	Removed    Outcome = 2  // the deadline was past, so the field was removed
	HasNoTTL   Outcome = -1 // with [NoTTL]: there was no deadline to remove
	HasNoField Outcome = -2 // there is no such field
)

// ExpireConfig configures [Hashes.Expire]. Of the conditions one may be set. It is checked before
// the deadline: a field that does not meet it stays even if the deadline is past. No deadline
// counts as an infinite one: it can become shorter, but not longer.
type ExpireConfig struct {
	Deadline time.Time // by the server's clock, in place of the ttl, which is then 0

	IfNoTTL   bool // only if the field has no deadline
	IfTTL     bool // only if it has one
	IfLonger  bool // only if the field then lives longer
	IfShorter bool // only if the field then lives shorter
}

func (c ExpireConfig) word() (string, error) {
	c.Deadline = time.Time{}
	switch c {
	case ExpireConfig{}:
		return "", nil
	case ExpireConfig{IfNoTTL: true}:
		return "without", nil
	case ExpireConfig{IfTTL: true}:
		return "with", nil
	case ExpireConfig{IfLonger: true}:
		return "longer", nil
	case ExpireConfig{IfShorter: true}:
		return "shorter", nil
	}
	return "", millrace.ErrBadArgument.Errorf("the conditions of an expire exclude each other")
}

// Expire gives fields a deadline in ttl from now, rounded up to milliseconds, or that of cfg. A
// ttl of 0 and a past deadline remove the fields; [NoTTL], without a cfg, removes their deadlines. It
// returns for each field, in order, [Applied], [NotMet], [Removed], [HasNoTTL] or [HasNoField]. It
// works when the server is full. It makes a call for every 1,000 fields, and for about every mebibyte
// of values, each of which is applied whole; with an error it returns the outcomes that are known.
//
// Errors: [millrace.ErrBadName], [millrace.ErrBadArgument] and [millrace.ErrTooLarge],
// before Redis was asked; [millrace.ErrBroken], [millrace.ErrVersion].
func (h *Hashes) Expire(ctx context.Context, hash string, ttl time.Duration, cfg ExpireConfig, fields ...string) ([]Outcome, error) {
	if ttl == NoTTL {
		if cfg != (ExpireConfig{}) {
			return nil, millrace.ErrBadArgument.Errorf("NoTTL excludes a Deadline and conditions")
		}
		return h.persist(ctx, hash, fields)
	}
	life, ms, err := in(ttl)
	if !cfg.Deadline.IsZero() {
		if ttl != 0 {
			return nil, millrace.ErrBadArgument.Errorf("a ttl and a Deadline exclude each other")
		}
		life, ms, err = at(cfg.Deadline)
	}
	if err != nil {
		return nil, err
	}
	only, err := cfg.word()
	if err != nil {
		return nil, err
	}
	return h.outcomes(ctx, hash, only, life, ms, fields)
}

// persist removes the deadlines of fields.
func (h *Hashes) persist(ctx context.Context, hash string, fields []string) ([]Outcome, error) {
	outcomes, err := h.outcomes(ctx, hash, "with", "none", "0", fields)
	for i, o := range outcomes {
		if o == NotMet {
			outcomes[i] = HasNoTTL
		}
	}
	return outcomes, err
}

// outcomes changes the deadlines of fields, in as many calls as needed.
func (h *Hashes) outcomes(ctx context.Context, hash, only, life, ms string, fields []string) ([]Outcome, error) {
	if err := check(hash, fields...); err != nil {
		return nil, err
	}
	list := make([]Outcome, 0, len(fields))
	for len(list) < len(fields) {
		rest := fields[len(list):min(len(list)+maxFields, len(fields))]
		reply, err := h.space.Write(ctx, "expire", hash, append([]string{hash, only, life, ms}, placesOf(rest)...)...)
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
