package fairqueue

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue/queuestats"
	"github.com/millrace/millrace/internal/test/redistest"
)

// takeFor takes a message for a reader.
func takeFor(t *testing.T, q *Queue, m *registration) []Message {
	t.Helper()
	answers, err := q.shared.work(t.Context(), []workRequest{{q: q, reader: m, max: 1, visibility: time.Hour}}, false)
	if err != nil {
		t.Fatal(err)
	}
	return answers[0].messages
}

// TestReadersRegisterAgain: a reader that its queue does not know is registered before it has a message, in either form of the
// call: before the first one, after the queue was made again, and after the reader was silent.
func TestReadersRegisterAgain(t *testing.T) {
	t.Parallel()
	for _, form := range []string{"short", "general"} {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			q := open(t, Config{})
			self := readerOf(reader{id: "self", name: "self", host: "here", handlers: 3})
			take := func(when string, capacity int) {
				t.Helper()
				if form == "general" {
					q.shared.general.note()
				}
				want(t, "messages "+when, len(takeFor(t, q, self)), 1, nil)
				want(t, "capacity "+when, stats(t, q).Capacity, capacity, nil)
			}
			want(t, "messages without a queue", len(takeFor(t, q, self)), 0, nil)
			write(t, q, "a:1 b:1 c:1 d:1")
			take("of a new queue", 3)
			if _, err := q.Delete(t.Context()); err != nil {
				t.Fatal(err)
			}
			write(t, q, "a:1 b:1 c:1 d:1")
			take("of one that was made again", 3)
			old := fmt.Sprintf("%d\x013\x010\x01self\x01here", stats(t, q).At.Add(-readerTimeout-time.Second).UnixMilli())
			do(t, q.run.Client, "HSET", baseKey(q.name)+":readers", "self", old)
			other := readerOf(reader{id: "other", name: "other", host: "here", handlers: 0.25})
			want(t, "messages of another reader", len(takeFor(t, q, other)), 1, nil)
			r, _ := readRaw(t, q)
			want(t, "capacity without the silent one", r.capacity, 0.25, nil)
			take("of the silent one", 3)
			r, _ = readRaw(t, q)
			want(t, "capacity of both", r.capacity, 3.25, nil)
		})
	}
}

// TestReadersOfAClockThatWasAhead count for nothing, and their queue is not one where another tenant had a message in an hour.
func TestReadersOfAClockThatWasAhead(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	write(t, q, "a:1")
	self := readerOf(reader{id: "self", handlers: 2})
	takeFor(t, q, self)
	ahead := stats(t, q).At.Add(time.Hour)
	do(t, q.run.Client, "HSET", baseKey(q.name)+":readers", "dead", fmt.Sprintf("%d\x0150\x010\x01dead\x01here", ahead.UnixMilli()))
	if _, err := q.beat(t.Context(), time.Minute, self, nil); err != nil {
		t.Fatal(err)
	}
	r, _ := readRaw(t, q)
	want(t, "capacity", r.capacity, 2.0, nil)
	now := float64(stats(t, q).At.UnixMilli())
	raw := r.hot["t"]
	late := binary.LittleEndian.AppendUint64(nil, math.Float64bits(float64(ahead.UnixMilli())))
	do(t, q.run.Client, "HSET", baseKey(q.name)+":hot", "t", raw[:72]+string(late)+string(late)+raw[88:]) // since and others
	write(t, q, "a:2")
	q.shared.general.note()
	takeFor(t, q, self)
	if r, _ = readRaw(t, q); r.since > now+60_000 || r.others > now+60_000 {
		t.Errorf("the last message was at %.0f, and that of another tenant at %.0f, want about %.0f", r.since, r.others, now)
	}
}

// TestNamedWorkers: a Read that names its worker counts as handlers of Consume do, for as long as it reads.
func TestNamedWorkers(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	write(t, q, "b:1 c:1 "+strings.Repeat("a:x ", 10))
	cfg := ReadConfig{Worker: "w1", Concurrency: 4, Max: 3}
	some, err := q.Read(t.Context(), cfg)
	want(t, "the first round", bodies(some), "x 1 1", err)
	s := stats(t, q)
	want(t, "readers", [3]any{len(s.Readers), s.Readers[0].Name, s.Readers[0].Concurrency}, [3]any{1, "w1", 4}, nil)
	_, err = q.Read(t.Context(), cfg) // of four handlers one is free, and a has one
	wantError(t, err, ErrEmpty)
	want(t, "messages of a reader without a name", len(read(t, q, 1)), 1, nil)
	again := openOn(t, redistest.Shared(t).Client(t), q.name, Config{}) // another process through which it reads
	ack(t, q, some...)
	if _, err := again.Read(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	want(t, "readers through two processes", len(stats(t, q).Readers), 1, nil)
	for _, bad := range []ReadConfig{
		{Concurrency: 1}, {Worker: "w", Concurrency: -1}, {Worker: "w", Concurrency: 1001}, {Worker: "a\n"}, {Pool: &Pool{}},
		{Worker: strings.Repeat("w", 513)},
	} {
		_, err := q.Read(t.Context(), bad)
		wantError(t, err, millrace.ErrBadArgument)
	}
}

// TestSharesAddUp: many small shares add up to the number of handlers.
func TestSharesAddUp(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	write(t, q, "a:1")
	for i := range 30 {
		pool, err := NewPool(1, q, q, q)
		if err != nil {
			t.Fatal(err)
		}
		slots := pool.join(func() {}, func() {})
		r := readerOf(reader{id: fmt.Sprint(i), handlers: slots.share(1)})
		if _, err := q.beat(t.Context(), time.Minute, r, nil); err != nil {
			t.Fatal(err)
		}
	}
	r, _ := readRaw(t, q)
	want(t, "a third of 30", r.capacity, 10.0, nil)
	want(t, "as Stats has it", stats(t, q).Capacity, 10, nil)
}

// TestPoolKnowsWhoIsAlone: a tenant is alone if none of the pool's queues had another one's message lately.
func TestPoolKnowsWhoIsAlone(t *testing.T) {
	t.Parallel()
	pool, err := NewPool(2)
	if err != nil {
		t.Fatal(err)
	}
	a, b := pool.join(func() {}, func() {}), pool.join(func() {}, func() {})
	want(t, "at first", a.only(), noTenant, nil)
	a.saw([]Message{{Tenant: "x"}})
	want(t, "after the first message", a.only(), noTenant, nil)
	pool.tenant, pool.since, pool.others = "", time.Time{}, time.Time{}
	want(t, "after a minute without messages", a.only(), "", nil)
	b.saw([]Message{{Tenant: "x"}})
	want(t, "after one", a.only(), tenantFlow("x"), nil)
	b.saw([]Message{{Tenant: "y"}})
	want(t, "after two", a.only(), noTenant, nil)
	var none *slots
	want(t, "without a pool", none.only(), "", nil)
}

// TestPooledWorkerOfAQueueThatIsMadeAgain: a worker whose handlers are busy with another queue's messages is registered again in a
// queue that was deleted meanwhile, or that would share its handlers among fewer.
func TestPooledWorkerOfAQueueThatIsMadeAgain(t *testing.T) {
	t.Parallel()
	first, second := open(t, Config{}), open(t, Config{})
	pool, err := NewPool(2, first, second)
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range []*Queue{first, second} {
		write(t, q, "a:1")
		if _, err := q.Read(t.Context(), ReadConfig{Worker: "w", Pool: pool}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := second.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	write(t, second, "a:2")
	all := &second.shared.workers
	all.mu.Lock()
	w := all.of["w"]
	all.mu.Unlock()
	if _, err := second.beat(t.Context(), defaultVisibility, &w.registration, nil); err != nil {
		t.Fatalf("the report of a worker that does not read now: %v", err)
	}
	want(t, "readers", len(stats(t, second).Readers), 1, nil)
}

// TestLeavingEndsAReader: a consumer that has left is not registered again by a call that comes late.
func TestLeavingEndsAReader(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	write(t, q, "a:1")
	cfg, err := ConsumeConfig{}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	c := newConsumer(q, cfg, func(context.Context, Message) error { return nil })
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errStop)
	if err := c.run(ctx); !errors.Is(err, errStop) {
		t.Fatalf("run = %v", err)
	}
	c.self.forget()
	takeFor(t, q, &c.self)
	want(t, "readers", len(stats(t, q).Readers), 0, nil)
}

// TestALeftReaderStopsNoOther: in a shared call, a worker that left through another process gets nothing, and the others their messages.
func TestALeftReaderStopsNoOther(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	write(t, q, "a:1 a:2")
	left, there := readerOf(reader{id: "left", handlers: 2, lingers: true}), readerOf(reader{id: "there", handlers: 2})
	requests := func(readers ...*registration) (all []workRequest) {
		for _, r := range readers {
			all = append(all, workRequest{q: q, reader: r, max: 2, visibility: time.Minute})
		}
		return all
	}
	answers, err := q.shared.work(t.Context(), requests(left), false)
	if err != nil || len(answers[0].messages) != 0 {
		t.Errorf("a call for a reader that has left = %+v, %v, want no messages", answers, err)
	}
	answers, err = q.shared.work(t.Context(), requests(left, there), false)
	if err != nil || len(answers[0].messages) != 0 || len(answers[1].messages) != 2 {
		t.Fatalf("a shared call = %+v, %v, want both messages for the second reader", answers, err)
	}
	if s := stats(t, q); s.InFlight != 2 {
		t.Errorf("%d messages are in flight, want those 2", s.InFlight)
	}
}

// TestWorkersOfSeveralQueues: a worker is known in all queues of its pool, with its share, when it has read one of them.
func TestWorkersOfSeveralQueues(t *testing.T) {
	t.Parallel()
	first, second := open(t, Config{}), open(t, Config{})
	pool, err := NewPool(3, first, second)
	if err != nil {
		t.Fatal(err)
	}
	write(t, first, "a:1")
	write(t, second, "a:1")
	if _, err := first.Read(t.Context(), ReadConfig{Worker: "w1", Pool: pool}); err != nil {
		t.Fatal(err)
	}
	for _, q := range []*Queue{first, second} {
		redistest.Eventually(t, "half of the handlers are in each queue", func() bool {
			r, ok := readRaw(t, q)
			return ok && r.capacity == 1.5
		})
	}
}

// TestMaxShareOfPartsOfHandlers: a tenant that MaxShare holds back goes on as soon as the handlers suffice, which may be a
// part of one.
func TestMaxShareOfPartsOfHandlers(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	if err := q.Limits().Set(t.Context(), "a", ownOf(queuestats.Limits{MaxShare: 0.8})); err != nil {
		t.Fatal(err)
	}
	write(t, q, "a:1 a:2 a:3")
	self := readerOf(reader{id: "self", handlers: 1.25})
	for _, n := range []int{1, 0} {
		want(t, "messages with 1.25 handlers", len(takeFor(t, q, self)), n, nil)
	}
	write(t, q, "b:1")
	ack(t, q, takeFor(t, q, self)...) // so the last tenant is another one
	if _, err := q.beat(t.Context(), time.Minute, readerOf(reader{id: "other", handlers: 1.25}), nil); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{1, 0} {
		want(t, "more messages with 2.5 handlers", len(takeFor(t, q, self)), n, nil)
	}
}
