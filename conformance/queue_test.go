package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/fairqueue/parts"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/schedule"
)

var queueBehaviours = []behaviour{
	{"write, read, acknowledge", queueLife},
	{"a flood does not delay the others", queueFairness},
	{"failed messages come again and die", queueFailures},
	{"a message of a dead reader comes again", queueReclaim},
	{"cancelled messages do not come", queueCancel},
	{"a source writes each position once", queuePositions},
	{"schedules tick once", queueSchedules},
	{"several parts are one queue", queueParts},
	{"writes and delays wake readers", queueWakes},
	{"a resize strands no message", queueResize},
	{"list and upkeep go round all masters", queueTend},
	{"delete leaves no key behind", queueDelete},
	{"a storm loses no message", queueStorm(fairqueue.Config{})},
	{"a storm loses no message of streams", queueStorm(inStreams)},
}

// queuePositions has two processes write the same source, one behind the other.
func queuePositions(t *testing.T, on running) {
	name := redistest.Name(t)
	must(t, "SetPosition", openQueue(t, on.client(t), name).Sources().SetPosition(t.Context(), "table", 10))
	var drafts []fairqueue.Draft
	for position := int64(11); position <= 30; position++ {
		drafts = append(drafts, fairqueue.Draft{Tenant: "a", Source: "table", Position: position})
	}
	for _, client := range []rueidis.Client{on.client(t), on.client(t)} {
		q := openQueue(t, client, name)
		_, err := q.WriteBatch(t.Context(), drafts...)
		must(t, "WriteBatch", err)
		at, err := q.Sources().Position(t.Context(), "table")
		must(t, "Position", err)
		n, err := q.Len(t.Context())
		must(t, "Len", err)
		if at != 30 || n != 20 {
			t.Errorf("position %d, %d messages, want 30 and 20", at, n)
		}
	}
	if _, err := openQueue(t, on.client(t), name).Write(t.Context(), fairqueue.Draft{Tenant: "a", Source: "table", Position: 32}); !errors.Is(err, fairqueue.ErrGap) {
		t.Errorf("Write of a position too far = %v, want ErrGap", err)
	}
}

// queueSchedules has two processes keep a schedule for two ticks.
func queueSchedules(t *testing.T, on running) {
	name := redistest.Name(t)
	spec, err := schedule.Every(time.Second)
	must(t, "Every", err)
	q := openQueue(t, on.client(t), name)
	must(t, "Schedules.Set", q.Schedules().Set(t.Context(), fairqueue.Schedule{Name: "tick", Spec: spec, Draft: fairqueue.Draft{Tenant: "a"}}))
	other := openQueue(t, on.client(t), name)
	ticks := map[string]bool{}
	for i := range 2 {
		reader := []*fairqueue.Queue{q, other}[i]
		got, err := reader.Read(t.Context(), fairqueue.ReadConfig{Max: 10, Block: time.Minute})
		must(t, "Read", err)
		for _, m := range got {
			if tick := m.Headers[fairqueue.HeaderTick]; ticks[tick] {
				t.Errorf("two messages at %s", tick)
			} else {
				ticks[tick] = true
			}
		}
	}
	must(t, "Schedules.Pause", other.Schedules().Pause(t.Context(), "tick"))
	state, err := q.Schedules().Get(t.Context(), "tick")
	must(t, "Schedule", err)
	if !state.Paused || int(state.Ticks) < len(ticks) {
		t.Errorf("%d ticks seen, state %+v", len(ticks), state)
	}
	must(t, "Schedules.Remove", q.Schedules().Remove(t.Context(), "tick"))
}

// queueParts writes to eight parts and has them worked off.
func queueParts(t *testing.T, on running) {
	jobs, err := parts.New(parts.Config{Parts: parts.On(on.client(t), redistest.Name(t), 8)})
	must(t, "New", err)
	var drafts []fairqueue.Draft
	for i := range 200 {
		drafts = append(drafts, fairqueue.Draft{Tenant: fmt.Sprint("tenant", i%20)})
	}
	written, err := jobs.WriteBatch(t.Context(), drafts...)
	must(t, "WriteBatch", err)
	var mu sync.Mutex
	left := map[string]bool{}
	for _, w := range written {
		left[w.ID] = true
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	_ = jobs.Consume(ctx, fairqueue.ConsumeConfig{}, func(_ context.Context, m fairqueue.Message) error {
		mu.Lock()
		defer mu.Unlock()
		delete(left, m.ID)
		if len(left) == 0 {
			stop()
		}
		return nil
	})
	if len(left) > 0 {
		t.Errorf("%d messages did not come", len(left))
	}
	must(t, "Delete", jobs.Delete(t.Context()))
}

// inStreams is a queue whose flows are a few streams, of which each tenant has two.
var inStreams = fairqueue.Config{Streams: 5, PerTenant: 2}

func openQueue(t *testing.T, client rueidis.Client, name string) *fairqueue.Queue {
	t.Helper()
	return queueOf(t, client, name, fairqueue.Config{})
}

func queueOf(t *testing.T, client rueidis.Client, name string, cfg fairqueue.Config) *fairqueue.Queue {
	t.Helper()
	q, err := fairqueue.New(client, name, cfg)
	must(t, "fairqueue.New", err)
	return q
}

func newQueue(t *testing.T, on running) *fairqueue.Queue {
	t.Helper()
	return openQueue(t, on.client(t), redistest.Name(t))
}

// enqueue writes n messages of a tenant and returns their ids.
func enqueue(t *testing.T, q *fairqueue.Queue, tenant string, n int) []string {
	t.Helper()
	drafts := make([]fairqueue.Draft, n)
	for i := range drafts {
		drafts[i] = fairqueue.Draft{Tenant: tenant, Body: fmt.Append(nil, tenant, i)}
	}
	written, err := q.WriteBatch(t.Context(), drafts...)
	must(t, "WriteBatch", err)
	ids := make([]string, n)
	for i, w := range written {
		ids[i] = w.ID
	}
	return ids
}

// dequeue reads up to n messages, and waits for the first.
func dequeue(t *testing.T, q *fairqueue.Queue, n int) []fairqueue.Message {
	t.Helper()
	messages, err := q.Read(t.Context(), fairqueue.ReadConfig{Max: n, Block: 20 * time.Second})
	must(t, "Read", err)
	return messages
}

func acknowledge(t *testing.T, q *fairqueue.Queue, messages ...fairqueue.Message) {
	t.Helper()
	for _, m := range messages {
		_, err := q.Ack(t.Context(), m.Receipt)
		must(t, "Ack", err)
	}
}

// wantQueue checks how many messages wait, are in flight, delayed and dead.
func wantQueue(t *testing.T, q *fairqueue.Queue, sizes [4]int) {
	t.Helper()
	s, err := q.Stats(t.Context())
	want(t, "sizes", [4]int{s.Waiting, s.InFlight, s.Delayed, s.Dead}, sizes, err)
	n, err := q.Len(t.Context())
	want(t, "Len", n, sizes[0], err)
}

func queueLife(t *testing.T, on running) {
	q, other := newQueue(t, on), on.client(t)
	ids := enqueue(t, q, "a", 3)
	wantQueue(t, q, [4]int{3, 0, 0, 0})
	messages := dequeue(t, openQueue(t, other, q.Name()), 10)
	for _, m := range messages {
		if !slices.Contains(ids, m.ID) {
			t.Errorf("read %+v, want one of %v", m, ids)
		}
	}
	wantQueue(t, q, [4]int{0, 3, 0, 0})
	acknowledge(t, q, messages...)
	_, err := q.Ack(t.Context(), messages[0].Receipt)
	wantError(t, "Ack again", err, millrace.ErrStale)
	wantQueue(t, q, [4]int{})
}

func queueFairness(t *testing.T, on running) {
	q := newQueue(t, on)
	enqueue(t, q, "noisy", 500)
	for i := range 10 {
		enqueue(t, q, fmt.Sprint("quiet", i), 1)
	}
	served := map[string]bool{}
	for range 11 {
		served[dequeue(t, q, 1)[0].Tenant] = true
	}
	if len(served) != 11 {
		t.Errorf("%d of 11 tenants were served in the first round", len(served))
	}
}

func queueFailures(t *testing.T, on running) {
	q := newQueue(t, on)
	id := enqueue(t, q, "a", 1)[0]
	for attempt := 1; attempt <= 5; attempt++ {
		m := dequeue(t, q, 1)[0]
		want(t, "attempt", m.Attempt, attempt, nil)
		delay := time.Duration(attempt%2) * 20 * time.Millisecond
		_, err := q.Nack(t.Context(), fairqueue.NackConfig{Delay: delay, Reason: "no luck"}, m.Receipt)
		must(t, "Nack", err)
	}
	wantQueue(t, q, [4]int{0, 0, 0, 1})
	n, err := q.Dead().Redrive(t.Context(), id)
	want(t, "Redrive", n, 1, err)
	m := dequeue(t, q, 1)[0]
	want(t, "id", m.ID, id, nil)
	acknowledge(t, q, m)
}

func queueReclaim(t *testing.T, on running) {
	q, other := newQueue(t, on), on.client(t)
	enqueue(t, q, "a", 1)
	dead, err := openQueue(t, other, q.Name()).Read(t.Context(), fairqueue.ReadConfig{Visibility: 100 * time.Millisecond})
	must(t, "Read", err)
	m := dequeue(t, q, 1)[0]
	want(t, "attempt", m.Attempt, 2, nil)
	_, err = q.Ack(t.Context(), dead[0].Receipt)
	wantError(t, "Ack of the first reader", err, millrace.ErrStale)
	acknowledge(t, q, m)
}

func queueCancel(t *testing.T, on running) {
	q := newQueue(t, on)
	ids := enqueue(t, q, "a", 2)
	m := dequeue(t, q, 1)[0]
	delayed, err := q.Write(t.Context(), fairqueue.Draft{Tenant: "a", Delay: time.Hour})
	must(t, "Write", err)
	waiting := ids[0]
	if waiting == m.ID {
		waiting = ids[1]
	}
	places, err := q.Cancel(t.Context(), waiting, m.ID, delayed, waiting)
	want(t, "Cancel", places, []fairqueue.State{fairqueue.Waiting, fairqueue.InFlight, fairqueue.Delayed, fairqueue.Gone}, err)
	_, err = q.Ack(t.Context(), m.Receipt)
	wantError(t, "Ack of a cancelled message", err, millrace.ErrStale)
	wantQueue(t, q, [4]int{})
}

// queueWakes reads an empty queue. A reader that is not woken looks
// after a second, so the quickest of several waits decides.
func queueWakes(t *testing.T, on running) {
	q := newQueue(t, on)
	writer := openQueue(t, on.client(t), q.Name())
	for _, delay := range []time.Duration{0, 50 * time.Millisecond} {
		best := time.Hour
		for range 3 {
			got := make(chan fairqueue.Message)
			go func() { got <- dequeue(t, q, 1)[0] }()
			began := time.Now()
			_, err := writer.Write(t.Context(), fairqueue.Draft{Tenant: "a", Delay: delay})
			must(t, "Write", err)
			acknowledge(t, q, <-got)
			best = min(best, time.Since(began))
		}
		if best > delay+500*time.Millisecond {
			t.Errorf("the quickest pickup of a message with a delay of %v took %v", delay, best)
		}
	}
}

func queueResize(t *testing.T, on running) {
	q, stale := newQueue(t, on), on.client(t)
	writer := openQueue(t, stale, q.Name())
	written := len(enqueue(t, writer, "a", 1))
	for _, streams := range []int{16, 3, 0, 24} {
		must(t, "Resize", q.Resize(t.Context(), streams, 0))
		for i := range 20 {
			enqueue(t, writer, fmt.Sprint("tenant", i), 2)
			written += 2
		}
	}
	wantQueue(t, q, [4]int{written, 0, 0, 0})
	for read := 0; read < written; {
		messages := dequeue(t, q, 50)
		read += len(messages)
		acknowledge(t, q, messages...)
	}
	wantQueue(t, q, [4]int{})
}

func queueTend(t *testing.T, on running) {
	client := on.client(t)
	names := spread(t, on, 1)
	for _, name := range names {
		q := openQueue(t, client, name)
		enqueue(t, q, "a", 1)
		_, err := q.Read(t.Context(), fairqueue.ReadConfig{Visibility: 10 * time.Millisecond})
		must(t, "Read", err)
	}
	job := fairqueue.Jobs(client)[0]
	redistest.Eventually(t, "upkeep has brought back the messages on all servers", func() bool {
		_, err := job.Slice(t.Context())
		must(t, "slice", err)
		return !slices.ContainsFunc(names, func(name string) bool {
			s, err := openQueue(t, client, name).Stats(t.Context())
			return err != nil || s.Waiting != 1
		})
	})
	listed := map[string]bool{}
	for name, err := range fairqueue.List(t.Context(), client) {
		must(t, "List", err)
		listed[name] = true
	}
	for _, name := range names {
		if !listed[name] {
			t.Errorf("List does not find %q", name)
		}
	}
}

func queueDelete(t *testing.T, on running) {
	client := on.client(t)
	q := openQueue(t, client, redistest.Name(t))
	enqueue(t, q, "a", 10)
	for i, m := range dequeue(t, q, 3) {
		_, err := q.Nack(t.Context(), fairqueue.NackConfig{Dead: i == 0, Delay: time.Hour}, m.Receipt)
		must(t, "Nack", err)
	}
	_, err := q.Delete(t.Context())
	must(t, "Delete", err)
	if left := keysOf(t, client, q.Name()); len(left) > 0 {
		t.Errorf("Delete left %q", left)
	}
}

// outboxed is a queue under the load of a dirty list's storm: messages are written
// under dedupe ids, so that writing the outbox again doubles no message that
// is still there.
type outboxed struct{ queue *fairqueue.Queue }

func (o outboxed) AddNow(ctx context.Context, members ...string) (ick.Added, error) {
	drafts := make([]fairqueue.Draft, len(members))
	for i, m := range members {
		drafts[i] = fairqueue.Draft{Tenant: m[len(m)-1:], Body: []byte(m), DedupeID: m}
	}
	_, err := o.queue.WriteBatch(ctx, drafts...)
	return ick.Added{}, err
}

func (o outboxed) Consume(ctx context.Context, _ ick.ConsumeConfig, handler ick.Handler) error {
	cfg := fairqueue.ConsumeConfig{Concurrency: 1, Drain: time.Millisecond}
	return o.queue.Consume(ctx, cfg, func(ctx context.Context, m fairqueue.Message) error {
		return handler(ctx, []ick.Entry{{Member: string(m.Body)}})
	})
}

// queueStorm takes a queue's server away while messages are written, one is in a
// handler's hands and others wait. Every message that was acknowledged to its
// writer is handled.
func queueStorm(cfg fairqueue.Config) func(t *testing.T, on running) {
	return func(t *testing.T, on running) {
		t.Helper()
		q := queueOf(t, on.client(t), redistest.Name(t), cfg)
		t.Cleanup(on.mend) // should the test end before it does so itself
		recovered := make(chan struct{})
		producing, stop := context.WithCancel(t.Context())
		var working sync.WaitGroup
		t.Cleanup(working.Wait)
		t.Cleanup(stop)
		s := newStream(t, outboxed{queueOf(t, on.client(t), q.Name(), cfg)})
		consume(t, outboxed{queueOf(t, on.client(t), q.Name(), cfg)}, ick.ConsumeConfig{}, s.consume)
		working.Go(func() { s.produce(producing, recovered) })

		s.flows("before the disturbance")
		release := make(chan struct{})
		s.holdBatch(release)
		s.backsUp()
		s.seal()
		home := "mr:queue:{" + q.Name() + "}"
		on.secure(home)
		on.disturb(home)
		close(release)
		close(recovered)
		s.flows("after the disturbance")
		on.mend()
		s.flows("after all servers are back")
		stop()
		working.Wait()
		redistest.Eventually(t, "the queue is empty", func() bool {
			s, err := q.Stats(t.Context())
			return err == nil && s.Waiting+s.InFlight+s.Delayed == 0
		})
		s.check()
		wantQueue(t, q, [4]int{})
	}
}
