package fairqueue

import (
	"errors"
	"strconv"
	"strings"

	"pgregory.net/rapid"

	"github.com/millrace/millrace"
)

// Batches in a random history.

// knownBatch is a batch as the model has it.
type knownBatch struct {
	Batch

	ends int // messages of its end that were seen
}

// leaveBatch counts the end of a message.
func (k *known) leaveBatch(how func(*Batch)) {
	if k.batch != nil && k.batch.State != BatchDone {
		how(&k.batch.Batch)
	}
	k.batch = nil
}

func (k *known) withdrawn() bool { return k.batch != nil && k.batch.State == BatchCancelled }

// over reports whether the message is not to be delivered any more.
func (k *known) over() bool { return k.worthNot || k.withdrawn() }

// mayHave returns the batch of an id, and whether it takes another message.
func (m *model) mayHave(id string) (*knownBatch, bool) {
	if id == "" {
		return nil, true
	}
	for _, b := range m.batches {
		if b.ID == id {
			return b, b.State == BatchOpen && (b.Total < 0 || b.Written < b.Total)
		}
	}
	return nil, false
}

// someBatchID draws none, one of the batches, or one that there never was.
func (c *machine) someBatchID(r *rapid.T) string {
	i := rapid.IntRange(-1, 2+2*len(c.model.batches)).Draw(r, "batch")
	switch {
	case i < 0:
		return "0000000000000001"
	case i < len(c.model.batches):
		return c.model.batches[i].ID
	}
	return ""
}

func (c *machine) newBatch(r *rapid.T) {
	if len(c.model.batches) > 4 {
		r.Skip("there are enough")
	}
	total := rapid.IntRange(0, 3).Draw(r, "total")
	c.lose(r)
	id, err := c.q.Batches().Create(c.t.Context(), total, Draft{Tenant: someTenant.Draw(r, "tenant"), Priority: somePriority.Draw(r, "priority"), Cost: someCost.Draw(r, "cost")})
	c.check(r, "length of an id", len(id), 16, err)
	b := &knownBatch{Batch: Batch{ID: id, State: BatchOpen, Total: total}}
	if total == 0 {
		b.Total = -1
	}
	c.model.batches = append(c.model.batches, b)
}

func (c *machine) endBatch(r *rapid.T) {
	if len(c.model.batches) == 0 {
		r.Skip("there is none")
	}
	b := rapid.SampledFrom(c.model.batches).Draw(r, "batch")
	c.changeBatch(r, b, rapid.SampledFrom([]string{BatchOpen, BatchCancelled}).Draw(r, "becomes"))
}

// changeBatch closes or cancels a batch.
func (c *machine) changeBatch(r *rapid.T, b *knownBatch, state string) {
	change := c.q.Batches().Close
	if state == BatchCancelled {
		change = c.q.Batches().Cancel
	}
	if b.State == BatchOpen {
		b.State, b.Total = state, b.Written
	}
	c.lose(r)
	got, err := change(c.t.Context(), b.ID)
	b.mayBeDone()
	got.Until, got.Created = b.Until, b.Created
	c.check(r, "batch after a change", got, b.Batch, err)
	if _, err := change(c.t.Context(), "0000000000000001"); !errors.Is(err, millrace.ErrNotFound) {
		r.Fatalf("a batch that is not there: %v", err)
	}
}

// left is how many messages have not ended.
func (b *knownBatch) left() int { return b.Written - b.Handled - b.Dead - b.Cancelled - b.Expired }

func (b *knownBatch) mayBeDone() {
	b.Left = b.left()
	if b.left() == 0 && (b.State == BatchCancelled || b.State == BatchOpen && b.Written == b.Total) {
		b.State = BatchDone
	}
}

// batchesAre compares the batches, and has the model know the messages of their ends.
func (c *machine) batchesAre(r *rapid.T, there *keys) {
	listed := map[string]bool{}
	for b, err := range c.watch.Batches().All(c.t.Context()) {
		if err != nil {
			r.Fatal(err)
		}
		listed[b.ID] = true
	}
	for _, b := range c.model.batches {
		b.mayBeDone()
		got, err := c.watch.Batches().Get(c.t.Context(), b.ID)
		got.Until, got.Created = b.Until, b.Created
		c.check(r, "batch", got, b.Batch, err)
		c.check(r, "whether it is listed", listed[b.ID], true, nil)
	}
	for id, stored := range there.messages {
		h, _, err := readHeader(stored)
		if err != nil || c.model.messages[id] != nil || !strings.Contains(h.batch, ",") {
			continue
		}
		m := Message{ID: id, Priority: 4 - int(h.priority-'0'), Cost: h.cost, Stream: -1}
		m.Tenant, _ = readFlow(h.owner)
		_, m.Stream = readFlow(h.flow)
		m.fillBatch(h.batch)
		c.ended(r, m)
	}
}

// ended has the model know the message of a batch's end.
func (c *machine) ended(r *rapid.T, m Message) {
	k := &known{id: m.ID, tenant: m.Tenant, priority: m.Priority, cost: m.Cost, state: waiting, flow: tenantFlow(m.Tenant)}
	if m.Stream >= 0 {
		k.flow = streamFlow(m.Stream)
	}
	c.model.messages[m.ID] = k
	c.ids = append(c.ids, m.ID)
	c.model.count.Written++
	c.ends(r, m.Headers[HeaderBatch], m)
}

// ends notes the message of a batch's end.
func (c *machine) ends(r *rapid.T, id string, m Message) {
	for _, b := range c.model.batches {
		if b.ID == id {
			b.ends++
			var got [5]string
			for i, name := range []string{HeaderBatchHandled, HeaderBatchDead, HeaderBatchCancelled, HeaderBatchExpired, HeaderBatchLeft} {
				got[i] = m.Headers[name]
			}
			now, err := c.watch.Batches().Get(c.t.Context(), id)
			c.check(r, "state of a batch that ended", now.State, BatchDone, err)
			c.check(r, "counts", got, [5]string{strconv.Itoa(now.Handled), strconv.Itoa(now.Dead), strconv.Itoa(now.Cancelled), strconv.Itoa(now.Expired), "0"}, nil)
			return
		}
	}
	r.Fatalf("message %s is the end of %s", m.ID, id)
}
