package fairqueue

import (
	"bytes"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/test/redistest"
)

// batchTest is a queue with a batch.
type batchTest struct {
	*Queue

	t  *testing.T
	id string
}

func newBatchTest(t *testing.T, q *Queue, total int) *batchTest {
	t.Helper()
	b := &batchTest{Queue: q, t: t}
	b.id = b.create(total)
	return b
}

func (b *batchTest) create(total int) string {
	b.t.Helper()
	id, err := b.Batches().Create(b.t.Context(), total, Draft{Tenant: "end", Body: []byte("done"), Headers: map[string]string{"mine": "1"}})
	want(b.t, "create", nil, nil, err)
	return id
}

// add writes messages of the batch, one for each word of tenants.
func (b *batchTest) add(tenants string) []string {
	b.t.Helper()
	var drafts []Draft
	for tenant := range strings.FieldsSeq(tenants) {
		drafts = append(drafts, Draft{Tenant: tenant, Body: []byte("x"), Batch: b.id})
	}
	written, err := b.WriteBatch(b.t.Context(), drafts...)
	want(b.t, "write", nil, nil, err)
	ids := make([]string, len(written))
	for i, w := range written {
		ids[i] = w.ID
	}
	return ids
}

// refuses reports that the batch takes no more.
func (b *batchTest) refuses() {
	b.t.Helper()
	_, err := b.Write(b.t.Context(), Draft{Tenant: "a", Batch: b.id})
	wantError(b.t, err, ErrBatch)
}

// take reads n messages of the batch.
func (b *batchTest) take(n int) []Message {
	b.t.Helper()
	messages := read(b.t, b.Queue, n)
	want(b.t, "messages", len(messages), n, nil)
	for _, m := range messages {
		want(b.t, "batch of a message", m.Batch, b.id, nil)
		want(b.t, "headers", m.Headers[HeaderBatch], "", nil)
	}
	return messages
}

// counts compares the batch: its state, and how many messages were written, handled, are dead, cancelled and expired.
func (b *batchTest) counts(state string, numbers ...int) {
	b.t.Helper()
	got, err := b.Batches().Get(b.t.Context(), b.id)
	want(b.t, "batch", []any{got.State, got.Written, got.Handled, got.Dead, got.Cancelled, got.Expired},
		[]any{state, numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]}, err)
}

// ends reads the message of the batch's end, the only one that there is, and acknowledges it.
func (b *batchTest) ends(handled, dead, cancelled, expired, left int) {
	b.t.Helper()
	messages := read(b.t, b.Queue, 10)
	if len(messages) != 1 {
		b.t.Fatalf("there are %d messages, want the end of the batch: %+v", len(messages), messages)
	}
	m := messages[0]
	got := map[string]string{}
	for name, value := range m.Headers {
		got[strings.TrimPrefix(name, "millrace-batch-")] = value
	}
	want(b.t, "headers of the end", got, map[string]string{
		"mine": "1", "millrace-batch": b.id, "handled": strconv.Itoa(handled), "dead": strconv.Itoa(dead), "cancelled": strconv.Itoa(cancelled),
		"expired": strconv.Itoa(expired), "left": strconv.Itoa(left),
	}, nil)
	want(b.t, "the end", []string{m.Tenant, string(m.Body), m.Batch}, []string{"end", "done", ""}, nil)
	ack(b.t, b.Queue, m)
	b.right()
}

// right checks the keys.
func (b *batchTest) right() {
	b.t.Helper()
	there, _ := readRaw(b.t, b.Queue)
	want(b.t, "what is wrong", there.wrongs(), "", nil)
}

// over has the time of the batch be over.
func (b *batchTest) over() {
	b.t.Helper()
	there, _ := readRaw(b.t, b.Queue)
	_, rest, _ := strings.Cut(there.hot[batchPrefix+b.id], ";")
	want(b.t, "a batch of long ago", nil, nil, do(b.t, b.run.Client, "HSET", baseKey(b.name)+":hot", batchPrefix+b.id, "1000;"+rest).Error())
	want(b.t, "its deadline", nil, nil, do(b.t, b.run.Client, "ZADD", baseKey(b.name)+":deadlines", "1000", batchPrefix+b.id).Error())
	_, err := b.tend(b.t.Context(), "")
	want(b.t, "upkeep", nil, nil, err)
}

// TestBatch is the life of a batch, on queues of both kinds, and on miniredis.
func TestBatch(t *testing.T) {
	t.Parallel()
	client, mini := redistest.Shared(t).Client(t), miniClient(t)
	for _, tt := range []struct {
		name   string
		client rueidis.Client
		cfg    Config
	}{{"tenants", client, Config{}}, {"streams", client, Config{Streams: 8}}, {"miniredis", mini, Config{}}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.cfg.MaxAttempts = 2
			b := newBatchTest(t, openOn(t, tt.client, redistest.Name(t), tt.cfg), 4)
			b.counts(BatchOpen, 0, 0, 0, 0, 0)
			ids := b.add("a b c")
			_, err := b.Write(t.Context(), Draft{Tenant: "a", Batch: b.id, TTL: 2 * time.Millisecond, Delay: time.Millisecond})
			want(t, "write", nil, nil, err)
			b.refuses()
			b.counts(BatchOpen, 4, 0, 0, 0, 0)
			passes(t, tt.client, 4*time.Millisecond)
			for range 2 { // it is due, and then it has expired
				_, err = b.tend(t.Context(), "")
				want(t, "upkeep", nil, nil, err)
			}
			b.counts(BatchOpen, 4, 0, 0, 0, 1)
			want(t, "cancelled", len(ids), 3, second(b.Cancel(t.Context(), ids[1])))
			b.counts(BatchOpen, 4, 0, 0, 1, 1)
			b.right()
			held := b.take(2)
			want(t, "extended", nil, nil, second(b.Extend(t.Context(), time.Minute, held[0].Receipt)))
			ack(t, b.Queue, held[0])
			nack(t, b.Queue, NackConfig{Reason: "once"}, held[1])
			b.counts(BatchOpen, 4, 1, 0, 1, 1)
			held = b.take(1)
			nack(t, b.Queue, NackConfig{Reason: "twice"}, held[0])
			b.counts(BatchDone, 4, 1, 1, 1, 1)
			b.right()
			b.ends(1, 1, 1, 1, 0)
			n, err := b.Dead().Redrive(t.Context(), held[0].ID)
			want(t, "redriven", n, 1, err)
			again := b.take(1)
			ack(t, b.Queue, again...)
			b.counts(BatchDone, 4, 1, 1, 1, 1)
			wantSizes(t, b.Queue, 0, 0, 0, 0)
			b.over()
			_, err = b.Batches().Get(t.Context(), b.id)
			wantError(t, err, millrace.ErrNotFound)
			b.refuses()
			wantNothingLeft(t, b.Queue)
		})
	}
}

func second[T any](_ T, err error) error { return err }

// TestOpenBatch takes messages until it is closed.
func TestOpenBatch(t *testing.T) {
	t.Parallel()
	b := newBatchTest(t, open(t, Config{}), 0)
	b.add("a a")
	ack(t, b.Queue, b.take(2)...)
	wantSizes(t, b.Queue, 0, 0, 0, 0)
	b.add("a")
	got, err := b.Batches().Close(t.Context(), b.id)
	want(t, "closed", []any{got.State, got.Total, got.Left}, []any{BatchOpen, 3, 1}, err)
	b.refuses()
	ack(t, b.Queue, b.take(1)...)
	b.ends(3, 0, 0, 0, 0)
	got, err = b.Batches().Close(t.Context(), b.id)
	want(t, "closed again", got.State, BatchDone, err)
	wantSizes(t, b.Queue, 0, 0, 0, 0)

	b.id = b.create(5) // one that gets fewer than it said, none
	_, err = b.Batches().Close(t.Context(), b.id)
	want(t, "close", nil, nil, err)
	b.ends(0, 0, 0, 0, 0)
}

// TestCancelledBatch: nothing of it is delivered any more, and its end comes when what was in flight has ended.
func TestCancelledBatch(t *testing.T) {
	t.Parallel()
	b := newBatchTest(t, open(t, Config{}), 0)
	b.add("a a a b c")
	_, err := b.Write(t.Context(), Draft{Tenant: "a", Batch: b.id, Delay: time.Millisecond})
	want(t, "write", nil, nil, err)
	write(t, b.Queue, "a:other")
	held := b.take(3) // of a, b and c
	_, err = b.Batches().Cancel(t.Context(), b.id)
	want(t, "cancel", nil, nil, err)
	b.refuses()
	b.right()
	passes(t, b.run.Client, 3*time.Millisecond)
	want(t, "upkeep", nil, nil, second(b.tend(t.Context(), ""))) // the delay has ended
	want(t, "what is delivered", bodies(read(t, b.Queue, 10)), "other", nil)
	b.counts(BatchCancelled, 6, 0, 0, 3, 0)
	ack(t, b.Queue, held[0])
	nack(t, b.Queue, NackConfig{}, held[1]) // it does not come again
	b.counts(BatchCancelled, 6, 1, 0, 4, 0)
	nack(t, b.Queue, NackConfig{Dead: true}, held[2])
	b.counts(BatchDone, 6, 1, 1, 4, 0)
	b.ends(1, 1, 4, 0, 0)
	want(t, "cancelled", stats(t, b.Queue).Counters.Cancelled, int64(4), nil)
}

// TestLateBatch: one whose messages do not end is done after its time, once.
func TestLateBatch(t *testing.T) {
	t.Parallel()
	b := newBatchTest(t, open(t, Config{}), 10)
	b.add("a a a")
	held := b.take(2)
	ack(t, b.Queue, held[0])
	got, err := b.Batches().Get(t.Context(), b.id)
	want(t, "until", got.Until.Sub(got.Created).Round(time.Minute), 30*24*time.Hour, err)
	b.over()
	b.counts(BatchDone, 3, 1, 0, 0, 0)
	b.refuses()
	ack(t, b.Queue, b.take(1)...)
	ack(t, b.Queue, held[1])
	b.ends(1, 0, 0, 0, 2)
	b.counts(BatchDone, 3, 1, 0, 0, 0)
	wantSizes(t, b.Queue, 0, 0, 0, 0)
}

// TestBatchEndsOnAFullServer: its message is written by the call that ends it, which a full server takes. It takes no new batch.
func TestBatchEndsOnAFullServer(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t, redistest.Options{}).Client(t)
	b := newBatchTest(t, openOn(t, client, "x", Config{}), 2)
	b.add("a a")
	held := b.take(2)
	want(t, "maxmemory", nil, nil, do(t, client, "CONFIG", "SET", "maxmemory", "1").Error())
	before := dump(t, b.Queue)
	_, err := b.Batches().Create(t.Context(), 1, Draft{Tenant: "a"})
	wantError(t, err, millrace.ErrFull)
	want(t, "the queue", dump(t, b.Queue), before, nil)
	ack(t, b.Queue, held...)
	b.ends(2, 0, 0, 0, 0)
	want(t, "maxmemory", nil, nil, do(t, client, "CONFIG", "SET", "maxmemory", "0").Error())
}

// TestBatchesAreBounded in number, and those that are done are forgotten sooner if they are many.
func TestBatchesAreBounded(t *testing.T) {
	t.Parallel()
	b := newBatchTest(t, open(t, Config{}), 0)
	are := func(n string) {
		t.Helper()
		want(t, "HSET", nil, nil, do(t, b.run.Client, "HSET", baseKey(b.name), "batches", n).Error())
	}
	are("10000")
	_, err := b.Batches().Close(t.Context(), b.id)
	want(t, "close", nil, nil, err)
	kept := func() time.Duration {
		got, err := b.Batches().Get(t.Context(), b.id)
		want(t, "get", nil, nil, err)
		return got.Until.Sub(got.Created).Round(time.Minute)
	}
	want(t, "how long it is kept", kept(), 24*time.Hour, nil)
	b.id = b.create(0)
	_, err = b.Batches().Close(t.Context(), b.id)
	want(t, "close", nil, nil, err)
	want(t, "how long one of many is kept", kept(), time.Minute, nil)
	are("100000")
	_, err = b.Batches().Create(t.Context(), 0, Draft{Tenant: "a"})
	wantError(t, err, millrace.ErrBadArgument)
	are("2")
	b.right()
}

// TestBatchWakesAReader: its message is one that a sleeping reader should get.
func TestBatchWakesAReader(t *testing.T) {
	t.Parallel()
	b := newBatchTest(t, open(t, Config{}), 1)
	b.add("a")
	held := b.take(1)
	_, err := b.shared.take(t.Context(), order{roll: "r", most: 1, visibility: time.Minute, enters: true})
	want(t, "a reader that sleeps", nil, nil, err)
	before, _ := readRaw(t, b.Queue)
	ack(t, b.Queue, held...)
	after, _ := readRaw(t, b.Queue)
	want(t, "readers that were woken", before.sleepers-after.sleepers, 1.0, nil)
}

// TestBatchIsPurged, by tenant.
func TestBatchIsPurged(t *testing.T) {
	t.Parallel()
	b := newBatchTest(t, open(t, Config{}), 40)
	b.add(strings.Repeat("a ", 40))
	want(t, "purge", nil, nil, second(b.PurgeTenant(t.Context(), "a")))
	b.ends(0, 0, 40, 0, 0)
}

// TestBatchAtTheTurn: a message that has expired when its turn comes counts as expired.
func TestBatchAtTheTurn(t *testing.T) {
	t.Parallel()
	b := newBatchTest(t, open(t, Config{}), 2)
	b.add("a")
	want(t, "write", nil, nil, second(b.Write(t.Context(), Draft{Tenant: "a", Batch: b.id, TTL: time.Millisecond})))
	passes(t, b.run.Client, 2*time.Millisecond)
	ack(t, b.Queue, b.take(1)...)
	b.ends(1, 0, 0, 1, 0)
}

// TestBatchOfADroppedMessage: one that dies and is dropped at once ends once. The clock went back, so it died first.
func TestBatchOfADroppedMessage(t *testing.T) {
	t.Parallel()
	b := newBatchTest(t, open(t, Config{}), 1)
	want(t, "keep one", nil, nil, b.Dead().Keep(t.Context(), 1, 0))
	write(t, b.Queue, "a:x")
	nack(t, b.Queue, NackConfig{Dead: true}, read(t, b.Queue, 1)...)
	there, _ := readRaw(t, b.Queue)
	for id := range there.dead {
		want(t, "a death in the future", nil, nil, do(t, b.run.Client, "ZADD", baseKey(b.name)+":dead", "99999999999999", id).Error())
	}
	b.add("a")
	nack(t, b.Queue, NackConfig{Dead: true}, b.take(1)...)
	wantSizes(t, b.Queue, 1, 0, 0, 1)
	b.counts(BatchDone, 1, 0, 1, 0, 0)
	b.ends(0, 1, 0, 0, 0)
}

// TestBatchesAreBrowsed: what pages show of messages of a batch is right.
func TestBatchesAreBrowsed(t *testing.T) {
	t.Parallel()
	b := newBatchTest(t, open(t, Config{Streams: 1, PerTenant: 1}), 0)
	for range 2 {
		want(t, "write", nil, nil, second(b.Write(t.Context(), Draft{Tenant: "a", Batch: b.id, Priority: 3})))
	}
	read(t, b.Queue, 1)
	for _, state := range []State{Waiting, InFlight} {
		messages, _, err := b.Browse(t.Context(), BrowseConfig{State: state})
		if err != nil || len(messages) != 1 {
			t.Fatalf("%s: %+v, %v", state, messages, err)
		}
		m := messages[0]
		want(t, string(state), []any{m.Tenant, m.Priority, m.Stream, m.Batch, m.DecodeError}, []any{"a", 3, 0, b.id, ""}, nil)
	}
}

// TestBatchOfATenantThatIsAlone: its stream is held until no other tenant was there for a minute, though another one was the last.
func TestBatchOfATenantThatIsAlone(t *testing.T) {
	t.Parallel()
	h := openHead(t, redistest.Shared(t).Client(t), 4)
	id, err := h.Batches().Create(t.Context(), 0, Draft{Tenant: "a"})
	want(t, "create", nil, nil, err)
	for _, body := range []string{"a1", "a2", "a3"} {
		h.write(Draft{Tenant: "a", Body: []byte(body), Batch: id})
	}
	h.take(3, "a1 a2", time.Hour)
	h.writeB(Draft{Priority: 4})
	ack(t, h.Queue, h.take(1, "b1", time.Hour)...)
	h.take(1, "", time.Hour)
	h.at(62 * time.Second)
	h.register()
	h.take(1, "a3", time.Hour)
}

// TestBatchesAreListed: those that are not done first, among messages with deadlines.
func TestBatchesAreListed(t *testing.T) {
	t.Parallel()
	b := newBatchTest(t, open(t, Config{}), 0)
	done := b.id
	want(t, "close", nil, nil, second(b.Batches().Close(t.Context(), done)))
	writeAll(t, b.Queue, 2*batchesPage, Draft{Tenant: "a", TTL: 2 * 24 * time.Hour})
	older := b.create(0)
	passes(t, b.run.Client, 2*time.Millisecond)
	newer := b.create(0)
	var got []string
	for one, err := range b.Batches().All(t.Context()) {
		want(t, "listing", nil, nil, err)
		got = append(got, one.ID)
	}
	want(t, "batches", got, []string{newer, older, done}, nil)
	for one, err := range openOn(t, b.run.Client, redistest.Name(t), Config{}).Batches().All(t.Context()) {
		t.Errorf("a queue that does not exist has %+v, %v", one, err)
	}
}

// TestBadBatches are refused before anything is written.
func TestBadBatches(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	for name, of := range map[string]struct {
		total int
		done  Draft
		err   error
	}{
		"a negative total": {-1, Draft{Tenant: "a"}, millrace.ErrBadArgument},
		"a large total":    {maxBatchTotal + 1, Draft{Tenant: "a"}, millrace.ErrBadArgument},
		"no tenant":        {1, Draft{}, millrace.ErrBadArgument},
		"a delay":          {1, Draft{Tenant: "a", Delay: time.Second}, millrace.ErrBadArgument},
		"a dedupe id":      {1, Draft{Tenant: "a", DedupeID: "x"}, millrace.ErrBadArgument},
		"a source":         {1, Draft{Tenant: "a", Source: "x", Position: 1}, millrace.ErrBadArgument},
		"a batch":          {1, Draft{Tenant: "a", Batch: "1795226400100321"}, millrace.ErrBadArgument},
		"a large end":      {1, Draft{Tenant: "a", Body: bytes.Repeat([]byte("x"), maxBatchEnd)}, millrace.ErrTooLarge},
	} {
		_, err := q.Batches().Create(t.Context(), of.total, of.done)
		t.Logf("%s: %v", name, err)
		wantError(t, err, of.err)
	}
	wantError(t, second(q.Write(t.Context(), Draft{Tenant: "a", Batch: "x"})), millrace.ErrBadArgument)
	wantError(t, second(q.Batches().Get(t.Context(), "x")), millrace.ErrBadArgument)
	wantError(t, second(q.Batches().Close(t.Context(), "1795226400100321;")), millrace.ErrBadArgument)
	wantError(t, second(q.Batches().Get(t.Context(), "1795226400100321")), millrace.ErrNotFound)
	wantError(t, second(q.Batches().Cancel(t.Context(), "1795226400100321")), millrace.ErrNotFound)
	want(t, "keys", len(dump(t, q)), 0, nil)
}

// TestBatchOfASource: a repeat of a position counts once, and its refusal leaves out no position.
func TestBatchOfASource(t *testing.T) {
	t.Parallel()
	b := newBatchTest(t, open(t, Config{}), 2)
	d := Draft{Tenant: "a", Batch: b.id, Source: "s", Position: 1}
	for range 3 {
		want(t, "write", nil, nil, second(b.Write(t.Context(), d)))
	}
	dedupe := Draft{Tenant: "a", Batch: b.id, DedupeID: "once"}
	for range 3 {
		want(t, "write", nil, nil, second(b.Write(t.Context(), dedupe)))
	}
	b.counts(BatchOpen, 2, 0, 0, 0, 0)
	d.Position = 2
	wantError(t, second(b.Write(t.Context(), d)), ErrBatch)
	at, err := b.Sources().Position(t.Context(), "s")
	want(t, "position", at, int64(1), err)
	d.Batch = ""
	want(t, "write", nil, nil, second(b.Write(t.Context(), d)))
	b.right()
}
