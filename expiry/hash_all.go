package expiry

import (
	"context"
	"iter"
	"strconv"
	"time"

	"github.com/millrace/millrace/internal/script"
)

const (
	// maxAll is how many fields GetAll brings at most.
	maxAll = 10_000

	// scanPage is about how many fields a page of Scan has.
	scanPage = 100
)

// GetAll returns all fields of a hash as they are at one moment, if their values are not
// more than a mebibyte; those behind that are brought by further calls. A hash that does
// not exist has none.
//
// The server is busy for some milliseconds with a hash of 10,000 fields; one with
// more is refused with millrace.ErrTooLarge. Expired fields do not count.
//
// Errors: millrace.ErrTooLarge; [millrace.ErrBadName], before Redis was asked; millrace.ErrBroken.
func (h *Hashes) GetAll(ctx context.Context, hash string) (map[string][]byte, error) {
	if err := check(hash); err != nil {
		return nil, err
	}
	all := map[string][]byte{}
	reply, err := h.space.read(ctx, "hash_all", hash, hash, strconv.Itoa(maxAll))
	if err != nil || reply == nil {
		return all, err
	}
	var left []string
	for reply.More() {
		field := reply.Text()
		if value, ok := reply.Maybe(); ok {
			all[field] = []byte(value)
		} else {
			left = append(left, field)
		}
	}
	if err := reply.Err(); err != nil {
		return nil, err
	}
	values, err := h.rest(ctx, hash, left)
	for field, v := range values {
		all[field] = v.Value
	}
	return all, err
}

// rest brings the fields whose values were too much for the call that named them.
func (h *Hashes) rest(ctx context.Context, hash string, fields []string) (map[string]Value, error) {
	if len(fields) == 0 {
		return nil, nil //nolint:nilnil // nothing is no error
	}
	return h.GetMany(ctx, hash, fields...)
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
// [millrace.ErrBadName], before Redis was asked; millrace.ErrBroken.
func (h *Hashes) Scan(ctx context.Context, hash string) iter.Seq2[Field, error] {
	return func(yield func(Field, error) bool) {
		for cursor := "0"; ; {
			fields, next, err := h.page(ctx, hash, cursor)
			if err != nil {
				yield(Field{}, err)
				return
			}
			for _, f := range fields {
				if !yield(f, nil) {
					return
				}
			}
			if cursor = next; cursor == "0" {
				return
			}
		}
	}
}

// page brings one page of a scan and the cursor of the next.
func (h *Hashes) page(ctx context.Context, hash, cursor string) (fields []Field, next string, err error) {
	if err := check(hash); err != nil {
		return nil, "", err
	}
	reply, err := h.space.read(ctx, "hash_scan", hash, hash, cursor, strconv.Itoa(scanPage))
	if err != nil || reply == nil {
		return nil, "0", err
	}
	next = reply.Text()
	list := reply.List()
	fields, left := readFields(list)
	reply.Join(list)
	if err := reply.Err(); err != nil {
		return nil, "", err
	}
	values, err := h.rest(ctx, hash, left)
	for field, v := range values {
		fields = append(fields, Field{Name: field, Value: v.Value, TTL: v.TTL})
	}
	return fields, next, err
}

// readFields reads the fields of a page, and the names of those without their values.
func readFields(list *script.Reply) (fields []Field, left []string) {
	fields = make([]Field, 0, list.Len()/3)
	for list.More() {
		name := list.Text()
		if v, ok := readValue(list); ok {
			fields = append(fields, Field{Name: name, Value: v.Value, TTL: v.TTL})
		} else {
			left = append(left, name)
		}
	}
	return fields, left
}
