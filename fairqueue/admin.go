package fairqueue

import (
	"context"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/registry"
)

// Resize makes the queue's flows so many streams, of which each tenant has perTenant, or
// with 0 streams one for each tenant again. It takes effect for what is written from then
// on: writers that know another number are told by their next write. What waits in other
// flows stays there and has its turns.
//
// Errors: [millrace.ErrNotFound], [millrace.ErrBadArgument], [millrace.ErrBroken],
// [millrace.ErrVersion].
func (q *Queue) Resize(ctx context.Context, count, perTenant int) error {
	if count < 0 || count > MaxStreams {
		return millrace.ErrBadArgument.Errorf("a queue has up to %d streams, not %d", MaxStreams, count)
	}
	if perTenant < 0 || perTenant > count {
		return millrace.ErrBadArgument.Errorf("a tenant has 1 to %d streams, not %d", count, perTenant)
	}
	if perTenant == 0 {
		perTenant = min(PerTenantDefault, count)
	}
	s := streams{count: count, perTenant: perTenant}
	err := q.set(ctx, "streams", s.setting())
	if err == nil {
		q.learn(s)
	}
	return err
}

// Pause switches reading off, for all processes. Messages in flight may be
// finished, and writing goes on. Errors: [millrace.ErrNotFound], [millrace.ErrBroken],
// [millrace.ErrVersion].
func (q *Queue) Pause(ctx context.Context) error { return q.set(ctx, "paused", "1") }

// Resume switches reading on again, and wakes readers.
func (q *Queue) Resume(ctx context.Context) error { return q.set(ctx, "paused", "") }

// KeepDead bounds how many dead messages the queue keeps and for how long; the oldest are
// dropped when another dies, and [Counters].Dropped counts them. 0 is without end.
func (q *Queue) KeepDead(ctx context.Context, most int, age time.Duration) error {
	if most < 0 || age < 0 {
		return millrace.ErrBadArgument.Errorf("a queue cannot keep %d dead messages for %s", most, age)
	}
	text := func(n int64) string {
		if n == 0 {
			return ""
		}
		return strconv.FormatInt(n, 10)
	}
	return q.set(ctx, "dead_most", text(int64(most)), "dead_age", text(age.Milliseconds()))
}

// set changes settings.
func (q *Queue) set(ctx context.Context, pairs ...string) error {
	reply, err := q.call(ctx, "set", pairs...)
	if err != nil {
		return err
	}
	if there := reply.Bool(); reply.Err() == nil && !there {
		return errNotFound
	}
	return reply.Err()
}

// MinWeight and MaxWeight bound [Queue.SetWeight].
const (
	MinWeight = 0.01
	MaxWeight = 100
)

// SetWeight gives a tenant so many turns for each one of a tenant of weight 1, from its
// next message on. Errors: [millrace.ErrNotFound], [millrace.ErrBadArgument],
// [millrace.ErrBroken], [millrace.ErrVersion].
func (q *Queue) SetWeight(ctx context.Context, tenant string, weight float64) error {
	if tenant == "" || len(tenant) > maxLabel {
		return millrace.ErrBadArgument.Errorf("a tenant has 1 to %d bytes, not %d", maxLabel, len(tenant))
	}
	if !(weight >= MinWeight && weight <= MaxWeight) {
		return millrace.ErrBadArgument.Errorf("a weight is from %g to %d, not %g", MinWeight, MaxWeight, weight)
	}
	text := ""
	if weight != 1 {
		text = strconv.FormatFloat(weight, 'f', -1, 64)
	}
	reply, err := q.call(ctx, "weigh", tenantFlow(tenant), text)
	if err != nil {
		return err
	}
	if there := reply.Bool(); reply.Err() == nil && !there {
		return errNotFound
	}
	return reply.Err()
}

// Delete removes the queue whole, whatever its keys hold: what waits, what is in
// flight, what is dead. Stop writers and readers first. It returns how many keys
// there were.
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

// Redrive has dead messages tried again, as if they had never been delivered and
// without their deadline, and returns how many of them were dead.
func (q *Queue) Redrive(ctx context.Context, ids ...string) (int, error) {
	return q.eachDead(ctx, ids, func(some []string) (int, error) {
		reply, err := q.call(ctx, "redrive", some...)
		if err != nil {
			return 0, err
		}
		n := strings.Count(reply.Text(), "1")
		return n, reply.Err()
	})
}

// Purge forgets dead messages for good, and returns how many of them were dead.
func (q *Queue) Purge(ctx context.Context, ids ...string) (int, error) {
	return q.eachDead(ctx, ids, func(some []string) (int, error) {
		reply, err := q.call(ctx, "purge", some...)
		if err != nil {
			return 0, err
		}
		n := int(reply.Int())
		return n, reply.Err()
	})
}

func (q *Queue) eachDead(ctx context.Context, ids []string, do func(some []string) (int, error)) (sum int, err error) {
	if err := checkIDs(ids); err != nil {
		return 0, err
	}
	for len(ids) > 0 && ctx.Err() == nil {
		some := min(len(ids), costly)
		n, err := do(ids[:some])
		sum += n
		if err != nil {
			return sum, err
		}
		ids = ids[some:]
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
