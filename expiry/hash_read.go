package expiry

import (
	"context"
	"time"
)

// Value is a field's value and for how long it still lives.
type Value struct {
	Value []byte
	TTL   time.Duration // NoTTL without a deadline
}

// Get returns the value of a field and for how long it still lives, [NoTTL] if it
// has no deadline.
//
// Errors: [millrace.ErrNotFound]; [millrace.ErrBadName] and millrace.ErrTooLarge, before Redis was asked;
// millrace.ErrBroken.
func (h *Hashes) Get(ctx context.Context, hash, field string) (value []byte, ttl time.Duration, err error) {
	if err := check(hash, field); err != nil {
		return nil, 0, err
	}
	reply, err := h.space.read(ctx, "hash_get", hash, hash, field)
	if err != nil {
		return nil, 0, err
	}
	if reply == nil {
		return nil, 0, errNotFound
	}
	v, ok := readValue(reply)
	if err := reply.Err(); err != nil {
		return nil, 0, err
	}
	if !ok {
		return nil, 0, errNotFound
	}
	h.enlist(ctx)
	return v.Value, v.TTL, nil
}

// GetMany returns those of the fields that are there. It makes a call for every
// [MaxFields] fields, and for about every mebibyte of values; the fields of one call are
// of one moment. Errors: [millrace.ErrBadName] and millrace.ErrTooLarge, before Redis was asked;
// millrace.ErrBroken.
func (h *Hashes) GetMany(ctx context.Context, hash string, fields ...string) (map[string]Value, error) {
	if err := check(hash, fields...); err != nil {
		return nil, err
	}
	values := make(map[string]Value, len(fields))
	for len(fields) > 0 {
		part := fields[:min(len(fields), MaxFields)]
		reply, err := h.space.read(ctx, "hash_get", hash, append([]string{hash}, part...)...)
		if err != nil || reply == nil {
			return values, err
		}
		read := 0
		for ; read < len(part) && (read == 0 || reply.More()); read++ {
			if v, ok := readValue(reply); ok {
				values[part[read]] = v
			}
		}
		if err := reply.Err(); err != nil {
			return values, err
		}
		fields = fields[read:]
	}
	if len(values) > 0 {
		h.enlist(ctx)
	}
	return values, nil
}

// Exists reports whether a field is there. Errors: [millrace.ErrBadName] and millrace.ErrTooLarge,
// before Redis was asked; millrace.ErrBroken.
func (h *Hashes) Exists(ctx context.Context, hash, field string) (bool, error) {
	ttls, err := h.TTL(ctx, hash, field)
	return err == nil && ttls[0] != NoField, err
}

// Len returns how many fields a hash has. Expired ones do not count. Errors:
// [millrace.ErrBadName], before Redis was asked; millrace.ErrBroken.
func (h *Hashes) Len(ctx context.Context, hash string) (int, error) {
	if err := check(hash); err != nil {
		return 0, err
	}
	reply, err := h.space.read(ctx, "hash_len", hash, hash)
	if err != nil || reply == nil {
		return 0, err
	}
	return int(reply.Int()), reply.Err()
}
