package expiry

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/rueidis"
)

// Value is a field's value and for how long it still lives.
type Value struct {
	Value []byte
	TTL   time.Duration // NoTTL without a deadline
}

// Get returns the value of a field and for how long it still lives, [NoTTL] if it
// has no deadline.
//
// Errors: [ErrNotFound]; [ErrName], before Redis was asked; [ErrBroken].
func (h *Hashes) Get(ctx context.Context, hash, field string) (value []byte, ttl time.Duration, err error) {
	reply, ok, err := h.ask(ctx, h.scripts.get, false, hash, field)
	if err != nil {
		return nil, 0, err
	}
	if !ok || reply.IsNil() {
		return nil, 0, ErrNotFound
	}
	parts, err := reply.ToArray()
	if err != nil || len(parts) != 2 {
		return nil, 0, fmt.Errorf("expiry.hash_get answered %d parts: %w", len(parts), err)
	}
	v, err := readValue(parts)
	if err != nil {
		return nil, 0, err
	}
	h.enlist(ctx)
	return v.Value, v.TTL, nil
}

// readValue reads a value and what is left of its time.
func readValue(parts []rueidis.RedisMessage) (Value, error) {
	value, err := parts[0].AsBytes()
	if err != nil {
		return Value{}, err
	}
	ttl, err := left(parts[1])
	return Value{Value: value, TTL: ttl}, err
}

// GetMany returns those of the fields that are there. It makes a call for every
// [MaxFields] fields; the fields of one call are of one moment. Errors: [ErrName],
// before Redis was asked; [ErrBroken].
func (h *Hashes) GetMany(ctx context.Context, hash string, fields ...string) (map[string]Value, error) {
	if err := CheckHash(hash); err != nil {
		return nil, err
	}
	values := make(map[string]Value, len(fields))
	for part := range slices.Chunk(fields, MaxFields) {
		reply, ok, err := h.ask(ctx, h.scripts.mget, false, hash, part...)
		if err != nil || !ok {
			return values, err
		}
		parts, err := reply.ToArray()
		if err != nil || len(parts) != 2*len(part) {
			return values, fmt.Errorf("expiry.hash_mget answered %d parts for %d fields: %w", len(parts), len(part), err)
		}
		for i, field := range part {
			if parts[2*i].IsNil() {
				continue
			}
			if values[field], err = readValue(parts[2*i:]); err != nil {
				return values, err
			}
		}
	}
	if len(values) > 0 {
		h.enlist(ctx)
	}
	return values, nil
}

// Exists reports whether a field is there. Errors: [ErrName], before Redis was
// asked; [ErrBroken].
func (h *Hashes) Exists(ctx context.Context, hash, field string) (bool, error) {
	ttls, err := h.TTL(ctx, hash, field)
	return err == nil && ttls[0] != NoField, err
}

// Len returns how many fields a hash has. Expired ones do not count. Errors:
// [ErrName], before Redis was asked; [ErrBroken].
func (h *Hashes) Len(ctx context.Context, hash string) (int, error) {
	return h.number(ctx, h.scripts.length, false, hash)
}
