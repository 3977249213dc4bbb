package expiry

import (
	"context"
	"errors"
	"iter"
	"strconv"
	"time"

	"github.com/millrace/millrace"
)

const (
	// maxAll is how many fields GetAll brings at most.
	maxAll = 10_000

	// scanPage is about how many fields a page of Scan has.
	scanPage = 100
)

// Get returns the value of a field and for how long it still lives, [NoTTL] if it
// has no deadline.
//
// Errors: [millrace.ErrNotFound]; [millrace.ErrBadName] and millrace.ErrTooLarge, before Redis was asked;
// millrace.ErrBroken, millrace.ErrVersion.
func (h *Hashes) Get(ctx context.Context, hash, field string) (value []byte, ttl time.Duration, err error) {
	if err := check(hash, field); err != nil {
		return nil, 0, err
	}
	if err := h.read(ctx, hash, []string{field}, func(_ int, v Value) { value, ttl = v.Value, v.TTL }); err != nil {
		return nil, 0, err
	}
	if value == nil {
		return nil, 0, errNotFound
	}
	h.enlist(ctx)
	return value, ttl, nil
}

// read tells of those fields that are there.
func (h *Hashes) read(ctx context.Context, hash string, fields []string, found func(i int, v Value)) error {
	return h.space.at(ctx, false, hash, func(base string, shards int) error {
		return h.space.readMany(ctx, "expiry.hash_get", base, shards, base+":h:"+hash, fields, found)
	})
}

// GetMany returns those of the fields that are there. It asks for 10 fields first, and then
// for as many as a mebibyte holds if they are as large as the largest so far, up to
// [MaxFields]; the fields of one call are of one moment. Errors: [millrace.ErrBadName] and
// millrace.ErrTooLarge, before Redis was asked; millrace.ErrBroken, millrace.ErrVersion.
func (h *Hashes) GetMany(ctx context.Context, hash string, fields ...string) (map[string]Value, error) {
	if err := check(hash, fields...); err != nil {
		return nil, err
	}
	values := make(map[string]Value, len(fields))
	err := h.read(ctx, hash, fields, func(i int, v Value) { values[fields[i]] = v })
	if len(values) > 0 {
		h.enlist(ctx)
	}
	return values, err
}

// Exists reports whether a field is there. Errors: [millrace.ErrBadName] and millrace.ErrTooLarge,
// before Redis was asked; millrace.ErrBroken, millrace.ErrVersion.
func (h *Hashes) Exists(ctx context.Context, hash, field string) (bool, error) {
	ttls, err := h.TTL(ctx, hash, field)
	return err == nil && ttls[0] != NoField, err
}

// Len returns how many fields a hash has. Expired ones do not count. If the hash has lost
// its deadlines, they are first collected from its fields. Errors: [millrace.ErrBadName],
// before Redis was asked; millrace.ErrBroken, millrace.ErrVersion.
func (h *Hashes) Len(ctx context.Context, hash string) (int, error) {
	if err := check(hash); err != nil {
		return 0, err
	}
	reply, err := h.space.read(ctx, "hash_len", hash, hash)
	if errors.Is(err, errIndex) {
		if err := h.space.at(ctx, false, hash, func(base string, shards int) error {
			_, _, _, err := repairHash(ctx, h.space, base, shards, hash, spot{}, -1)
			return err
		}); err != nil {
			return 0, err
		}
		reply, err = h.space.read(ctx, "hash_len", hash, hash)
	}
	if err != nil || reply == nil {
		return 0, err
	}
	return int(reply.Int()), reply.Err()
}

// GetAll returns all fields of a hash: as they are at one moment, if no more than a
// mebibyte of values is stored, expired ones included; those behind that are brought by
// further calls. A hash that does not exist has none.
//
// The server is busy for some milliseconds with a hash of 10,000 fields; one with
// more is refused with millrace.ErrTooLarge. Expired fields do not count.
//
// Errors: millrace.ErrTooLarge; [millrace.ErrBadName], before Redis was asked; millrace.ErrBroken,
// millrace.ErrVersion.
func (h *Hashes) GetAll(ctx context.Context, hash string) (map[string][]byte, error) {
	all := map[string][]byte{}
	for f, err := range h.scan(ctx, hash, maxAll) {
		if err != nil {
			return nil, err
		}
		if all[f.Name] = f.Value; len(all) > maxAll {
			err := millrace.ErrTooLarge.Errorf("the hash has more than %d fields", maxAll)
			return nil, err.WithHint("Use Scan, which brings them in pages.")
		}
	}
	return all, nil
}

// Field is one field of a hash.
type Field struct {
	Name  string
	Value []byte
	TTL   time.Duration // NoTTL without a deadline
}

// Scan goes through the fields of a hash of any size, in pages of about 100. A
// field that is there all the time comes at least once, one that comes or goes
// meanwhile may or may not, and one may come twice. It ends with the first error:
// [millrace.ErrBadName], before Redis was asked; millrace.ErrBroken, millrace.ErrVersion.
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

// page brings one page of a scan and the cursor of the next.
func (h *Hashes) page(ctx context.Context, hash, cursor string, size int) (fields []Field, next string, err error) {
	if err := check(hash); err != nil {
		return nil, "", err
	}
	reply, err := h.space.read(ctx, "hash_scan", hash, hash, cursor, strconv.Itoa(size))
	if err != nil || reply == nil {
		return nil, "0", err
	}
	now, next, list := reply.Int(), reply.Text(), reply.List()
	for list.More() {
		name := list.Text()
		v, ok, err := readStored(list.Text(), now, name)
		if err != nil {
			return fields, "", err
		}
		if ok {
			fields = append(fields, Field{name, v.Value, v.TTL})
		}
	}
	reply.Join(list)
	return fields, next, reply.Err()
}
