package expiry

import (
	"context"
	"errors"
	"iter"
	"strconv"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/shards"
)

const (
	// maxAll is how many fields GetAll returns at most.
	maxAll = 10_000

	// scanPage is about how many fields a page of Scan has.
	scanPage = 100
)

// Field is a field of a hash.
type Field struct {
	Name  string
	Value []byte
	TTL   time.Duration // the time that is left; NoTTL without a deadline
}

// Get returns the value of a field and the time that is left, [NoTTL] without a deadline.
//
// Errors: [millrace.ErrNotFound]; [millrace.ErrBadName] and [millrace.ErrTooLarge], before
// Redis was asked; [millrace.ErrBroken], [millrace.ErrVersion].
func (h *Hashes) Get(ctx context.Context, hash, field string) (value []byte, ttl time.Duration, err error) {
	err = h.read(ctx, hash, []string{field}, func(_ int, v []byte, left time.Duration) { value, ttl = v, left })
	if err == nil && value == nil {
		err = errNotFound
	}
	if err != nil {
		return nil, 0, err
	}
	h.space.Enlist(ctx)
	return value, ttl, nil
}

// read calls found for those fields that exist.
func (h *Hashes) read(ctx context.Context, hash string, fields []string, found shards.Found) error {
	if err := check(hash, fields...); err != nil {
		return err
	}
	return h.space.At(ctx, false, hash, func(base string, shards int) error {
		return h.space.ReadMany(ctx, base, shards, base+":h:"+hash, placesOf(fields), found)
	})
}

// GetMany returns those of the fields that exist, by their names. It requests 10 fields
// first, and then as many as a mebibyte holds if they are as large as the largest so far,
// up to 1,000; the fields of one call are of one moment. Errors: [millrace.ErrBadName] and
// [millrace.ErrTooLarge], before Redis was asked; [millrace.ErrBroken],
// [millrace.ErrVersion].
func (h *Hashes) GetMany(ctx context.Context, hash string, fields ...string) (map[string]Field, error) {
	found := make(map[string]Field, len(fields))
	err := h.read(ctx, hash, fields, func(i int, value []byte, ttl time.Duration) {
		found[fields[i]] = Field{fields[i], value, ttl}
	})
	if len(found) > 0 {
		h.space.Enlist(ctx)
	}
	return found, err
}

// Len returns how many fields a hash has, without expired ones. If the hash has lost its
// deadlines, Len first collects them from the fields. Errors: [millrace.ErrBadName], before
// Redis was asked; [millrace.ErrBroken], [millrace.ErrVersion].
func (h *Hashes) Len(ctx context.Context, hash string) (int, error) {
	if err := check(hash); err != nil {
		return 0, err
	}
	reply, err := h.space.Call(ctx, nil, false, "len", hash, hash)
	if errors.Is(err, errIndex) {
		if err := h.space.At(ctx, false, hash, func(base string, shards int) error {
			_, _, _, err := repairHash(ctx, h.space, base, shards, hash, position{}, -1)
			return err
		}); err != nil {
			return 0, err
		}
		reply, err = h.space.Call(ctx, nil, false, "len", hash, hash)
	}
	if err != nil || reply == nil {
		return 0, err
	}
	return int(reply.Int()), reply.Err()
}

// GetAll returns all fields of a hash: of one moment, if as many as are stored, expired ones
// included, would fit into a mebibyte if all were as large as the largest; larger hashes take
// several calls. A hash that does not exist has no fields.
//
// The server is busy for some milliseconds with a hash of 10,000 fields. A hash with more
// is refused with [millrace.ErrTooLarge]; expired fields do not count.
//
// Errors: [millrace.ErrTooLarge]; [millrace.ErrBadName], before Redis was asked;
// [millrace.ErrBroken], [millrace.ErrVersion].
func (h *Hashes) GetAll(ctx context.Context, hash string) (map[string][]byte, error) {
	all := map[string][]byte{}
	for f, err := range h.scan(ctx, hash, maxAll) {
		if err != nil {
			return nil, err
		}
		if all[f.Name] = f.Value; len(all) > maxAll {
			err := millrace.ErrTooLarge.Errorf("the hash has more than %d fields", maxAll)
			return nil, err.WithHint("Use Scan, which reads pages.")
		}
	}
	return all, nil
}

// Scan yields the fields of a hash of any size, in pages of about 100. It yields a field
// that exists all the time at least once; a field that is set or removed meanwhile may be
// missing, and a field may come twice. It ends with the first error: [millrace.ErrBadName],
// before Redis was asked; [millrace.ErrBroken], [millrace.ErrVersion].
func (h *Hashes) Scan(ctx context.Context, hash string) iter.Seq2[Field, error] {
	return h.scan(ctx, hash, scanPage)
}

// scan is Scan in pages of about so many fields.
func (h *Hashes) scan(ctx context.Context, hash string, size int) iter.Seq2[Field, error] {
	return func(yield func(Field, error) bool) {
		for cursor := "0"; ; {
			fields, next, err := h.page(ctx, hash, cursor, size)
			for _, f := range fields {
				if !yield(f, nil) {
					return
				}
			}
			if err != nil {
				yield(Field{}, err)
				return
			}
			if cursor = next; cursor == "0" {
				return
			}
		}
	}
}

// page returns one page of a scan and the cursor of the next.
func (h *Hashes) page(ctx context.Context, hash, cursor string, size int) (fields []Field, next string, err error) {
	if err := check(hash); err != nil {
		return nil, "", err
	}
	reply, err := h.space.Call(ctx, nil, false, "scan", hash, hash, cursor, strconv.Itoa(size))
	if err != nil || reply == nil {
		return nil, "0", err
	}
	now, next, list := reply.Int(), reply.Text(), reply.List()
	for list.More() {
		place, stored := list.Text(), list.Text()
		if place == "" {
			continue // the hash's record
		}
		name := fieldAt(place)
		value, ttl, ok, err := shards.Decode(stored, now, name)
		if err != nil {
			return fields, "", err
		}
		if ok {
			fields = append(fields, Field{name, value, ttl})
		}
	}
	reply.Join(list)
	return fields, next, reply.Err()
}
