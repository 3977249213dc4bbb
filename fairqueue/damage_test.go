package fairqueue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redistest"
)

// TestStreamCameBackWithoutItsGroup: a stream was deleted and written to again,
// and nobody has read from it since. Receipts of the old one are stale, no more.
func TestStreamCameBackWithoutItsGroup(t *testing.T) {
	t.Parallel()
	q := open(t, Config{Streams: 1})
	write(t, q, "a:1")
	old := read(t, q, 1)[0]
	do(t, q.run.Client, "DEL", baseKey(q.name)+":s:0")
	redistest.Eventually(t, "the next id is another one: its millisecond is", func() bool {
		clock, err := do(t, q.run.Client, "TIME").AsIntSlice()
		if err != nil {
			t.Fatal(err)
		}
		return !strings.HasPrefix(old.ID, fmt.Sprint(clock[0]*1000+clock[1]/1000, "-"))
	})
	write(t, q, "a:2")
	good, err := q.Extend(t.Context(), time.Minute, old.Receipt)
	want(t, "extend", good, []bool{false}, err)
	wantError(t, q.Nack(t.Context(), old.Receipt, NackConfig{}), ErrStale)
	places, err := q.Cancel(t.Context(), old.ID)
	want(t, "cancel", places, []Place{Nowhere}, err)
	if m := read(t, q, 10); bodies(m) != "2" {
		t.Errorf("read %q, want 2", bodies(m))
	}
}

// TestGroupIsLost: somebody destroyed the consumer group of a stream. What was in
// flight in it is delivered again, and what waits behind is not left over.
func TestGroupIsLost(t *testing.T) {
	t.Parallel()
	q := open(t, Config{Streams: 1})
	write(t, q, "a:1 a:2 a:3")
	read(t, q, 1)
	if n, err := do(t, q.run.Client, "XGROUP", "DESTROY", baseKey(q.name)+":s:0", GroupDefault).AsInt64(); n != 1 || err != nil {
		t.Fatalf("destroy = %d, %v", n, err)
	}
	var got []Message
	for range 5 {
		got = append(got, read(t, q, 1)...)
	}
	if bodies(got) != "1 2 3" {
		t.Errorf("read %q, want all three", bodies(got))
	}
	ack(t, q, got...)
	wantSizes(t, q, 0, 0, 0, 0)
}

// dump returns what each of the queue's keys holds, but for what notes answers
// and wakes readers.
func dump(t *testing.T, q *Queue) map[string]string {
	t.Helper()
	base := baseKey(q.name)
	found := map[string]string{}
	var cursor uint64
	for {
		page, err := q.run.Client.Do(t.Context(), q.run.Client.B().Scan().Cursor(cursor).Match(base+"*").Count(1000).Build()).AsScanEntry()
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range page.Elements {
			text, err := do(t, q.run.Client, "DUMP", name).ToString()
			if err != nil {
				t.Fatal(err)
			}
			found[strings.TrimPrefix(name, base)] = text
		}
		if cursor = page.Cursor; cursor == 0 {
			return found
		}
	}
}

// everyCall makes each call of a queue once.
func everyCall(ctx context.Context, q *Queue, m Message, deadID string) map[string]func() error {
	return map[string]func() error{
		"Write":   func() error { _, err := q.Write(ctx, Draft{Tenant: "a", DedupeID: "other"}); return err },
		"Delayed": func() error { _, err := q.Write(ctx, Draft{Tenant: "a", Delay: time.Hour}); return err },
		"Read":    func() error { _, err := q.Read(ctx, ReadConfig{Max: 10}); return err },
		"Ack":     func() error { _, err := q.Ack(ctx, m.Receipt); return err },
		"Nack":    func() error { return q.Nack(ctx, m.Receipt, NackConfig{}) },
		"NackAs":  func() error { return q.Nack(ctx, m.Receipt, NackConfig{Delay: time.Hour}) },
		"Die":     func() error { return q.Nack(ctx, m.Receipt, NackConfig{Dead: true}) },
		"Extend":  func() error { _, err := q.Extend(ctx, time.Minute, m.Receipt); return err },
		"Cancel":  func() error { _, err := q.Cancel(ctx, m.ID); return err },
		"Redrive": func() error { _, err := q.Redrive(ctx, deadID); return err },
		"Purge":   func() error { _, err := q.Purge(ctx, deadID); return err },
		"Resize":  func() error { return q.Resize(ctx, 2, 0) },
		"Pause":   func() error { return q.Pause(ctx) },
		"Resume":  func() error { return q.Resume(ctx) },
		"Stats":   func() error { _, err := q.Stats(ctx); return err },
		"Browse":  func() error { _, err := q.Browse(ctx, BrowseConfig{}); return err },
		"BrowseInFlight": func() error {
			_, err := q.Browse(ctx, BrowseConfig{Place: InFlight, Tenant: "a"})
			return err
		},
		"BrowseDelayed": func() error { _, err := q.Browse(ctx, BrowseConfig{Place: Delayed}); return err },
		"Shard":         func() error { _, err := q.Shard(ctx, "a"); return err },
		"Len":           func() error { _, err := q.Len(ctx); return err },
		"Dead": func() error {
			for _, err := range q.Dead(ctx) {
				return err
			}
			return nil
		},
	}
}

// busyQueue returns a queue that has all of its keys: one message in flight that
// has moved, one that waits, one that is set aside and one that is dead.
func busyQueue(t *testing.T, client rueidis.Client) (q *Queue, flying Message, deadID string) {
	t.Helper()
	q = openOn(t, client, redistest.Name(t), Config{Streams: 1})
	if _, err := q.Write(t.Context(), Draft{Tenant: "a", Delay: time.Hour, DedupeID: "x"}); err != nil {
		t.Fatal(err)
	}
	write(t, q, "a:dead a:flying")
	both := read(t, q, 2)
	for i, cfg := range []NackConfig{{Dead: true}, {}} {
		if err := q.Nack(t.Context(), both[i].Receipt, cfg); err != nil {
			t.Fatal(err)
		}
	}
	flying = read(t, q, 1)[0]
	write(t, q, "a:waits")
	for _, answers := range []string{":lanes:0", ":lanes:1", ":keyed:0", ":keyed:1"} {
		if err := do(t, client, "HSET", baseKey(q.name)+answers, "x", "y").Error(); err != nil {
			t.Fatal(err)
		}
	}
	return q, flying, both[0].ID
}

// TestWrongTypesAreRefusedWhole: with a foreign value under any one of the
// queue's keys, each call either does all of its work, because it does not need
// that key, or fails with ErrBroken and changes nothing.
func TestWrongTypesAreRefusedWhole(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	for _, one := range library.Patterns(library.Script("delete"), "") {
		t.Run("key"+one, func(t *testing.T) {
			t.Parallel()
			for call := range everyCall(t.Context(), nil, Message{}, "") {
				q, flying, deadID := busyQueue(t, client)
				name := baseKey(q.name) + strings.ReplaceAll(one, "*", "0")
				if n, err := do(t, client, "DEL", name).AsInt64(); n != 1 || err != nil {
					t.Fatalf("the queue had no key %s: the test shows nothing (%v)", one, err)
				}
				if err := do(t, client, "SET", name, "foreign").Error(); err != nil {
					t.Fatal(err)
				}
				before := dump(t, q)
				err := everyCall(t.Context(), q, flying, deadID)[call]()
				if err == nil {
					continue
				}
				if !errors.Is(err, millrace.ErrBroken) {
					t.Errorf("%s: error = %v, want ErrBroken", call, err)
				}
				if diff := cmp.Diff(before, dump(t, q)); diff != "" {
					t.Errorf("%s was refused and changed the queue (-before +after):\n%s", call, diff)
				}
			}
		})
	}
}

// TestUnknownVersionIsRefused by each call.
func TestUnknownVersionIsRefused(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	q, flying, deadID := busyQueue(t, client)
	if err := do(t, client, "HSET", baseKey(q.name), "version", "2").Error(); err != nil {
		t.Fatal(err)
	}
	before := dump(t, q)
	for name, call := range everyCall(t.Context(), q, flying, deadID) {
		if err := call(); !errors.Is(err, millrace.ErrVersion) && name != "Len" && name != "Dead" {
			t.Errorf("%s: error = %v, want ErrVersion", name, err)
		}
	}
	if diff := cmp.Diff(before, dump(t, q)); diff != "" {
		t.Errorf("refused calls changed the queue (-before +after):\n%s", diff)
	}
}

// TestRecordIsLost: a queue whose own hash is gone is broken, whatever of it is
// left, and not an empty one (Q5 in docs/DEFECTS.md).
func TestRecordIsLost(t *testing.T) {
	t.Parallel()
	for left, prepare := range map[string]func(t *testing.T, q *Queue){
		"waiting": func(t *testing.T, q *Queue) { write(t, q, "a:1") },
		"in flight": func(t *testing.T, q *Queue) {
			write(t, q, "a:1")
			read(t, q, 1)
		},
		"set aside": func(t *testing.T, q *Queue) {
			if _, err := q.Write(t.Context(), Draft{Tenant: "a", Delay: time.Hour}); err != nil {
				t.Fatal(err)
			}
		},
		"dead": func(t *testing.T, q *Queue) {
			write(t, q, "a:1")
			if err := q.Nack(t.Context(), read(t, q, 1)[0].Receipt, NackConfig{Dead: true}); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(left, func(t *testing.T) {
			t.Parallel()
			q := open(t, Config{})
			prepare(t, q)
			if n, err := do(t, q.run.Client, "DEL", baseKey(q.name)).AsInt64(); n != 1 || err != nil {
				t.Fatalf("delete = %d, %v", n, err)
			}
			before := dump(t, q)
			for name, call := range everyCall(t.Context(), q, Message{Receipt: "1:1-1", ID: "1-1.1"}, "1-1.1") {
				if err := call(); !errors.Is(err, millrace.ErrBroken) && name != "Len" && name != "Dead" {
					t.Errorf("%s: error = %v, want ErrBroken", name, err)
				}
			}
			if diff := cmp.Diff(before, dump(t, q)); diff != "" {
				t.Errorf("refused calls changed the queue (-before +after):\n%s", diff)
			}
			if _, err := q.Delete(t.Context()); err != nil {
				t.Error(err)
			}
			if got := dump(t, q); len(got) != 0 {
				t.Errorf("Delete left keys: %v", got)
			}
		})
	}
}

// TestIndexIsLost: a queue that has lost one of the keys that index its messages
// finds them all the same, or says that it is broken. It does not hide them.
func TestIndexIsLost(t *testing.T) {
	t.Parallel()
	for _, part := range []string{":waits", ":due", ":delayed", ":places"} {
		t.Run("key"+part, func(t *testing.T) {
			t.Parallel()
			q := open(t, Config{Streams: 1})
			write(t, q, "a:moved a:flying a:waiting")
			if err := q.Nack(t.Context(), read(t, q, 1)[0].Receipt, NackConfig{}); err != nil {
				t.Fatal(err)
			}
			if _, err := q.Read(t.Context(), ReadConfig{Visibility: MinVisibility}); err != nil {
				t.Fatal(err)
			}
			if _, err := q.Write(t.Context(), Draft{Tenant: "a", Body: []byte("delayed"), Delay: MinVisibility}); err != nil {
				t.Fatal(err)
			}
			if n, err := do(t, q.run.Client, "DEL", baseKey(q.name)+part).AsInt64(); n != 1 || err != nil {
				t.Fatalf("there was no key %s: the test shows nothing (%v)", part, err)
			}
			seen := map[string]bool{}
			for deadline := time.Now().Add(time.Second); time.Now().Before(deadline) && len(seen) < 4; {
				some, err := q.Read(t.Context(), ReadConfig{Max: 10, Block: 50 * time.Millisecond, Visibility: 100 * time.Millisecond})
				if errors.Is(err, millrace.ErrBroken) {
					return
				}
				for _, m := range some {
					seen[string(m.Body)] = true
					ack(t, q, m)
				}
			}
			want(t, "found", seen, map[string]bool{"moved": true, "flying": true, "waiting": true, "delayed": true}, nil)
			wantSizes(t, q, 0, 0, 0, 0)
		})
	}
}

// TestDamagedQueueIsQuiet: a queue that lost keys does not have its sleeping
// readers ask again and again for what is not there, and counts right again.
func TestDamagedQueueIsQuiet(t *testing.T) {
	t.Parallel()
	for _, part := range []string{":s:0", ":waits", ":due", ":delayed", ":later", ":places"} {
		t.Run("key"+part, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, redistest.Options{})
			q := openOn(t, server.Client(t), "x", Config{Streams: 1})
			write(t, q, "a:moved a:flying a:waiting")
			if err := q.Nack(t.Context(), read(t, q, 1)[0].Receipt, NackConfig{Delay: time.Hour}); err != nil {
				t.Fatal(err)
			}
			read(t, q, 1) // in flight for as long as the test runs
			if n, err := do(t, q.run.Client, "DEL", baseKey(q.name)+part).AsInt64(); n != 1 || err != nil {
				t.Fatalf("there was no key %s: the test shows nothing (%v)", part, err)
			}
			for range 3 {
				messages, err := q.Read(t.Context(), ReadConfig{Max: 10})
				if errors.Is(err, millrace.ErrBroken) {
					return
				}
				ack(t, q, messages...)
			}
			calls := func() (n int) {
				if _, err := fmt.Sscanf(server.Info("commandstats")["cmdstat_evalsha"], "calls=%d,", &n); err != nil {
					t.Fatal(err)
				}
				return n
			}
			before := calls()
			_, err := q.Read(t.Context(), ReadConfig{Block: 500 * time.Millisecond})
			wantError(t, err, ErrEmpty)
			if n := calls() - before; n > 5 {
				t.Errorf("a reader asked %d times in half a second", n)
			}
			n, err := q.Len(t.Context())
			want(t, "Len", n, 0, err)
		})
	}
}
