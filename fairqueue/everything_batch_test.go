package fairqueue_test

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
)

// Batches in the storm. The message of a batch's end has a body of its own, as drafts have. So the storm sees if it is written
// twice, and that it is written: all batches are closed in the end.

// stormBatch is a batch of a part.
type stormBatch struct {
	part        int
	id          string
	cancellable bool // so its messages need not be handled
}

// mark is its id in the queue.
func (b stormBatch) mark(s session) string {
	if _, one := s.queue.(*fairqueue.Queue); one {
		return b.id
	}
	return strconv.Itoa(b.part) + "." + b.id
}

func (c *caller) createBatch() error {
	if len(c.batches) > 20 {
		c.batches = c.batches[10:]
	}
	c.drafts++
	b := stormBatch{part: c.r.IntN(len(c.parts)), cancellable: c.r.IntN(3) == 0}
	body := fmt.Append(nil, c.number, "-", c.drafts, " ends")
	id, err := c.parts[b.part].Batches().Create(c.ctx, pick(c.r, 0, 1, 5, 20), fairqueue.Draft{Tenant: pick(c.r, "a", "b\x01", "c\x02c"), Body: body})
	if err == nil {
		b.id = id
		c.batches = append(c.batches, b)
		c.s.wrote("", body)
	}
	return err
}

// batch returns one of the caller's batches, or false.
func (c *caller) batch() (stormBatch, bool) {
	if len(c.batches) == 0 {
		return stormBatch{}, false
	}
	return pick(c.r, c.batches...), true
}

func (c *caller) closeBatch() error {
	b, ok := c.batch()
	if !ok {
		return nil
	}
	return second(c.parts[b.part].Batches().Close(c.ctx, b.id))
}

func (c *caller) cancelBatch() error {
	b, ok := c.batch()
	if !ok || !b.cancellable {
		return nil
	}
	return second(c.parts[b.part].Batches().Cancel(c.ctx, b.id))
}

func (c *caller) showBatch() error {
	b, ok := c.batch()
	if !ok {
		return last(c.part().Batches().All(c.ctx))
	}
	got, err := c.parts[b.part].Batches().Get(c.ctx, b.id)
	if err == nil && got.Left < 0 {
		return fmt.Errorf("batch %+v has fewer than no messages left", got)
	}
	return err
}

// closeBatches closes all batches of the parts.
func (s *storm) closeBatches() (errs []error) {
	for _, q := range s.direct.parts {
		for b, err := range q.Batches().All(s.t.Context()) {
			if err == nil && b.State == fairqueue.BatchOpen {
				_, err = q.Batches().Close(s.t.Context(), b.ID)
			}
			if err != nil && !errors.Is(err, millrace.ErrNotFound) {
				errs = append(errs, err)
			}
		}
	}
	return errs
}
