package fairqueue

import (
	"context"
	"iter"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/registry"
)

// Resize divides the queue into this many streams, of which each tenant has perTenant (0 for
// 4), or with 0 streams gives each tenant a flow again. It applies to messages written from
// then on: other writers learn of it by their next write. Messages in other flows stay there
// and take their turns. A queue with limits cannot be divided into streams.
//
// Errors: [millrace.ErrNotFound], [millrace.ErrBadArgument], [millrace.ErrBroken],
// [millrace.ErrVersion].
func (q *Queue) Resize(ctx context.Context, count, perTenant int) error {
	if count < 0 || count > maxStreams {
		return millrace.ErrBadArgument.Errorf("a queue has up to %d streams, not %d", maxStreams, count)
	}
	if perTenant < 0 || perTenant > count {
		return millrace.ErrBadArgument.Errorf("a tenant has 1 to %d streams, not %d", count, perTenant)
	}
	if perTenant == 0 {
		perTenant = min(defaultPerTenant, count)
	}
	s := streams{count: count, perTenant: perTenant}
	err := q.set(ctx, "streams", s.setting())
	if err == nil {
		q.learn(s)
	}
	return err
}

// Pause pauses reading, for all processes. Messages in flight may be settled, and writing
// goes on. Errors: [millrace.ErrNotFound], [millrace.ErrBroken], [millrace.ErrVersion].
func (q *Queue) Pause(ctx context.Context) error { return q.set(ctx, "paused", "1") }

// Resume continues reading, and wakes readers.
func (q *Queue) Resume(ctx context.Context) error { return q.set(ctx, "paused", "") }

// PurgeTenant removes the messages of a tenant that wait or are delayed, and returns how many.
// Those in flight stay. [Stats].Counters.Cancelled counts them. It takes a call for each 33 messages,
// and for each 300 that are delayed.
//
// Errors: as of [LimitSettings.Pause].
func (q *Queue) PurgeTenant(ctx context.Context, tenant string) (n int, err error) {
	if err := checkOneTenant(tenant); err != nil {
		return 0, err
	}
	for place := "+inf "; ; {
		answer, err := q.changeTenant(ctx, tenantFlow(tenant), "purge", place)
		count, next, _ := strings.Cut(answer, " ")
		removed, _ := strconv.Atoi(count)
		n += removed
		if err != nil || place == "" && removed < heavyPage {
			return n, err
		}
		place = next
	}
}

// set changes settings: fields and values of the script set.
func (q *Queue) set(ctx context.Context, fields ...string) error {
	reply, err := q.call(ctx, "set", fields...)
	switch {
	case err != nil:
		return err
	case reply.None():
		return errNotFound
	case reply.Int() == 2:
		return errNoTenantFlows
	}
	return reply.Err()
}

// Delete removes the queue with all its messages, whatever its keys hold. Stop writers and
// readers first. It returns how many keys there were.
func (q *Queue) Delete(ctx context.Context) (int, error) {
	reply, err := q.call(ctx, "delete")
	if err != nil {
		return 0, err
	}
	n := int(reply.Int())
	if reply.Err() == nil {
		q.entry.Leave(ctx)
	}
	return n, reply.Err()
}

// List returns the names of all queues, in no order. A queue registers when a process writes
// to it or reads from it. List takes as long as there are structures, whatever else Redis
// holds.
//
// If servers do not answer, it yields the names of the others, and then a
// [millrace.ErrPartial].
func List(ctx context.Context, client rueidis.Client) iter.Seq2[string, error] {
	return registry.List(ctx, client, registry.Queue, checkName)
}

// Jobs returns the upkeep of all queues. It makes delayed messages wait when they are due, makes
// messages of dead readers wait again, removes messages whose deadline has passed, writes the
// messages of schedules, forgets old lanes and dedupe ids, and removes queues after their
// [Config.IdleExpiry]. A read does the first four for its own queue.
//
// A slice visits up to 50 queues at the same time, and the next slice continues where it
// ended. A queue that does not answer delays no other.
func Jobs(client rueidis.Client) []millrace.Job {
	visitor := registry.NewVisitor(client, registry.Queue, func(ctx context.Context, name string) (bool, error) {
		q, err := New(client, name, Config{})
		if err != nil {
			return false, err
		}
		n, err := q.tend(ctx, "")
		return n != 0, err
	})
	return []millrace.Job{{Name: "fairqueue.tend", Slice: visitor.Slice}}
}

// tend does due work. The limit is that of the script tend. It returns how many messages wait
// again, at least 1 if more work is due, or -1 if the queue was removed.
func (q *Queue) tend(ctx context.Context, limit string) (int, error) {
	reply, err := q.call(ctx, "tend", limit)
	if err != nil || reply.None() {
		return 0, err
	}
	n, schedules := int(reply.Int()), reply.Bool()
	if err := reply.Err(); err != nil || !schedules {
		return n, err
	}
	return max(1, n), q.keepSchedules(ctx)
}
