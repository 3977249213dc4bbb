package fairqueue

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/reqid"
	"github.com/millrace/millrace/internal/redis/script"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/internal/test/scripttest"
)

// A history plays one way in which a queue could lose or double a message, or
// break another promise to readers, and returns an error if it did.
type history struct {
	name string
	cfg  Config
	play func(h *hand) error
}

// hand plays histories.
type hand struct {
	t     *testing.T
	q     *Queue
	proxy *redistest.Proxy // between q and its server
	watch *Queue           // the same queue, straight
	err   error            // of a read
}

// lose has the reply of the next script call be lost.
func (h *hand) lose() { h.proxy.DropReply(evalsha) }

// read takes up to n messages for so long.
func (h *hand) read(n int, visibility time.Duration) []Message {
	h.t.Helper()
	messages, err := h.q.Read(h.t.Context(), ReadConfig{Max: n, Visibility: visibility})
	if err != nil && !errors.Is(err, ErrEmpty) {
		h.err = errors.Join(h.err, err)
	}
	return messages
}

// sizes returns an error unless so many messages wait, are in flight, delayed and dead.
func (h *hand) sizes(waiting, inFlight, delayed, dead int) error {
	h.t.Helper()
	s := stats(h.t, h.watch)
	if got, want := [4]int{s.Waiting, s.InFlight, s.Delayed, s.Dead}, [4]int{waiting, inFlight, delayed, dead}; got != want {
		return fmt.Errorf("waiting, in flight, delayed, dead = %v, want %v", got, want)
	}
	return nil
}

// batch creates a batch of a total, and writes so many messages of it.
func (h *hand) batch(total, written int) (id string, err error) {
	h.t.Helper()
	h.lose()
	id, err = h.q.Batches().Create(h.t.Context(), total, Draft{Tenant: "end"})
	if err == nil {
		_, err = h.q.WriteBatch(h.t.Context(), slices.Repeat([]Draft{{Tenant: "a", Batch: id}}, written)...)
	}
	return id, err
}

// ends returns how many messages say that a batch is done. It takes those that wait.
func (h *hand) ends(id string) (n int) {
	h.t.Helper()
	h.read(10, time.Hour)
	there, _ := readRaw(h.t, h.watch)
	for _, stored := range there.messages {
		if head, _, err := readHeader(stored); err == nil && strings.HasPrefix(head.batch, id+",") && head.batch != id+"," {
			n++
		}
	}
	return n
}

func just[T any](_ T, err error) error { return err }

func wrong(format string, values ...any) error { return fmt.Errorf(format, values...) }

var histories = []history{
	{"a write is repeated", Config{}, func(h *hand) error {
		h.lose()
		written, err := h.q.WriteBatch(h.t.Context(), Draft{Tenant: "a"}, Draft{Tenant: "b", Delay: time.Hour}, Draft{Tenant: "c", DedupeID: "x"})
		if err != nil || len(written) != 3 || written[2].Duplicate {
			return wrong("write = %+v, %w", written, err)
		}
		places, err := h.watch.Cancel(h.t.Context(), written[0].ID, written[1].ID, written[2].ID)
		if err != nil || !slices.Equal(places, []State{Waiting, Delayed, Waiting}) {
			return wrong("the messages that the writer was told of are %v, %w", places, err)
		}
		return h.sizes(0, 0, 0, 0)
	}},
	{"a read is repeated", Config{}, func(h *hand) error {
		write(h.t, h.watch, "a:1 b:2 c:3 d:4")
		h.lose()
		if got := h.read(2, time.Hour); len(got) != 2 {
			return wrong("read %d messages, want 2", len(got))
		}
		return h.sizes(2, 2, 0, 0)
	}},
	{"a read that settles is repeated", Config{}, func(h *hand) error {
		write(h.t, h.watch, "a:1 b:2 c:3 d:4")
		first := h.read(2, time.Hour)
		h.lose()
		answers, err := h.q.shared.work(h.t.Context(), []workRequest{{
			q: h.q, max: 1, visibility: time.Hour, settle: []settlement{{first[0].receipt(), "a", ""}},
		}}, false)
		if err != nil || len(answers[0].messages) != 1 || answers[0].verdicts[0] != 1 {
			return wrong("work = %+v, %w", answers, err)
		}
		return h.sizes(1, 2, 0, 0)
	}},
	{"an ack is repeated", Config{}, func(h *hand) error {
		write(h.t, h.watch, "a:1 b:2")
		got := h.read(2, time.Hour)
		h.lose()
		if n, err := h.q.Ack(h.t.Context(), receipts(got)...); n != 2 || err != nil {
			return wrong("ack = %d, %w", n, err)
		}
		return h.sizes(0, 0, 0, 0)
	}},
	{"a nack is repeated", Config{}, func(h *hand) error {
		write(h.t, h.watch, "a:1 b:2 c:3")
		for i, m := range h.read(3, time.Hour) {
			h.lose()
			if _, err := h.q.Nack(h.t.Context(), []NackConfig{{}, {Delay: time.Hour}, {Dead: true}}[i], m.Receipt); err != nil {
				return wrong("nack: %w", err)
			}
		}
		return h.sizes(1, 0, 1, 1)
	}},
	{"a cancel is repeated", Config{}, func(h *hand) error {
		ids := write(h.t, h.watch, "a:1 b:2")
		h.lose()
		places, err := h.q.Cancel(h.t.Context(), ids...)
		if err != nil || !slices.Equal(places, []State{Waiting, Waiting}) {
			return wrong("cancel = %v, %w", places, err)
		}
		return h.sizes(0, 0, 0, 0)
	}},
	{"a redrive and a purge are repeated", Config{}, func(h *hand) error {
		ids := write(h.t, h.watch, "a:1 b:2")
		for _, m := range h.read(2, time.Hour) {
			if _, err := h.q.Nack(h.t.Context(), NackConfig{Dead: true}, m.Receipt); err != nil {
				return err
			}
		}
		h.lose()
		if n, err := h.q.Dead().Redrive(h.t.Context(), ids[0]); n != 1 || err != nil {
			return wrong("redrive = %d, %w", n, err)
		}
		h.lose()
		if n, err := h.q.Dead().Purge(h.t.Context(), ids[1]); n != 1 || err != nil {
			return wrong("purge = %d, %w", n, err)
		}
		return h.sizes(1, 0, 0, 0)
	}},
	{"a retry is repeated", Config{}, func(h *hand) error {
		ids := write(h.t, h.watch, "a:1 b:2")
		if _, err := h.q.Nack(h.t.Context(), NackConfig{Delay: time.Hour}, receipts(h.read(2, time.Hour))...); err != nil {
			return err
		}
		h.lose()
		if n, _, err := h.q.Retry(h.t.Context(), SearchConfig{}, ids[0]); n != 1 || err != nil {
			return wrong("retry = %d, %w", n, err)
		}
		return h.sizes(1, 0, 1, 0)
	}},
	{"calls that state what is so are repeated", Config{}, func(h *hand) error {
		write(h.t, h.watch, "a:1 b:2")
		m := h.read(1, time.Hour)[0]
		for _, call := range []func() error{
			func() error { return h.q.Resize(h.t.Context(), 8, 2) },
			func() error { return h.q.Pause(h.t.Context()) },
			func() error { return h.q.Resume(h.t.Context()) },
			func() error { return h.q.Dead().Keep(h.t.Context(), 1, 0) },
			func() error { _, err := h.q.Stats(h.t.Context()); return err },
			func() error { _, err := h.q.Extend(h.t.Context(), time.Hour, m.Receipt); return err },
			func() error { _, err := h.q.Len(h.t.Context()); return err },
		} {
			h.lose()
			if err := call(); err != nil {
				return err
			}
		}
		if err := h.sizes(1, 1, 0, 0); err != nil {
			return err
		}
		h.lose()
		if _, err := h.q.Delete(h.t.Context()); err != nil {
			return err
		}
		if left := dump(h.t, h.watch); len(left) > 0 {
			return wrong("Delete left %v", left)
		}
		return nil
	}},
	{"a stale receipt", Config{}, func(h *hand) error {
		write(h.t, h.watch, "a:1")
		old := h.read(1, minVisibility)[0]
		again := eventually(h.t, h.q)
		ctx := h.t.Context()
		if good, err := h.q.Extend(ctx, time.Hour, old.Receipt); err != nil || good[0] {
			return wrong("a stale receipt was extended: %v, %w", good, err)
		}
		if n, err := h.q.Ack(ctx, old.Receipt); n != 0 || !errors.Is(err, millrace.ErrStale) {
			return wrong("a stale receipt was acknowledged: %d, %w", n, err)
		}
		for _, cfg := range []NackConfig{{}, {Delay: time.Hour}, {Dead: true}} {
			if _, err := h.q.Nack(ctx, cfg, old.Receipt); !errors.Is(err, millrace.ErrStale) {
				return wrong("a stale receipt was given back: %w", err)
			}
		}
		if err := h.sizes(0, 1, 0, 0); err != nil {
			return err
		}
		if n, err := h.q.Ack(ctx, again.Receipt); n != 1 || err != nil {
			return wrong("ack of the good receipt = %d, %w", n, err)
		}
		return h.sizes(0, 0, 0, 0)
	}},
	// A failover may cause this: the delivery is forgotten and made again by a server whose
	// clock shows the same time. The first one's receipt must not fit the second one.
	{"the same delivery is made twice", Config{}, func(h *hand) error {
		write(h.t, h.watch, "a:1")
		before := map[string]string{}
		for part := range dump(h.t, h.watch) {
			text, err := do(h.t, h.watch.run.Client, "DUMP", baseKey(h.q.name)+part).ToString()
			if err != nil {
				return err
			}
			before[part] = text
		}
		first := h.read(1, time.Hour)[0]
		for part, text := range before {
			if err := do(h.t, h.watch.run.Client, "RESTORE", baseKey(h.q.name)+part, "0", text, "REPLACE").Error(); err != nil {
				return err
			}
		}
		second := h.read(1, time.Hour)[0]
		if first.ID != second.ID || first.Attempt != second.Attempt {
			return wrong("deliveries %+v and %+v", first, second)
		}
		if n, err := h.q.Ack(h.t.Context(), first.Receipt); n != 0 || !errors.Is(err, millrace.ErrStale) {
			return wrong("the first delivery's receipt settled the second one: %d, %w", n, err)
		}
		return h.sizes(0, 1, 0, 0)
	}},
	{"a deadline comes", Config{}, func(h *hand) error {
		ctx := h.t.Context()
		for _, d := range []Draft{
			{Tenant: "a", Body: []byte("late"), TTL: 5 * time.Millisecond},
			{Tenant: "a", Body: []byte("in time"), TTL: time.Hour},
		} {
			if _, err := h.q.Write(ctx, d); err != nil {
				return err
			}
		}
		passes(h.t, h.watch.run.Client, 8*time.Millisecond)
		for range 3 {
			for _, m := range h.read(1, time.Hour) {
				if string(m.Body) != "in time" {
					return wrong("%q was delivered after its deadline", m.Body)
				}
			}
		}
		return nil
	}},
	{"a batch ends", Config{}, func(h *hand) error {
		id, err := h.batch(2, 3)
		if !errors.Is(err, ErrBatch) {
			return wrong("a third message of two: %w", err)
		}
		held := h.read(2, time.Hour)
		if n := h.ends(id); n != 0 {
			return wrong("there are %d ends of a batch whose messages are in flight", n)
		}
		h.lose()
		if _, err := h.q.Ack(h.t.Context(), receipts(held)...); err != nil {
			return err
		}
		if n := h.ends(id); n != 1 {
			return wrong("there are %d ends of a batch, want 1", n)
		}
		return h.sizes(0, 1, 0, 0)
	}},
	{"a message of a batch is redriven", Config{}, func(h *hand) error {
		id, err := h.batch(2, 2)
		held := h.read(2, time.Hour)
		_, failed := h.q.Nack(h.t.Context(), NackConfig{Dead: true}, held[0].Receipt)
		_, redriven := h.q.Dead().Redrive(h.t.Context(), held[0].ID)
		_, acked := h.q.Ack(h.t.Context(), receipts(h.read(1, time.Hour))...)
		if n := h.ends(id); n != 0 {
			return wrong("there are %d ends of a batch of which a message is in flight", n)
		}
		_, last := h.q.Ack(h.t.Context(), held[1].Receipt)
		if n := h.ends(id); n != 1 {
			return wrong("there are %d ends of a batch, want 1", n)
		}
		if wrongs, err := h.watch.Check(h.t.Context()); len(wrongs) > 0 || err != nil {
			return wrong("the queue is wrong: %q, %w", wrongs, err)
		}
		return errors.Join(err, failed, redriven, acked, last)
	}},
	{"a batch is late", Config{}, func(h *hand) error {
		id, err := h.batch(2, 2)
		held := h.read(2, time.Hour)
		if err := do(h.t, h.watch.run.Client, "ZADD", baseKey(h.q.name)+":deadlines", "1", batchPrefix+id).Error(); err != nil {
			return err
		}
		if _, err := h.watch.tend(h.t.Context(), ""); err != nil {
			return err
		}
		_, acked := h.q.Ack(h.t.Context(), receipts(held)...)
		if got, err := h.watch.Batches().Get(h.t.Context(), id); err != nil || got.Handled != 0 || got.Left != 2 {
			return wrong("a batch that was done before its messages = %+v, %w", got, err)
		}
		if n := h.ends(id); n != 1 {
			return wrong("there are %d ends of a batch, want 1", n)
		}
		return errors.Join(err, acked)
	}},
	{"a batch is cancelled", Config{}, func(h *hand) error {
		id, err := h.batch(0, 3)
		held := h.read(1, time.Hour)
		h.lose()
		_, cancelled := h.q.Batches().Cancel(h.t.Context(), id)
		_, nacked := h.q.Nack(h.t.Context(), NackConfig{}, receipts(held)...)
		if err := h.sizes(2, 0, 0, 0); err != nil { // the others are removed at their turns
			return err
		}
		for _, m := range h.read(3, time.Hour) {
			if m.Batch != "" {
				return wrong("a message of a cancelled batch was delivered: %+v", m)
			}
		}
		if n := h.ends(id); n != 1 {
			return wrong("there are %d ends of a batch, want 1", n)
		}
		return errors.Join(err, cancelled, nacked)
	}},
	{"a message always fails", Config{MaxAttempts: 2}, func(h *hand) error {
		write(h.t, h.watch, "a:1")
		for range 2 {
			for _, m := range h.read(1, time.Hour) {
				if _, err := h.q.Nack(h.t.Context(), NackConfig{}, m.Receipt); err != nil {
					return err
				}
			}
		}
		return h.sizes(0, 0, 0, 1)
	}},
	{"a message kills its readers", Config{MaxAttempts: 2}, func(h *hand) error {
		write(h.t, h.watch, "a:1")
		for range 2 {
			redistest.Eventually(h.t, "it is read", func() bool { return len(h.read(1, minVisibility)) == 1 })
			passes(h.t, h.watch.run.Client, minVisibility+time.Millisecond)
		}
		redistest.Eventually(h.t, "it dies or comes again", func() bool {
			return len(h.read(1, time.Hour)) == 1 || stats(h.t, h.watch).Dead == 1
		})
		return h.sizes(0, 0, 0, 1)
	}},
	{"nobody is there for a message", Config{MaxAttempts: 2}, func(h *hand) error {
		write(h.t, h.watch, "a:1")
		for range 5 {
			m := h.read(1, time.Hour)
			if len(m) != 1 || m[0].Attempt != 1 {
				return wrong("read %+v, want it at its first attempt", m)
			}
			h.q.handBack(h.t.Context(), m)
		}
		return h.sizes(1, 0, 0, 0)
	}},
	{"flows take turns", Config{}, func(h *hand) error {
		for i := range 9 {
			write(h.t, h.watch, fmt.Sprintf("a:%d", i))
		}
		h.read(3, time.Hour)
		write(h.t, h.watch, "b:1 b:2 b:3")
		seen := 0
		for range 6 {
			if m := h.read(1, time.Hour); len(m) == 1 && m[0].Tenant == "b" {
				seen++
			}
		}
		if seen != 3 {
			return wrong("%d of 6 deliveries are of the flow that came later, want every other", seen)
		}
		return nil
	}},
	{"a tenant's messages spread", Config{Streams: 4, PerTenant: 4}, func(h *hand) error {
		write(h.t, h.watch, "a:1 a:2 a:3 a:4 a:5 a:6 a:7 a:8")
		for _, one := range stats(h.t, h.watch).Flows {
			if one.Waiting != 2 {
				return wrong("stream %d has %d messages of 8 over 4 streams", one.Stream, one.Waiting)
			}
		}
		return nil
	}},
	{"a writer knows the old number of streams", Config{Streams: 8, PerTenant: 1}, func(h *hand) error {
		write(h.t, h.q, "a:1")
		ack(h.t, h.q, h.read(1, time.Hour)...)
		if err := h.watch.Resize(h.t.Context(), 1, 0); err != nil {
			return err
		}
		for i := range 8 {
			write(h.t, h.q, fmt.Sprintf("tenant%d:x", i))
		}
		for _, m := range h.read(10, time.Hour) {
			if m.Stream != 0 {
				return wrong("a message is in stream %d, which is no more", m.Stream)
			}
		}
		return nil
	}},
	{"the queue is paused", Config{}, func(h *hand) error {
		write(h.t, h.watch, "a:1")
		if err := h.q.Pause(h.t.Context()); err != nil {
			return err
		}
		if m, err := h.q.Read(h.t.Context(), ReadConfig{}); !errors.Is(err, ErrPaused) {
			return wrong("read of a paused queue = %v, %w", m, err)
		}
		return nil
	}},
	{"the same is written twice", Config{}, func(h *hand) error {
		for range 2 {
			if _, err := h.q.Write(h.t.Context(), Draft{Tenant: "a", DedupeID: "x"}); err != nil {
				return err
			}
		}
		return h.sizes(1, 0, 0, 0)
	}},
	{"all keys stay for as long as the queue is there", Config{}, func(h *hand) error {
		write(h.t, h.watch, "a:1 b:2")
		for _, m := range h.read(2, time.Hour) {
			if _, err := h.watch.Ack(h.t.Context(), m.Receipt); err != nil {
				return wrong("ack: %w", err)
			}
		}
		if _, err := h.watch.call(h.t.Context(), "tend", ""); err != nil {
			return err
		}
		for _, key := range library.Keys(library.Script("delete"), baseKey(h.q.name), nil) {
			if strings.Contains(key, "}:lanes:") { // the runner makes those where slots can move
				continue
			}
			if n, err := do(h.t, h.watch.run.Client, "EXISTS", key).AsInt64(); err != nil || n != 1 {
				return wrong("the key %s is missing, %w", key, err)
			}
		}
		return nil
	}},
	{"a position is written again, by another process", Config{}, func(h *hand) error {
		one, two := Draft{Tenant: "a", Source: "s", Position: 1}, Draft{Tenant: "b", Source: "s", Position: 2}
		for _, err := range []error{
			just(h.watch.WriteBatch(h.t.Context(), one)),
			just(h.q.WriteBatch(h.t.Context(), one, two)),
			just(h.watch.WriteBatch(h.t.Context(), one)),
			just(h.watch.WriteBatch(h.t.Context(), two)),
		} {
			if err != nil {
				return wrong("write: %w", err)
			}
		}
		return h.sizes(2, 0, 0, 0)
	}},
	{"a position is left out", Config{}, func(h *hand) error {
		if _, err := h.q.Write(h.t.Context(), Draft{Tenant: "a", Source: "s", Position: 1}); err != nil {
			return wrong("write: %w", err)
		}
		if _, err := h.q.Write(h.t.Context(), Draft{Tenant: "a", Source: "s", Position: 3}); !errors.Is(err, ErrGap) {
			return wrong("write of position 3 after 1 = %w, want ErrGap", err)
		}
		return h.sizes(1, 0, 0, 0)
	}},
	{"a sleeping reader", Config{}, func(h *hand) error {
		write(h.t, h.watch, "a:first") // the first write of a queue wakes everybody
		ack(h.t, h.watch, h.read(1, time.Hour)...)
		return h.wakes(func() error { write(h.t, h.watch, "a:x"); return nil })
	}},
	{"a sleeping reader and a message that is given back", Config{MaxAttempts: 100}, func(h *hand) error {
		write(h.t, h.watch, "a:x")
		m := h.read(1, time.Hour)[0]
		return h.wakes(func() error {
			_, err := h.watch.Nack(h.t.Context(), NackConfig{}, m.Receipt)
			return err
		}, func(again Message) { m = again })
	}},
	{"a sleeping reader and a retry", Config{}, func(h *hand) error {
		var ids []string
		for range 5 {
			id, err := h.watch.Write(h.t.Context(), Draft{Tenant: "a", Delay: time.Hour})
			if err != nil {
				return err
			}
			ids = append(ids, id)
		}
		return h.wakes(func() error {
			_, _, err := h.watch.Retry(h.t.Context(), SearchConfig{}, ids[0])
			ids = ids[1:]
			return err
		})
	}},
	{"a sleeping reader and a delayed message", Config{}, func(h *hand) error {
		return h.wakes(func() error {
			_, err := h.watch.Write(h.t.Context(), Draft{Tenant: "a", Delay: 100 * time.Millisecond})
			return err
		})
	}},
}

// wakes measures how long a sleeping reader takes to get the message that a call makes available, as a
// median. Each message is acknowledged unless keep takes it.
func (h *hand) wakes(bring func() error, keep ...func(Message)) error {
	var took []time.Duration
	for range 5 {
		got := make(chan Message)
		go func() { got <- eventually(h.t, h.q) }()
		asleep(h.t, h.q)
		start := time.Now()
		if err := bring(); err != nil {
			return err
		}
		m := <-got
		took = append(took, time.Since(start))
		if len(keep) > 0 {
			keep[0](m)
		} else {
			ack(h.t, h.watch, m)
		}
	}
	slices.Sort(took)
	if took[2] > 400*time.Millisecond {
		return wrong("the reader got it after %v: it was not woken", took)
	}
	return nil
}

// asleep waits until a reader of this process sleeps: it has asked, and will not ask
// again by itself for a second.
func asleep(t *testing.T, q *Queue) {
	t.Helper()
	s := &q.shared.sleepers
	redistest.Eventually(t, "the reader sleeps", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.waiting) > 0 && s.cancel != nil
	})
}

// play plays a history on a queue whose scripts are these.
func play(t *testing.T, hist history, scripts *script.Library) error {
	t.Helper()
	server := redistest.Shared(t)
	proxy := redistest.NewProxy(t, server.Addr())
	name := redistest.Name(t)
	h := &hand{t: t, q: openOn(t, proxy.Client(t), name, hist.cfg), proxy: proxy, watch: openOn(t, server.Client(t), name, hist.cfg)}
	h.q.run.Scripts, h.watch.run.Scripts = scripts, scripts
	lanes := &reqid.Lanes{} // the first write makes the lane of all calls known
	h.q.run.Lanes, h.watch.run.Lanes = lanes, lanes
	scripttest.Load(t, h.watch.run.Client, scripts)
	err := hist.play(h)
	return errors.Join(h.err, err)
}

// TestHistories plays them all on the scripts as they are.
func TestHistories(t *testing.T) {
	t.Parallel()
	for _, hist := range histories {
		t.Run(hist.name, func(t *testing.T) {
			t.Parallel()
			if err := play(t, hist, library); err != nil {
				t.Error(err)
			}
		})
	}
}
