package expiry

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/retry"
	"github.com/millrace/millrace/internal/script"
)

const (
	// maxAll is how many fields GetAll brings at most.
	maxAll = 10_000

	// allCount is what HSCAN is asked for so that it brings them: it stops at half
	// as many fields, because older servers count the values, too.
	allCount = 2 * (maxAll + 1)

	// scanPage is about how many fields a page of Scan has.
	scanPage = 100

	// sweepPage is how many expired fields GetAll removes in a call when they stand
	// between it and the others.
	sweepPage = 1000
)

// GetAll returns all fields of a hash as they are at one moment. A hash that does
// not exist has none.
//
// The server is busy for some milliseconds with a hash of 10,000 fields; one with
// more is refused with [ErrTooLarge]. Expired fields do not count, but if there are
// so many that the whole is too much for one call, GetAll removes them first.
//
// Errors: [ErrTooLarge]; [ErrName], before Redis was asked; [ErrBroken].
func (h *Hashes) GetAll(ctx context.Context, hash string) (map[string][]byte, error) {
	if err := CheckHash(hash); err != nil {
		return nil, err
	}
	base, ok, err := h.space.shardOf(ctx, hash, false)
	if err != nil || !ok {
		return map[string][]byte{}, err
	}
	for count := allCount; ; {
		all, whole, err := h.whole(ctx, base, hash, count)
		if err == nil && whole && len(all) > maxAll {
			err = ErrTooLarge
		}
		if err != nil {
			return nil, err
		}
		if whole {
			return all, nil
		}
		n, err := h.Len(ctx, hash)
		if err == nil && n > maxAll {
			err = ErrTooLarge
		}
		if err != nil {
			return nil, err
		}
		swept, err := h.sweep(ctx, base, hash)
		if err != nil {
			return nil, err
		}
		if swept == 0 {
			count *= 2 // a hash that was much larger once: the server goes through empty buckets
		}
	}
}

// sweep removes what is expired in a hash, a page at a time, and returns how many
// fields that were.
func (h *Hashes) sweep(ctx context.Context, base, hash string) (int, error) {
	for swept := 0; ; {
		r, err := h.reap(ctx, base, sweepPage, "one", hash)
		if swept += r.reaped; err != nil || !r.full {
			return swept, err
		}
	}
}

// whole brings the fields of a hash, and reports whether those are all. What the
// server holds and what of that is expired come out of one transaction.
func (h *Hashes) whole(ctx context.Context, base, hash string, count int) (map[string][]byte, bool, error) {
	var parts []rueidis.RedisMessage
	err := h.space.run.Retry.Do(ctx, func(int) (err error) {
		parts, err = script.Prompt(ctx, func(ctx context.Context) ([]rueidis.RedisMessage, error) {
			return h.transaction(ctx, base, hash, strconv.Itoa(count))
		})
		return err
	})
	if retry.Code(err, "OOM") || retry.Code(err, "EXECABORT") {
		var reply rueidis.RedisMessage
		if reply, err = h.space.call(ctx, h.scripts.all, base, hash, strconv.Itoa(count), "1"); err == nil {
			parts, err = reply.ToArray()
		}
	}
	if err != nil {
		return nil, false, named(err)
	}
	if len(parts) != 2 {
		return nil, false, fmt.Errorf("expiry.hash_all answered %d parts", len(parts))
	}
	page, err := parts[1].AsScanEntry()
	if err != nil {
		return nil, false, named(err)
	}
	expired, err := parts[0].AsStrSlice()
	if err != nil {
		return nil, false, err
	}
	all := make(map[string][]byte, len(page.Elements)/2)
	for i := 0; i+1 < len(page.Elements); i += 2 {
		all[page.Elements[i]] = []byte(page.Elements[i+1])
	}
	for _, field := range expired {
		delete(all, field)
	}
	return all, page.Cursor == 0 && len(expired) < count, nil
}

// transaction returns the expired fields and the answer of HSCAN. The script goes
// out in full, since nobody could send it again in the middle.
func (h *Hashes) transaction(ctx context.Context, base, hash, count string) ([]rueidis.RedisMessage, error) {
	c := h.space.run.Client
	n, err := strconv.ParseInt(count, 10, 64)
	if err != nil {
		return nil, err
	}
	results := c.DoMulti(ctx,
		c.B().Multi().Build(),
		c.B().Eval().Script(h.scripts.all.Source()).Numkeys(1).Key(base).Arg(hash, count, "").Build(),
		c.B().Hscan().Key(valuesKey(base, hash)).Cursor(0).Count(n).Build(),
		c.B().Exec().Build(),
	)
	for _, r := range results {
		if err := r.Error(); err != nil {
			return nil, err
		}
	}
	answers, err := results[3].ToArray()
	if err != nil || len(answers) != 2 {
		return nil, fmt.Errorf("a transaction of 2 answered %d: %w", len(answers), err)
	}
	parts, err := answers[0].ToArray()
	if err != nil || len(parts) != 2 {
		return nil, fmt.Errorf("expiry.hash_all answered %d parts: %w", len(parts), err)
	}
	return []rueidis.RedisMessage{parts[0], answers[1]}, nil
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
// [ErrName], before Redis was asked; [ErrBroken].
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
func (h *Hashes) page(ctx context.Context, hash, cursor string) ([]Field, string, error) {
	reply, ok, err := h.ask(ctx, h.scripts.scan, false, hash, cursor, strconv.Itoa(scanPage))
	if err != nil || !ok {
		return nil, "0", err
	}
	parts, err := reply.ToArray()
	if err != nil || len(parts) != 2 {
		return nil, "", fmt.Errorf("expiry.hash_scan answered %d parts: %w", len(parts), err)
	}
	next, err := parts[0].ToString()
	if err != nil {
		return nil, "", err
	}
	flat, err := parts[1].ToArray()
	if err != nil || len(flat)%3 != 0 {
		return nil, "", fmt.Errorf("expiry.hash_scan answered %d parts of fields: %w", len(flat), err)
	}
	fields := make([]Field, 0, len(flat)/3)
	for ; len(flat) > 0; flat = flat[3:] {
		name, err := flat[0].ToString()
		if err != nil {
			return nil, "", err
		}
		v, err := readValue(flat[1:])
		if err != nil {
			return nil, "", err
		}
		fields = append(fields, Field{Name: name, Value: v.Value, TTL: v.TTL})
	}
	return fields, next, nil
}
