package fairqueue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/registry"
	"github.com/millrace/millrace/internal/test/redistest"
)

// TestJobs does due work in queues without readers.
func TestJobs(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	client := server.Client(t)
	job := Jobs(client)[0]
	until := func(what string, cond func() bool) {
		t.Helper()
		redistest.Eventually(t, what, func() bool {
			if _, err := job.Slice(context.Background()); err != nil {
				t.Fatal(err)
			}
			return cond()
		})
	}
	if err := do(t, client, "SET", baseKey("foreign"), "x").Error(); err != nil {
		t.Fatal(err)
	}
	var entry registry.Entry
	entry.Enter(client, registry.Queue, "foreign", nil)
	entry.Touch()
	q := openOn(t, client, "x", Config{MaxAttempts: 2})
	write(t, q, "a:1 b:2 c:3")
	if _, err := q.Read(t.Context(), ReadConfig{Max: 3, Visibility: minVisibility}); err != nil {
		t.Fatal(err)
	}
	if _, err := q.Write(t.Context(), Draft{Tenant: "d", Delay: time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	until("what is due comes back", func() bool { s := stats(t, q); return s.Waiting == 4 && s.InFlight == 0 && s.Delayed == 0 })
	if _, err := q.Read(t.Context(), ReadConfig{Max: 4, Visibility: minVisibility}); err != nil {
		t.Fatal(err)
	}
	until("messages die of their second reader", func() bool { s := stats(t, q); return s.Dead == 3 && s.Waiting == 1 })
	ack(t, q, read(t, q, 1)...)

	for i := range 20 {
		if _, err := q.Write(t.Context(), Draft{Tenant: fmt.Sprint(i), TTL: time.Millisecond}); err != nil {
			t.Fatal(err)
		}
	}
	until("waiting messages expire", func() bool { return stats(t, q).Counters.Expired == 20 })
	wantSizes(t, q, 0, 0, 0, 3)

	for range 10 {
		if progress, err := job.Slice(t.Context()); err != nil || progress != millrace.Idle {
			t.Errorf("slice when nothing is due = %v, %v, want idle", progress, err)
		}
	}
}

// TestLanesThatRestAreForgotten by upkeep, for a queue that gets no more calls.
func TestLanesThatRestAreForgotten(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	write(t, q, "a:1")
	lanes := func() (names []string) {
		there, _ := readRaw(t, q)
		for field := range there.hot {
			if strings.HasPrefix(field, "l") {
				names = append(names, field[1:])
			}
		}
		return names
	}
	all := lanes()
	if len(all) == 0 {
		t.Fatal("no lane is known, so this shows nothing")
	}
	key := baseKey(q.name)
	upkeep := func(age int) { // as if the last one had been so many seconds ago
		t.Helper()
		field := do(t, q.run.Client, "HGET", key, "lived")
		if text, err := field.ToString(); err == nil {
			_, total, _ := strings.Cut(text, " ")
			do(t, q.run.Client, "HSET", key, "lived", fmt.Sprint(time.Now().Unix()-int64(age), " ", total))
		}
		if _, err := q.call(t.Context(), "tend", ""); err != nil {
			t.Fatal(err)
		}
	}
	entered := func() int64 {
		t.Helper()
		n, err := do(t, q.run.Client, "ZCARD", key+":lanes").AsInt64()
		if err != nil {
			t.Fatal(err)
		}
		return n - 1 // the placeholder
	}
	use := func() {
		t.Helper()
		for _, lane := range all {
			text, err := do(t, q.run.Client, "HGET", key+":hot", "l"+lane).ToString()
			if err != nil {
				t.Fatalf("the lane %s, which is used every nine minutes, is forgotten: %v", lane, err)
			}
			do(t, q.run.Client, "HSET", key+":hot", "l"+lane, text[:27]+fmt.Sprint(time.Now().Unix())+text[37:])
		}
	}
	for range 5 {
		for range 11 {
			upkeep(50)
		}
		use()
	}
	for idle := 0; idle <= 600; idle += 50 {
		if got := len(lanes()); got != len(all) {
			t.Errorf("%d lanes are known after %d s, want all %d", got, idle, len(all))
		}
		upkeep(50)
	}
	for range 13 {
		upkeep(50)
	}
	if known, left := len(lanes()), entered(); known+int(left) != 0 {
		t.Errorf("%d lanes are known and %d entered after more than twenty minutes, want none", known, left)
	}
}

// TestIdleExpiry: a queue without calls goes whole when it is empty, and a
// full one only if that was asked for.
func TestIdleExpiry(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	client := server.Client(t)
	const expiry = 50 * time.Millisecond
	empty := openOn(t, client, "empty", Config{IdleExpiry: expiry})
	write(t, empty, "a:1")
	ack(t, empty, read(t, empty, 1)...)
	full := openOn(t, client, "full", Config{IdleExpiry: expiry})
	write(t, full, "a:1")
	flying := openOn(t, client, "flying", Config{IdleExpiry: expiry})
	write(t, flying, "a:1")
	read(t, flying, 1)
	forced := openOn(t, client, "forced", Config{IdleExpiry: expiry, ExpireFull: true})
	write(t, forced, "a:1")
	lasting := openOn(t, client, "lasting", Config{})
	write(t, lasting, "a:1")
	ack(t, lasting, read(t, lasting, 1)...)

	job := Jobs(client)[0]
	gone := func(name string) bool {
		keys, err := do(t, client, "KEYS", baseKey(name)+"*").AsStrSlice()
		if err != nil {
			t.Fatal(err)
		}
		return len(keys) == 0
	}
	redistest.Eventually(t, "the empty and the forced one are gone", func() bool {
		if _, err := job.Slice(t.Context()); err != nil {
			t.Fatal(err)
		}
		return gone("empty") && gone("forced")
	})
	for range 5 {
		if _, err := job.Slice(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"full", "flying", "lasting"} {
		if gone(name) {
			t.Errorf("the queue %q is gone", name)
		}
	}
	write(t, empty, "a:again")
	wantSizes(t, empty, 1, 0, 0, 0)
}

// TestAnyCallTouches: a writer that knows nothing of the expiry keeps the queue alive, too,
// and so does a reader.
func TestAnyCallTouches(t *testing.T) {
	t.Parallel()
	q := open(t, Config{IdleExpiry: time.Hour})
	write(t, q, "a:x")
	touched := func() string {
		r, _ := readRaw(t, q)
		return fmt.Sprint(r.used, r.hot["w"])
	}
	other := openOn(t, redistest.Shared(t).Client(t), q.name, Config{})
	for what, touch := range map[string]func(){
		"write": func() { write(t, other, "a:y") },
		"read":  func() { read(t, other, 1) },
	} {
		before := touched()
		redistest.Eventually(t, "a later "+what+" is noted", func() bool {
			touch()
			return touched() != before
		})
	}
}

// TestDedupeIDsAreForgotten by upkeep, when their time is over.
func TestDedupeIDsAreForgotten(t *testing.T) {
	t.Parallel()
	q := open(t, Config{DedupeWindow: time.Millisecond})
	for i := range 30 {
		if _, err := q.Write(t.Context(), Draft{Tenant: "a", DedupeID: fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
	}
	ack(t, q, read(t, q, 30)...)
	passes(t, q.run.Client, 2*time.Millisecond)
	_, err := q.call(t.Context(), "tend", "")
	want(t, "tend", nil, nil, err)
	wantNothingLeft(t, q)
}

// TestManyAreOverdue: all that is overdue comes back, also more than one call looks at.
func TestManyAreOverdue(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	drafts := make([]Draft, 250)
	for i := range drafts {
		drafts[i] = Draft{Tenant: "a"}
	}
	if _, err := q.WriteBatch(t.Context(), drafts...); err != nil {
		t.Fatal(err)
	}
	// No more than there are: on a busy machine the first are overdue before the last are read.
	first, err := q.Read(t.Context(), ReadConfig{Max: len(drafts), Visibility: minVisibility})
	if err != nil || len(first) != len(drafts) {
		t.Fatalf("Read = %d messages, %v, want %d", len(first), err, len(drafts))
	}
	again := 0
	redistest.Eventually(t, "all of them come again", func() bool {
		some, err := q.Read(t.Context(), ReadConfig{Max: 1000})
		if err != nil && !errors.Is(err, ErrEmpty) {
			t.Fatal(err)
		}
		again += len(some)
		return again == len(drafts)
	})
}

// TestUpkeepKeepsAnIdleQueue that knows something: a dedupe id that counts, or a setting of an operator.
func TestUpkeepKeepsAnIdleQueue(t *testing.T) {
	t.Parallel()
	const idle = 20 * time.Millisecond
	for name, set := range map[string]func(q *Queue) error{
		"a dedupe id": func(q *Queue) error {
			_, err := q.Write(t.Context(), Draft{Tenant: "a", DedupeID: "x"})
			return err
		},
		"a batch":      func(q *Queue) error { return second(q.Batches().Create(t.Context(), 0, Draft{Tenant: "a"})) },
		"a pause":      func(q *Queue) error { return q.Pause(t.Context()) },
		"dead letters": func(q *Queue) error { return q.Dead().Keep(t.Context(), 3, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := open(t, Config{IdleExpiry: idle})
			write(t, q, "a:1")
			ack(t, q, read(t, q, 1)...)
			want(t, "set", nil, nil, set(q))
			if name == "a dedupe id" {
				ack(t, q, read(t, q, 1)...)
			}
			for range 3 {
				passes(t, q.run.Client, 2*idle)
				if _, err := q.tend(t.Context(), ""); err != nil {
					t.Fatal(err)
				}
			}
			_, err := q.Stats(t.Context())
			want(t, "the queue is there", nil, nil, err)
		})
	}
}
