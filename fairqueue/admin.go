package fairqueue

import (
	"context"
	"fmt"
	"iter"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/registry"
	"github.com/millrace/millrace/internal/script"
)

// Resize changes how many streams the queue has, from 1 to [MaxStreams], and how
// many of them a tenant has; perTenant 0 leaves that as it is, and it is never
// more than there are streams. It creates a queue that does not exist.
//
// A larger number is used at once. After a smaller one, the streams at the end
// are read until they are empty, and then dropped. Writers that know the old
// number are told by their next write and compute again; no message is moved. So
// a tenant with messages in old and in new streams has turns in both for a while,
// and its own messages come out of order.
//
// Errors: [millrace.ErrBadArgument], [millrace.ErrBroken], [millrace.ErrVersion], millrace.ErrFull.
func (q *Queue) Resize(ctx context.Context, streams, perTenant int) error {
	if streams < 1 || streams > MaxStreams {
		return millrace.ErrBadArgument.Saying("a queue has 1 to %d streams, not %d", MaxStreams, streams)
	}
	if perTenant < 0 || perTenant > streams {
		return millrace.ErrBadArgument.Saying("a tenant has 1 to %d streams, not %d", streams, perTenant)
	}
	reply, err := q.call(ctx, "resize", strconv.Itoa(streams), strconv.Itoa(perTenant), q.cfg.Group,
		strconv.Itoa(q.cfg.PerTenant))
	if err != nil {
		return err
	}
	now := shape{streams: int(reply.Int()), perTenant: int(reply.Int())}
	if reply.Err() == nil {
		q.entry.Touch()
		q.reshape(now)
	}
	return reply.Err()
}

// Pause switches reading off, for all processes. Messages in flight may be
// finished, and writing goes on. Errors: [millrace.ErrNotFound], [millrace.ErrBroken],
// [millrace.ErrVersion].
func (q *Queue) Pause(ctx context.Context) error { return q.pause(ctx, "1") }

// Resume switches reading on again, and wakes readers.
func (q *Queue) Resume(ctx context.Context) error { return q.pause(ctx, "0") }

func (q *Queue) pause(ctx context.Context, on string) error {
	n, err := q.count(ctx, "pause", on)
	if err == nil && n == 0 {
		err = errNotFound
	}
	return err
}

// Delete removes the queue whole, whatever its keys hold: what waits, what is in
// flight, what is dead. Stop writers and readers first. It returns how many keys
// there were.
func (q *Queue) Delete(ctx context.Context) (int, error) {
	n, err := q.count(ctx, "delete", strconv.Itoa(MaxStreams))
	if err == nil {
		q.entry.Leave(ctx)
	}
	return n, err
}

// DeadMessage is a message that was delivered too often, or that its handler gave
// up.
type DeadMessage struct {
	Message

	Reason string // why it is dead
}

// Dead goes through the dead messages, oldest death first. Their Attempt is that
// of their last delivery, and they have no receipt.
func (q *Queue) Dead(ctx context.Context) iter.Seq2[DeadMessage, error] {
	return func(yield func(DeadMessage, error) bool) {
		for from := "-"; ; {
			page, last, err := q.deadPage(ctx, from)
			for _, m := range page {
				if !yield(m, nil) {
					return
				}
			}
			if err != nil {
				yield(DeadMessage{}, err)
				return
			}
			if len(page) < deadPageSize {
				return
			}
			from = "(" + last
		}
	}
}

// deadPageSize is how many dead messages are asked for at once.
const deadPageSize = 100

func (q *Queue) deadPage(ctx context.Context, from string) (page []DeadMessage, last string, err error) {
	c := q.run.Client
	entries, err := script.Prompt(ctx, func(ctx context.Context) ([]rueidis.XRangeEntry, error) {
		return c.Do(ctx, c.B().Xrange().Key(baseKey(q.name)+":dead").Start(from).End("+").Count(deadPageSize).Build()).AsXRange()
	})
	if err != nil {
		return nil, "", q.run.Name(err)
	}
	for _, one := range entries {
		died, err := timeOf(one.ID)
		if err != nil {
			return page, last, err
		}
		e := entry{id: one.ID, fields: one.FieldValues}
		m, garbled := e.message(died)
		m.Attempt--
		m.ID, m.Receipt, m.Stream, m.PickupDelay = e.fields[fieldID], "", 0, 0
		reason := e.fields[fieldReason]
		if garbled != nil {
			reason = fmt.Sprintf("%s (%s)", reason, garbled)
		}
		page, last = append(page, DeadMessage{Message: m, Reason: reason}), one.ID
	}
	return page, last, nil
}

// Redrive has dead messages tried again, as if they had never been delivered and
// without their deadline, and returns how many of them were dead.
func (q *Queue) Redrive(ctx context.Context, ids ...string) (int, error) {
	return q.eachDead(ctx, ids, func(some []string) (int, error) {
		done, err := q.integers(ctx, "redrive", some...)
		n := 0
		for _, one := range done {
			n += int(one)
		}
		return n, err
	})
}

// Purge forgets dead messages for good, and returns how many of them were dead.
func (q *Queue) Purge(ctx context.Context, ids ...string) (int, error) {
	return q.eachDead(ctx, ids, func(some []string) (int, error) {
		return q.count(ctx, "purge", some...)
	})
}

func (q *Queue) eachDead(ctx context.Context, ids []string, do func(some []string) (int, error)) (sum int, err error) {
	if err := checkIDs(ids); err != nil {
		return 0, err
	}
	for first := 0; first < len(ids) && ctx.Err() == nil; first += chunk {
		n, err := do(ids[first:min(first+chunk, len(ids))])
		sum += n
		if err != nil {
			return sum, err
		}
	}
	return sum, context.Cause(ctx)
}

// List goes through the names of the queues that are registered, which each is by those
// who write to it and read from it, in no order. It takes as long as there are structures,
// whatever else Redis has.
//
// Where servers do not answer, it yields what the others have, and then an error: see
// [millrace.ErrPartial].
func List(ctx context.Context, client rueidis.Client) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for name, err := range registry.List(ctx, client, registry.Queue) {
			if (err != nil || CheckName(name) == nil) && !yield(name, err) {
				return
			}
		}
	}
}
