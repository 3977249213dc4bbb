package fairqueue

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/redistest"
	"github.com/millrace/millrace/internal/script"
	"github.com/millrace/millrace/internal/script/scripttest"
)

// A history plays one way in which a queue could lose a message, double it, or
// do what a reader must not do, and returns an error if it did.
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

// evalsha matches the script calls of a queue.
func evalsha(cmd []string) bool { return strings.EqualFold(cmd[0], "EVALSHA") }

// read takes up to n messages for so long.
func (h *hand) read(n int, visibility time.Duration) []Message {
	h.t.Helper()
	messages, err := h.q.Read(h.t.Context(), ReadConfig{Max: n, Visibility: visibility})
	if err != nil && !errors.Is(err, ErrEmpty) {
		h.err = errors.Join(h.err, err)
	}
	return messages
}

// sizes returns an error unless so many messages wait, are in flight, set aside
// and dead, and so many of those that wait are counted.
func (h *hand) sizes(waiting, inFlight, delayed, dead int) error {
	h.t.Helper()
	s := stats(h.t, h.watch)
	n, err := h.watch.Len(h.t.Context())
	if got, want := [5]int{s.Waiting, s.InFlight, s.Delayed, s.Dead, n}, [5]int{waiting, inFlight, delayed, dead, waiting}; got != want {
		return fmt.Errorf("waiting, in flight, delayed, dead, Len = %v, want %v (%w)", got, want, err)
	}
	return err
}

func wrong(format string, values ...any) error { return fmt.Errorf(format, values...) }

var histories = []history{
	{"a write is repeated", Config{}, func(h *hand) error {
		h.lose()
		written, err := h.q.WriteBatch(h.t.Context(), Draft{Tenant: "a"}, Draft{Tenant: "b", Delay: time.Hour}, Draft{Tenant: "c", DedupeID: "x"})
		if err != nil || len(written) != 3 || written[2].Duplicate {
			return wrong("write = %+v, %w", written, err)
		}
		places, err := h.watch.Cancel(h.t.Context(), written[0].ID, written[1].ID, written[2].ID)
		if err != nil || !slices.Equal(places, []Place{Waiting, Delayed, Waiting}) {
			return wrong("the messages that the writer was told of are %v, %w", places, err)
		}
		return h.sizes(0, 0, 0, 0)
	}},
	{"a read is repeated", Config{}, func(h *hand) error {
		write(h.t, h.watch, "a:1 b:2 c:3 d:4")
		h.lose()
		got := h.read(2, time.Hour)
		if len(got) != 2 {
			return wrong("read %d messages, want 2", len(got))
		}
		return h.sizes(2, 2, 0, 0)
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
			if err := h.q.Nack(h.t.Context(), m.Receipt, []NackConfig{{}, {Delay: time.Hour}, {Dead: true}}[i]); err != nil {
				return wrong("nack: %w", err)
			}
		}
		return h.sizes(1, 0, 1, 1)
	}},
	{"a cancel is repeated", Config{}, func(h *hand) error {
		ids := write(h.t, h.watch, "a:1 b:2")
		h.lose()
		places, err := h.q.Cancel(h.t.Context(), ids...)
		if err != nil || !slices.Equal(places, []Place{Waiting, Waiting}) {
			return wrong("cancel = %v, %w", places, err)
		}
		return h.sizes(0, 0, 0, 0)
	}},
	{"a redrive is repeated", Config{}, func(h *hand) error {
		ids := write(h.t, h.watch, "a:1")
		if err := h.q.Nack(h.t.Context(), h.read(1, time.Hour)[0].Receipt, NackConfig{Dead: true}); err != nil {
			return err
		}
		h.lose()
		if n, err := h.q.Redrive(h.t.Context(), ids...); n != 1 || err != nil {
			return wrong("redrive = %d, %w", n, err)
		}
		return h.sizes(1, 0, 0, 0)
	}},
	{"an extend is repeated", Config{}, func(h *hand) error {
		write(h.t, h.watch, "a:1")
		m := h.read(1, time.Hour)[0]
		h.lose()
		if good, err := h.q.Extend(h.t.Context(), time.Hour, m.Receipt); err != nil || !good[0] {
			return wrong("extend = %v, %w", good, err)
		}
		return h.sizes(0, 1, 0, 0)
	}},
	{"calls that state what is so are repeated", Config{}, func(h *hand) error {
		ids := write(h.t, h.watch, "a:1 b:2")
		if err := h.q.Nack(h.t.Context(), h.read(1, time.Hour)[0].Receipt, NackConfig{Dead: true}); err != nil {
			return err
		}
		for _, call := range []func() error{
			func() error { return h.q.Resize(h.t.Context(), 8, 2) },
			func() error { return h.q.Pause(h.t.Context()) },
			func() error { return h.q.Resume(h.t.Context()) },
			func() error { _, err := h.q.Stats(h.t.Context()); return err },
			func() error { _, err := h.q.Purge(h.t.Context(), ids...); return err },
		} {
			h.lose()
			if err := call(); err != nil {
				return err
			}
		}
		if err := h.sizes(1, 0, 0, 0); err != nil {
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
		old := h.read(1, MinVisibility)[0]
		again := eventually(h.t, h.q)
		ctx := h.t.Context()
		if good, err := h.q.Extend(ctx, time.Hour, old.Receipt); err != nil || good[0] {
			return wrong("a stale receipt was extended: %v, %w", good, err)
		}
		if n, err := h.q.Ack(ctx, old.Receipt); n != 0 || !errors.Is(err, ErrStale) {
			return wrong("a stale receipt was acknowledged: %d, %w", n, err)
		}
		for _, cfg := range []NackConfig{{}, {Delay: time.Hour}, {Dead: true}} {
			if err := h.q.Nack(ctx, old.Receipt, cfg); !errors.Is(err, ErrStale) {
				return wrong("a stale receipt was given back: %w", err)
			}
		}
		if err := h.sizes(0, 1, 0, 0); err != nil {
			return err
		}
		if n, err := h.q.Ack(ctx, again.Receipt); n != 1 || err != nil {
			return wrong("ack of the good receipt = %d, %w", n, err)
		}
		for _, receipt := range []string{old.Receipt, again.Receipt} {
			if n, err := h.q.Ack(ctx, receipt); n != 0 || !errors.Is(err, ErrStale) {
				return wrong("ack of what is gone = %d, %w", n, err)
			}
		}
		return h.sizes(0, 0, 0, 0)
	}},
	{"a message that came again is in one place", Config{}, func(h *hand) error {
		ids := write(h.t, h.watch, "a:1 a:2")
		for i, m := range h.read(2, time.Hour) {
			if err := h.q.Nack(h.t.Context(), m.Receipt, []NackConfig{{}, {Delay: time.Hour}}[i]); err != nil {
				return err
			}
		}
		places, err := h.q.Cancel(h.t.Context(), ids...)
		if err != nil || !slices.Equal(places, []Place{Waiting, Delayed}) {
			return wrong("cancel = %v, %w", places, err)
		}
		return h.sizes(0, 0, 0, 0)
	}},
	{"a reader dies", Config{}, func(h *hand) error {
		write(h.t, h.watch, "a:1 b:2")
		h.read(2, 20*time.Millisecond)
		passes(h.t, h.watch.run.Client, 21*time.Millisecond)
		got := h.read(10, time.Hour)
		if len(got) != 2 || got[0].Attempt != 2 || got[1].Attempt != 2 {
			return wrong("read %+v, want both messages at attempt 2", got)
		}
		return nil
	}},
	{"a reader is slow", Config{}, func(h *hand) error {
		write(h.t, h.watch, "a:1 a:2")
		got := h.read(2, 20*time.Millisecond)
		if good, err := h.q.Extend(h.t.Context(), time.Hour, got[0].Receipt); err != nil || !good[0] {
			return wrong("extend = %v, %w", good, err)
		}
		passes(h.t, h.watch.run.Client, 21*time.Millisecond)
		again := h.read(10, time.Hour)
		if len(again) != 1 || again[0].ID != got[1].ID {
			return wrong("read %+v, want the message that was not extended", again)
		}
		return nil
	}},
	{"a deadline comes", Config{Streams: 1}, func(h *hand) error {
		ctx := h.t.Context()
		for _, d := range []Draft{
			{Tenant: "a", Body: []byte("late"), Deadline: 5 * time.Millisecond},
			{Tenant: "a", Body: []byte("in time"), Deadline: time.Hour},
			{Tenant: "a", Body: []byte("later"), Delay: 6 * time.Millisecond, Deadline: 5 * time.Millisecond},
		} {
			if _, err := h.q.Write(ctx, d); err != nil {
				return err
			}
		}
		passes(h.t, h.watch.run.Client, 8*time.Millisecond)
		for range 3 {
			for _, m := range h.read(10, time.Hour) {
				if string(m.Body) != "in time" {
					return wrong("%q was delivered after its deadline", m.Body)
				}
			}
		}
		return h.sizes(0, 1, 0, 0)
	}},
	{"a message always fails", Config{MaxAttempts: 2}, func(h *hand) error {
		write(h.t, h.watch, "a:1")
		for range 2 {
			for _, m := range h.read(1, time.Hour) {
				if err := h.q.Nack(h.t.Context(), m.Receipt, NackConfig{}); err != nil {
					return err
				}
			}
		}
		return h.sizes(0, 0, 0, 1)
	}},
	{"a message kills its readers", Config{MaxAttempts: 2}, func(h *hand) error {
		write(h.t, h.watch, "a:1")
		for range 2 {
			h.read(1, MinVisibility)
			passes(h.t, h.watch.run.Client, MinVisibility+time.Millisecond)
		}
		if m := h.read(1, time.Hour); len(m) > 0 {
			return wrong("read %+v, want it dead", m)
		}
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
	{"what waits is counted", Config{Streams: 2, PerTenant: 2}, func(h *hand) error {
		ctx := h.t.Context()
		ids := write(h.t, h.watch, "a:1 a:2 a:3 a:4 a:5 a:6")
		flying := h.read(2, time.Hour)
		if err := h.sizes(4, 2, 0, 0); err != nil {
			return err
		}
		if _, err := h.q.Cancel(ctx, ids[4], ids[5]); err != nil {
			return err
		}
		if err := h.sizes(2, 2, 0, 0); err != nil {
			return err
		}
		if err := h.q.Nack(ctx, flying[0].Receipt, NackConfig{}); err != nil {
			return err
		}
		if err := h.sizes(3, 1, 0, 0); err != nil {
			return err
		}
		if n := len(h.read(10, time.Hour)); n != 3 {
			return wrong("read %d messages, want 3", n)
		}
		left := dump(h.t, h.watch)
		if left[":waits"] != "" {
			return wrong("streams are counted as if messages waited in them")
		}
		return h.sizes(0, 4, 0, 0)
	}},
	{"a tenant's messages spread", Config{Streams: 4, PerTenant: 4}, func(h *hand) error {
		write(h.t, h.watch, "a:1 a:2 a:3 a:4 a:5 a:6 a:7 a:8")
		for _, one := range stats(h.t, h.watch).Streams {
			if one.Waiting != 2 {
				return wrong("stream %d has %d messages of 8 over 4 streams", one.Index, one.Waiting)
			}
		}
		return nil
	}},
	{"what is in flight does not count as waiting", Config{Streams: 2, PerTenant: 2}, func(h *hand) error {
		write(h.t, h.watch, "a:1 a:2 a:3 a:4")
		m := h.read(1, time.Hour)[0] // its stream has one that waits, the other has two
		write(h.t, h.watch, "a:5")
		for _, one := range stats(h.t, h.watch).Streams {
			if one.Waiting != 2 {
				return wrong("waiting in stream %d = %d, want the new one in stream %d, where one was in flight", one.Index, one.Waiting, m.Stream)
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
		h.read(1, time.Hour) // drops the others
		for i := range 8 {
			write(h.t, h.q, fmt.Sprintf("tenant%d:x", i))
		}
		if err := h.sizes(8, 0, 0, 0); err != nil {
			return err
		}
		for _, m := range h.read(10, time.Hour) {
			if m.Stream != 0 {
				return wrong("a message is in stream %d, which is no more", m.Stream)
			}
		}
		return nil
	}},
	{"old streams are read after a shrink", Config{Streams: 8, PerTenant: 1}, func(h *hand) error {
		for i := range 20 {
			write(h.t, h.watch, fmt.Sprintf("tenant%d:x", i))
		}
		flying := h.read(5, time.Hour)
		if err := h.watch.Resize(h.t.Context(), 1, 0); err != nil {
			return err
		}
		for {
			some := h.read(3, time.Hour)
			if len(some) == 0 {
				break
			}
			flying = append(flying, some...)
		}
		if err := h.sizes(0, 20, 0, 0); err != nil {
			return err
		}
		if n, err := h.q.Ack(h.t.Context(), receipts(flying)...); n != 20 || err != nil {
			return wrong("ack = %d, %w", n, err)
		}
		h.read(1, time.Hour)
		h.read(1, time.Hour)
		if span, err := do(h.t, h.watch.run.Client, "HGET", baseKey(h.q.name), "span").AsInt64(); err != nil || span != 1 {
			return wrong("streams that are served in the end = %d, %w", span, err)
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
	{"pages are turned while messages are taken", Config{Streams: 2, PerTenant: 2}, func(h *hand) error {
		write(h.t, h.watch, "a:1 a:2 a:3 a:4 a:5 a:6")
		seen := map[string]int{}
		cfg := BrowseConfig{Max: 1}
		for turn := 0; turn == 0 || cfg.After != ""; turn++ {
			page, err := h.q.Browse(h.t.Context(), cfg)
			if err != nil || turn > 10 {
				return wrong("page %d: %w", turn, err)
			}
			for _, m := range page.Messages {
				seen[string(m.Body)]++
			}
			if turn == 0 {
				h.read(4, time.Hour) // two of each stream, one of which was seen
			}
			cfg.After = page.Next
		}
		if len(seen) != 3 {
			return wrong("saw %v, want the first and those two that wait on", seen)
		}
		return nil
	}},
	{"readers take turns", Config{Streams: 4, PerTenant: 4}, func(h *hand) error {
		write(h.t, h.watch, "a:1 a:2 a:3 a:4 a:5 a:6 a:7 a:8")
		for turn := range 8 {
			if m := h.read(1, time.Hour)[0]; m.Stream != turn%4 {
				return wrong("turn %d is stream %d's", turn, m.Stream)
			}
		}
		return nil
	}},
	{"a sleeping reader", Config{}, func(h *hand) error {
		return h.quickest(func() error { write(h.t, h.watch, "a:x"); return nil })
	}},
	{"a sleeping reader and a message that is given back", Config{MaxAttempts: 100}, func(h *hand) error {
		write(h.t, h.watch, "a:x")
		m := h.read(1, time.Hour)[0]
		return h.quickest(func() error {
			err := h.watch.Nack(h.t.Context(), m.Receipt, NackConfig{})
			return err
		}, func(again Message) { m = again })
	}},
	{"a sleeping reader and a delayed message", Config{}, func(h *hand) error {
		return h.quickest(func() error {
			_, err := h.watch.Write(h.t.Context(), Draft{Tenant: "a", Delay: 100 * time.Millisecond})
			return err
		})
	}},
}

// quickest measures how long a sleeping reader takes to get what a call brings,
// at best. Each message is acknowledged unless keep takes it.
func (h *hand) quickest(bring func() error, keep ...func(Message)) error {
	best := time.Hour
	for range 2 {
		got := make(chan Message)
		go func() { got <- eventually(h.t, h.q) }()
		h.asleep()
		start := time.Now()
		if err := bring(); err != nil {
			return err
		}
		m := <-got
		best = min(best, time.Since(start))
		if len(keep) > 0 {
			keep[0](m)
		} else {
			ack(h.t, h.watch, m)
		}
	}
	if best > 400*time.Millisecond {
		return wrong("the reader got it after %v at best: it was not woken", best)
	}
	return nil
}

// asleep waits until the reader of this history sleeps, or is about to: it has
// asked, and will not ask again by itself for a second.
func (h *hand) asleep() {
	h.t.Helper()
	desk := h.q.desk
	redistest.Eventually(h.t, "the reader sleeps", func() bool {
		desk.mu.Lock()
		defer desk.mu.Unlock()
		return desk.asleep && len(desk.sleeping) > 0 && desk.calls == 0
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

// protections are what keeps the histories as they should be, and how to take
// each out. Those named must notice.
var protections = []struct {
	name, old, replacement string
	histories              []string
}{
	{
		"a repeated call is answered from memory", "answered = string.sub(last, 28)", "answered = false",
		[]string{"a write is repeated", "a read is repeated", "an ack is repeated", "a nack is repeated", "a cancel is repeated", "a redrive is repeated"},
	},
	{
		"a receipt is for an entry in flight", "redis.call('XACK', key, group, entry) == 0", "redis.call('XACK', key, group, entry) < 0",
		[]string{"what waits is counted"},
	},
	{
		"an acknowledgement is for an entry in flight", "local done = group and redis.call('XACK', key, group, unpack(ARGV, first, last)) or 0",
		"local done = redis.call('XACK', key, group, unpack(ARGV, first, last)) and wanted",
		[]string{"a stale receipt"},
	},
	{
		"extending is for an entry in flight", "if #pending == 1 then", "if true then",
		[]string{"a stale receipt"},
	},
	{
		"what was acknowledged is deleted", "redis.call('XDEL', key, unpack(ARGV, first, last))", "",
		[]string{"old streams are read after a shrink"},
	},
	{
		"a message that moved is found", "redis.call('HSET', places, message, to .. ' ' .. put(to, again(message, made, fields)))", "put(to, again(message, made, fields))",
		[]string{"a message that came again is in one place"},
	},
	{
		"a message that is set aside is found", "redis.call('HSET', places, id, 'd ' .. entry)", "",
		[]string{"a message that came again is in one place"},
	},
	{
		"the visibility is written down", "local consumer, visibility, max = ARGV[1] .. '/' .. ARGV[2]", "local consumer, visibility, max = ARGV[1] .. '/86400000'",
		[]string{"a reader dies"},
	},
	{
		"somebody looks when a visibility ends", "redis.call('ZADD', due, 'LT', unpack(look))", "",
		[]string{"a reader dies"},
	},
	{
		"an entry comes back at its time", "if left <= 0 then", "if false then",
		[]string{"a reader dies"},
	},
	{
		"an entry does not come back before its time", "if left <= 0 then", "if true then",
		[]string{"a reader is slow"},
	},
	{
		"a deadline is looked at", "if deadline and deadline <= now then", "if false then",
		[]string{"a deadline comes"},
	},
	{
		"attempts of failures are bounded", "how == 'failed' and made >= attempts", "false",
		[]string{"a message always fails"},
	},
	{
		"attempts of dead readers are bounded", "if made >= attempts then", "if false then",
		[]string{"a message kills its readers"},
	},
	{
		"handing back is no attempt", "if how ~= 'unread' then", "if true then",
		[]string{"nobody is there for a message"},
	},
	{
		"a cancelled message waits no longer", "      go(i, 1)\n", "",
		[]string{"what waits is counted"},
	},
	{
		"a delivered message waits no longer", "    go(i, n)\n", "",
		[]string{"what is in flight does not count as waiting"},
	},
	{
		"a message that comes back waits", "count('in', came)", "",
		[]string{"what waits is counted"},
	},
	{
		"the emptiest stream is taken", "if n < fewest then", "if false then",
		[]string{"a tenant's messages spread"},
	},
	{
		"a writer with the old number is told", "if streams > 0 and (streams ~= known or per ~= known_per) then", "if false then",
		[]string{"a writer knows the old number of streams"},
	},
	{
		"a stream with messages is not dropped", "redis.call('XLEN', stream_key(span - 1)) == 0", "true",
		[]string{"old streams are read after a shrink"},
	},
	{
		"pausing stops readers", "if paused then", "if false then",
		[]string{"the queue is paused"},
	},
	{
		"a dedupe id is remembered", "return until_ > now and redis.call('HGET', dedupe, name)", "return false",
		[]string{"the same is written twice"},
	},
	{
		"the cursor goes on", "    cursor = active[#active] + 1\n", "",
		[]string{"readers take turns"},
	},
	{
		"what was taken does not wait", "      from = last\n", "",
		[]string{"pages are turned while messages are taken"},
	},
	{
		"a page begins where one ended", "i == at and after or '0-0'", "'0-0'",
		[]string{"pages are turned while messages are taken"},
	},
	{
		"a token wakes a reader", "redis.pcall('LPUSH', wake, unpack(tokens))", "",
		[]string{"a sleeping reader", "a sleeping reader and a message that is given back"},
	},
	{
		"a reader knows when something is due", "reply[2] = math.max(0, soonest - now)", "",
		[]string{"a sleeping reader and a delayed message"},
	},
}

// TestEveryProtectionIsNeeded takes each protection out and expects the histories
// to notice.
func TestEveryProtectionIsNeeded(t *testing.T) {
	t.Parallel()
	for _, p := range protections {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			for _, name := range p.histories {
				i := slices.IndexFunc(histories, func(h history) bool { return h.name == name })
				if err := play(t, histories[i], scripttest.Without(t, library, p.old, p.replacement)); err == nil {
					t.Errorf("history %q holds without the protection", name)
				}
			}
		})
	}
}
