package fairqueue

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/internal/test/redistest"
)

// legacyQueue is a queue that replaces a stream of the test's own, with the group "workers".
func legacyQueue(t *testing.T, client rueidis.Client, change func(*Config)) (q *Queue, stream string) {
	t.Helper()
	stream = "old:" + redistest.Name(t)
	cfg := Config{Legacy: []Legacy{{Stream: stream, Group: "workers"}}}
	if change != nil {
		change(&cfg)
	}
	return openOn(t, client, redistest.Name(t), cfg), stream
}

// addEntries adds n entries to a stream and returns the bodies of their messages.
func addEntries(t *testing.T, client rueidis.Client, stream string, n int) map[string]bool {
	t.Helper()
	left := map[string]bool{}
	for i := range n {
		if err := do(t, client, "XADD", stream, "*", "n", fmt.Sprint(i)).Error(); err != nil {
			t.Fatal(err)
		}
		left[fmt.Sprintf(`{"n":"%d"}`, i)] = true
	}
	return left
}

// TestLegacyHasItsTurns: entries come in turn with the messages of tenants that have a backlog, which
// never ends.
func TestLegacyHasItsTurns(t *testing.T) {
	t.Parallel()
	const entries, most = 50, 600
	t.Run("Read", func(t *testing.T) {
		t.Parallel()
		client := redistest.Shared(t).Client(t)
		q, stream := legacyQueue(t, client, nil)
		left := addEntries(t, client, stream, entries)
		write(t, q, strings.Repeat("a:x b:x c:x ", 40))
		for i := 0; len(left) > 0; i++ {
			if i == most {
				t.Fatalf("%d of %d entries came among %d messages", entries-len(left), entries, most)
			}
			m := eventually(t, q)
			ack(t, q, m)
			if delete(left, string(m.Body)); m.Tenant != "legacy" {
				write(t, q, m.Tenant+":x")
			}
		}
	})
	t.Run("Consume", func(t *testing.T) {
		t.Parallel()
		client := redistest.Shared(t).Client(t)
		q, stream := legacyQueue(t, client, nil)
		left := addEntries(t, client, stream, entries)
		write(t, q, strings.Repeat("a:x b:x c:x ", 40))
		handled := make(chan string)
		consume(t, q, ConsumeConfig{Concurrency: 4, Drain: time.Millisecond}, func(ctx context.Context, m Message) error {
			if m.Tenant != "legacy" {
				if _, err := q.Write(ctx, Draft{Tenant: m.Tenant, Body: m.Body}); err != nil {
					return err
				}
			}
			select {
			case handled <- string(m.Body):
			case <-ctx.Done():
			}
			return nil
		})
		for i := 0; len(left) > 0; i++ {
			if i == most {
				t.Fatalf("%d of %d entries came among %d messages", entries-len(left), entries, most)
			}
			delete(left, <-handled)
		}
	})
}

// TestLegacyIsFoundSoon: readers that sleep find a new entry within a second; the test allows for a
// slow machine.
func TestLegacyIsFoundSoon(t *testing.T) {
	t.Parallel()
	const most = 2 * time.Second
	client := redistest.Shared(t).Client(t)
	t.Run("Read", func(t *testing.T) {
		t.Parallel()
		q, stream := legacyQueue(t, client, nil)
		_, err := q.Read(t.Context(), ReadConfig{})
		wantError(t, err, ErrEmpty)
		addEntries(t, client, stream, 1)
		start := time.Now()
		ack(t, q, eventually(t, q))
		if took := time.Since(start); took > most {
			t.Errorf("an entry was read after %s, want at most %s", took, most)
		}
	})
	t.Run("Consume", func(t *testing.T) {
		t.Parallel()
		q, stream := legacyQueue(t, client, nil)
		handled := make(chan bool, 10)
		c := testConsumer(t, q, func(context.Context, Message) error {
			handled <- true
			return nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.run(ctx) }()
		addEntries(t, client, stream, 1)
		<-handled
		redistest.Eventually(t, "the consumer sleeps", func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.asleep
		})
		addEntries(t, client, stream, 1)
		start := time.Now()
		<-handled
		if took := time.Since(start); took > most {
			t.Errorf("an entry was handled after %s, want at most %s", took, most)
		}
		cancel()
		wantError(t, <-ended, context.Canceled)
	})
}

// holdEntries has an old reader take n entries, and makes them idle for so long. It returns their ids.
func holdEntries(t *testing.T, client rueidis.Client, stream, reader string, n int, idle time.Duration) (ids []string) {
	t.Helper()
	if err := do(t, client, "XGROUP", "CREATE", stream, "workers", "0").Error(); err != nil && !strings.HasPrefix(err.Error(), "BUSYGROUP") {
		t.Fatal(err)
	}
	taken, err := do(t, client, "XREADGROUP", "GROUP", "workers", reader, "COUNT", fmt.Sprint(n), "STREAMS", stream, ">").AsXRead()
	if err != nil || len(taken[stream]) != n {
		t.Fatalf("the old reader took %d of %d entries, %v", len(taken[stream]), n, err)
	}
	for _, e := range taken[stream] {
		ids = append(ids, e.ID)
	}
	claim := append(append([]string{"XCLAIM", stream, "workers", reader, "0"}, ids...), "IDLE", fmt.Sprint(idle.Milliseconds()), "JUSTID")
	if err := do(t, client, claim...).Error(); err != nil {
		t.Fatal(err)
	}
	return ids
}

// readBodies reads and acknowledges n messages, each of which it wants to be one of left.
func readBodies(t *testing.T, q *Queue, left map[string]bool, n int) {
	t.Helper()
	for range n {
		m := eventually(t, q)
		ack(t, q, m)
		if !left[string(m.Body)] {
			t.Fatalf("got %q, which is not left, of %d", m.Body, len(left))
		}
		delete(left, string(m.Body))
	}
}

// pendingOf returns how many entries a reader of the group has.
func pendingOf(t *testing.T, client rueidis.Client, stream, reader string) int {
	t.Helper()
	list, err := do(t, client, "XPENDING", stream, "workers", "-", "+", "10000", reader).ToArray()
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// TestLegacyLeavesWhatOldReadersHold, however long they take.
func TestLegacyLeavesWhatOldReadersHold(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	q, stream := legacyQueue(t, client, nil)
	addEntries(t, client, stream, 3)
	holdEntries(t, client, stream, "old", 2, 24*time.Hour)
	readBodies(t, q, map[string]bool{`{"n":"2"}`: true}, 1)
	for range 3 {
		_, err := q.Read(t.Context(), ReadConfig{Block: legacyInterval})
		wantError(t, err, ErrEmpty)
	}
	want(t, "entries of the old reader", pendingOf(t, client, stream, "old"), 2, nil)
}

// TestLegacyClaimAfter: entries that old readers hold for longer than ClaimAfter are moved, however many others
// lie before them; entries held for less long are not. Deleted entries are gone.
func TestLegacyClaimAfter(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	q, stream := legacyQueue(t, client, func(c *Config) { c.Legacy[0].ClaimAfter = time.Hour })
	const young, deleted, old = 1500, 20, 3
	left := addEntries(t, client, stream, young+deleted+old)
	holdEntries(t, client, stream, "alive", young, time.Minute)
	gone := holdEntries(t, client, stream, "deletes", deleted, 2*time.Hour)
	holdEntries(t, client, stream, "died", old, 2*time.Hour)
	for i := range young + deleted {
		delete(left, fmt.Sprintf(`{"n":"%d"}`, i))
	}
	if err := do(t, client, append([]string{"XDEL", stream}, gone...)...).Error(); err != nil {
		t.Fatal(err)
	}
	readBodies(t, q, left, old)
	_, err := q.Read(t.Context(), ReadConfig{})
	wantError(t, err, ErrEmpty)
	want(t, "entries of the living reader", pendingOf(t, client, stream, "alive"), young, nil)
}

// TestLegacyOfADeadMover: entries that a process of the queue took and did not move are moved by another one at
// once. Entries that it moved and did not remove do not come twice.
func TestLegacyOfADeadMover(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	q, stream := legacyQueue(t, client, nil)
	left := addEntries(t, client, stream, 250)
	holdEntries(t, client, stream, q.legacy.sources[0].consumer(), 240, 0)
	entries, err := do(t, client, "XRANGE", stream, "-", "+", "COUNT", "1").AsXRange()
	want(t, "XRANGE", len(entries), 1, err)
	moved, err := q.cfg.Legacy[0].draft(stream, entries[0].ID, entries[0].FieldValues)
	want(t, "draft", nil, nil, err)
	if _, err := q.Write(t.Context(), moved); err != nil {
		t.Fatal(err)
	}
	readBodies(t, q, left, 250)
	redistest.Eventually(t, "the stream is empty", func() bool {
		n, err := do(t, client, "XLEN", stream).AsInt64()
		return err == nil && n == 0
	})
	_, err = q.Read(t.Context(), ReadConfig{})
	wantError(t, err, ErrEmpty)
}

// TestLegacyOfADeadMoverComesLater, too, when a process dies while others run.
func TestLegacyOfADeadMoverComesLater(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	q, stream := legacyQueue(t, client, nil)
	left := addEntries(t, client, stream, 1)
	readBodies(t, q, left, 1)
	// In one step: the reads above may still look for entries.
	err := do(t, client, "EVAL", `for i = 0, 1 do redis.call('XADD', KEYS[1], '*', 'n', i) end
		return redis.call('XREADGROUP', 'GROUP', 'workers', ARGV[1], 'COUNT', 2, 'STREAMS', KEYS[1], '>')`, "1", stream, q.legacy.sources[0].consumer()).Error()
	if err != nil {
		t.Fatal(err)
	}
	readBodies(t, q, map[string]bool{`{"n":"0"}`: true, `{"n":"1"}`: true}, 2)
}

// TestLegacyAndAFullServer: while the server is full, messages are read, entries stay in the stream, and
// no more than a page is taken. They come when there is room.
func TestLegacyAndAFullServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	client := server.Client(t)
	q, stream := legacyQueue(t, client, nil)
	var log redistest.Log
	q.cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	const entries = 3 * legacyPage
	left := addEntries(t, client, stream, entries)
	holdEntries(t, client, stream, q.legacy.sources[0].consumer(), 1, 0)
	write(t, q, "a:1 a:2 a:3")
	if err := do(t, client, "CONFIG", "SET", "maxmemory", "1").Error(); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		m := eventually(t, q)
		want(t, "body", string(m.Body), fmt.Sprint(i+1), nil)
		ack(t, q, m)
	}
	for range 3 {
		_, err := q.Read(t.Context(), ReadConfig{Max: maxRead, Block: legacyInterval})
		wantError(t, err, ErrEmpty)
	}
	if n := pendingOf(t, client, stream, q.legacy.sources[0].consumer()); n == 0 || n > legacyPage {
		t.Errorf("%d entries are taken, want 1 to %d", n, legacyPage)
	}
	if n := log.Count("are not moved"); n != 1 {
		t.Errorf("%d lines about it, want 1: %s", n, log.String())
	}
	if err := do(t, client, "CONFIG", "SET", "maxmemory", "0").Error(); err != nil {
		t.Fatal(err)
	}
	readBodies(t, q, left, entries)
}

// TestLegacyTroubleEndsNoRead: a stream that cannot be read is logged; messages are read, and an empty
// queue is empty.
func TestLegacyTroubleEndsNoRead(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	q, stream := legacyQueue(t, client, nil)
	var log redistest.Log
	q.cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	if err := do(t, client, "SET", stream, "text").Error(); err != nil {
		t.Fatal(err)
	}
	write(t, q, "a:1")
	ack(t, q, eventually(t, q))
	_, err := q.Read(t.Context(), ReadConfig{Block: 2 * legacyInterval})
	wantError(t, err, ErrEmpty)
	if n := log.Count("WRONGTYPE"); n != 1 {
		t.Errorf("%d lines about it, want 1: %s", n, log.String())
	}
}

// TestLegacyOnASilentServer: a stream on another server of a Cluster, which does not answer, delays no
// read that finds messages, and one that finds none by less than a call lasts.
func TestLegacyOnASilentServer(t *testing.T) {
	t.Parallel()
	q, _ := legacyQueue(t, redistest.Shared(t).Client(t), nil)
	silent := redistest.Start(t, redistest.Options{})
	q.client = silent.Client(t) // of the stream alone
	write(t, q, "a:1")
	silent.Pause()
	start := time.Now()
	ack(t, q, eventually(t, q))
	_, err := q.Read(t.Context(), ReadConfig{})
	wantError(t, err, ErrEmpty)
	if took, most := time.Since(start), callTimeout/2; took > most {
		t.Errorf("two reads took %s, want at most %s", took, most)
	}
	silent.Resume()
}

// TestLegacyStaysWhileTheQueueIsPaused, so that old readers may go on.
func TestLegacyStaysWhileTheQueueIsPaused(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	q, stream := legacyQueue(t, client, nil)
	write(t, q, "a:1")
	if err := q.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	left := addEntries(t, client, stream, 3)
	_, err := q.Read(t.Context(), ReadConfig{Max: 10, Block: 2 * legacyInterval})
	wantError(t, err, ErrPaused)
	n, err := do(t, client, "XLEN", stream).AsInt64()
	want(t, "entries in the stream", n, int64(3), err)
	if err := q.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	ack(t, q, eventually(t, q))
	readBodies(t, q, left, 3)
}

// TestLegacyEntryThatIsTooLarge stays in the stream, pending, and keeps no other from the queue.
func TestLegacyEntryThatIsTooLarge(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	q, stream := legacyQueue(t, client, nil)
	var log redistest.Log
	q.cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	if err := do(t, client, "XADD", stream, "*", "n", strings.Repeat("x", maxMessage)).Error(); err != nil {
		t.Fatal(err)
	}
	left := addEntries(t, client, stream, 3)
	readBodies(t, q, left, 3)
	redistest.Eventually(t, "only that entry is pending", func() bool {
		return pendingOf(t, client, stream, q.legacy.sources[0].consumer()) == 1
	})
	if n := log.Count("is no message"); n != 1 {
		t.Errorf("%d lines about it, want 1: %s", n, log.String())
	}
}
