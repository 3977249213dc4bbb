package fairqueue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue/queuestats"
	"github.com/millrace/millrace/internal/test/redistest"
)

// modes are the two kinds of flows.
var modes = map[string]Config{"tenants": {}, "streams": {Streams: 4, PerTenant: 2}}

// TestLife follows messages from the write to the acknowledgement, after which nothing is left.
func TestLife(t *testing.T) {
	t.Parallel()
	for name, cfg := range modes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := open(t, cfg)
			_, err := q.Read(t.Context(), ReadConfig{})
			wantError(t, err, ErrEmpty)
			want(t, "keys after a read of nothing", len(dump(t, q)), 0, nil)
			ids := write(t, q, "a:1 a:2 b:3")
			wantSizes(t, q, 3, 0, 0, 0)
			got := read(t, q, 10)
			if len(got) != 3 {
				t.Fatalf("read %d messages, want 3", len(got))
			}
			wantSizes(t, q, 0, 3, 0, 0)
			for _, m := range got {
				if m.Attempt != 1 || m.Written.IsZero() || m.PickupDelay < 0 || m.PickupDelay > time.Minute {
					t.Errorf("message = %+v", m)
				}
				if tenants := cfg.Streams == 0; tenants != (m.Stream == -1) {
					t.Errorf("stream = %d", m.Stream)
				}
			}
			if len(read(t, q, 10)) != 0 {
				t.Error("messages were delivered twice")
			}
			ack(t, q, got...)
			wantSizes(t, q, 0, 0, 0, 0)
			_, err = q.Ack(t.Context(), got[0].Receipt)
			wantError(t, err, millrace.ErrStale)
			places, err := q.Cancel(t.Context(), ids...)
			want(t, "cancel what is done", places, []State{Gone, Gone, Gone}, err)
			want(t, "counters", stats(t, q).Counters, queuestats.Counters{Written: 3, Delivered: 3, Cost: 3, Acked: 3}, nil)
			wantNothingLeft(t, q)
		})
	}
}

// wantNothingLeft checks that nothing of any message is kept.
func wantNothingLeft(t *testing.T, q *Queue) {
	t.Helper()
	r, _ := readRaw(t, q)
	want(t, "messages, flows, deliveries and owners", [4]int{len(r.messages), len(r.flows), len(r.deliveries), len(r.owners)}, [4]int{}, nil)
	want(t, "what is wrong", r.wrongs(), "", nil)
	for part, count := range map[string]string{
		"deaths": "HLEN", "dedupe": "HLEN",
		"backlog": "ZCARD", "active": "ZCARD", "blocked": "ZCARD", "flight": "ZCARD", "delayed": "ZCARD",
		"deadlines": "ZCARD", "dead": "ZCARD", "dedupes": "ZCARD",
	} {
		n, err := do(t, q.run.Client, count, baseKey(q.name)+":"+part).AsInt64()
		placeholders := int64(1)
		if part == "active" {
			placeholders = 2
		}
		want(t, "members of "+part+", with the placeholders", n, placeholders, err)
	}
}

// TestIDStaysTheSame through nacks, delays, reclaiming and death.
func TestIDStaysTheSame(t *testing.T) {
	t.Parallel()
	q := open(t, Config{MaxAttempts: 4})
	id := write(t, q, "a:x")[0]
	seen := map[string]bool{}
	check := func(attempt int, m Message) {
		t.Helper()
		if m.ID != id || m.Attempt != attempt || string(m.Body) != "x" || m.Tenant != "a" || seen[m.Receipt] {
			t.Fatalf("delivery %d = %+v, want message %s with a new receipt", attempt, m, id)
		}
		seen[m.Receipt] = true
	}
	nack := func(m Message, cfg NackConfig) {
		t.Helper()
		nack(t, q, cfg, m)
	}
	first := read(t, q, 1)[0]
	check(1, first)
	nack(first, NackConfig{})
	_, err := q.Ack(t.Context(), first.Receipt)
	wantError(t, err, millrace.ErrStale)
	second := read(t, q, 1)[0]
	check(2, second)
	nack(second, NackConfig{Delay: 20 * time.Millisecond})
	if s := stats(t, q); s.Delayed+s.Waiting != 1 || s.InFlight != 0 {
		t.Errorf("stats = %+v, want the message set aside", s)
	}
	third, err := q.Read(t.Context(), ReadConfig{Block: 10 * time.Second, Visibility: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	check(3, third[0])
	fourth := eventually(t, q) // the third reader did not finish in time
	check(4, fourth)
	_, err = q.Nack(t.Context(), NackConfig{}, third[0].Receipt)
	wantError(t, err, millrace.ErrStale)
	if !fourth.Written.Equal(first.Written) {
		t.Errorf("written %v, then %v", first.Written, fourth.Written)
	}
	nack(fourth, NackConfig{Reason: "too hot"})
	wantSizes(t, q, 0, 0, 0, 1)
	for m, err := range q.Dead().All(t.Context()) {
		if err != nil || m.ID != id || m.Reason != "too hot" || m.Attempt != 4 || string(m.Body) != "x" || m.Tenant != "a" || m.Since.IsZero() {
			t.Errorf("dead = %+v, %v", m, err)
		}
	}
	n, err := q.Dead().Redrive(t.Context(), id, id)
	want(t, "redrive", n, 1, err)
	again := read(t, q, 1)[0]
	check(1, again)
	nack(again, NackConfig{Dead: true})
	n, err = q.Dead().Purge(t.Context(), id)
	want(t, "purge", n, 1, err)
	wantSizes(t, q, 0, 0, 0, 0)
	wantNothingLeft(t, q)
}

func TestCancel(t *testing.T) {
	t.Parallel()
	for name, cfg := range modes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := open(t, cfg)
			flies := write(t, q, "b:flies")[0]
			flying := read(t, q, 1)[0]
			waits := write(t, q, "a:waits")[0]
			delayed, err := q.Write(t.Context(), Draft{Tenant: "c", Body: []byte("later"), Delay: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			failed := write(t, q, "d:failed")[0]
			for _, m := range read(t, q, 2) {
				cfg := NackConfig{}
				if m.ID == failed {
					cfg.Delay = time.Hour
				}
				nack(t, q, cfg, m)
			}
			wantSizes(t, q, 1, 1, 2, 0)
			places, err := q.Cancel(t.Context(), waits, flies, delayed, "0000000000000000", waits, failed)
			want(t, "cancel", places, []State{Waiting, InFlight, Delayed, Gone, Gone, Delayed}, err)
			good, err := q.Extend(t.Context(), time.Minute, flying.Receipt)
			want(t, "extend", good, []bool{false}, err)
			_, err = q.Ack(t.Context(), flying.Receipt)
			wantError(t, err, millrace.ErrStale)
			wantSizes(t, q, 0, 0, 0, 0)
			if len(read(t, q, 10)) != 0 {
				t.Error("a cancelled message was delivered")
			}
			want(t, "cancelled", stats(t, q).Counters.Cancelled, int64(4), nil)
			wantNothingLeft(t, q)
		})
	}
}

func TestExtendKeepsAMessageInvisible(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	write(t, q, "a:x")
	messages, err := q.Read(t.Context(), ReadConfig{Visibility: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	good, err := q.Extend(t.Context(), time.Hour, messages[0].Receipt)
	want(t, "extend", good, []bool{true}, err)
	_, err = q.Read(t.Context(), ReadConfig{Block: time.Second})
	wantError(t, err, ErrEmpty)
	good, err = q.Extend(t.Context(), 20*time.Millisecond, messages[0].Receipt)
	want(t, "extend to less", good, []bool{true}, err)
	if m := eventually(t, q); m.Attempt != 2 {
		t.Errorf("attempt = %d, want 2", m.Attempt)
	}
}

// TestDelayAndDeadline: a delayed message comes after its delay, and none after its deadline.
func TestDelayAndDeadline(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	begun := time.Now()
	for _, d := range []Draft{
		{Tenant: "a", Body: []byte("soon"), Delay: 60 * time.Millisecond},
		{Tenant: "a", Body: []byte("late"), Delay: 30 * time.Millisecond, TTL: 20 * time.Millisecond},
		{Tenant: "b", Body: []byte("short"), TTL: 2 * time.Millisecond},
	} {
		if _, err := q.Write(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	passes(t, q.run.Client, 10*time.Millisecond)
	m := eventually(t, q)
	if string(m.Body) != "soon" {
		t.Errorf("read %q, want the delayed message", m.Body)
	}
	if m.PickupDelay > time.Since(begun)-50*time.Millisecond || m.Written.IsZero() {
		t.Errorf("message = %+v", m)
	}
	redistest.Eventually(t, "the others expire", func() bool {
		if len(read(t, q, 10)) > 0 {
			t.Fatal("a message was delivered after its deadline")
		}
		return stats(t, q).Counters.Expired == 2
	})
	wantSizes(t, q, 0, 1, 0, 0)
	ack(t, q, m)
	wantNothingLeft(t, q)
}

// TestDeadlineWhileSetAside: a message whose deadline came while it was delayed is gone
// when its time comes, and hides no others.
func TestDeadlineWhileSetAside(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	if _, err := q.Write(t.Context(), Draft{Tenant: "a", Delay: 60 * time.Millisecond, TTL: 5 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	passes(t, q.run.Client, 10*time.Millisecond)
	_, err := q.call(t.Context(), "tend", "")
	want(t, "tend", nil, nil, err)
	write(t, q, "a:behind")
	passes(t, q.run.Client, 60*time.Millisecond)
	_, err = q.call(t.Context(), "tend", "")
	want(t, "tend", nil, nil, err)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	messages, err := q.Read(ctx, ReadConfig{Max: 10})
	want(t, "read", bodies(messages), "behind", err)
	wantSizes(t, q, 0, 1, 0, 0)
}

// TestDeadlineIsForgotten when its message is done: it is no memory of it.
func TestDeadlineIsForgotten(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	for range 4 {
		if _, err := q.Write(t.Context(), Draft{Tenant: "a", TTL: time.Hour}); err != nil {
			t.Fatal(err)
		}
	}
	got := read(t, q, 3)
	ack(t, q, got[0])
	nack(t, q, NackConfig{Dead: true}, got[1])
	_, err := q.Dead().Purge(t.Context(), got[1].ID)
	want(t, "purge", nil, nil, err)
	_, err = q.Cancel(t.Context(), got[2].ID)
	want(t, "cancel", nil, nil, err)
	_, err = q.Ack(t.Context(), got[2].Receipt)
	wantError(t, err, millrace.ErrStale)
	ack(t, q, read(t, q, 1)...)
	wantNothingLeft(t, q)
}

// TestRedrivenMessageHasNoDeadline, also when the one that it had comes later.
func TestRedrivenMessageHasNoDeadline(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	id, err := q.Write(t.Context(), Draft{Tenant: "a", Body: []byte("x"), TTL: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	m := read(t, q, 1)[0]
	nack(t, q, NackConfig{Dead: true}, m)
	n, err := q.Dead().Redrive(t.Context(), id)
	want(t, "redrive", n, 1, err)
	passes(t, q.run.Client, 310*time.Millisecond)
	_, err = q.call(t.Context(), "tend", "")
	want(t, "tend", nil, nil, err)
	if got := read(t, q, 1); len(got) != 1 || !got[0].Deadline.IsZero() {
		t.Errorf("read %+v, want the message without a deadline", got)
	}
}

// TestDedupe: a second draft with a dedupe id is a duplicate until the window is over.
func TestDedupe(t *testing.T) {
	t.Parallel()
	q := open(t, Config{DedupeWindow: 100 * time.Millisecond})
	draft := Draft{Tenant: "a", DedupeID: "order 17"}
	written, err := q.WriteBatch(t.Context(), draft, draft)
	if err != nil || written[0].Duplicate || !written[1].Duplicate || written[0].ID != written[1].ID {
		t.Fatalf("written = %+v, %v, want the second to be a duplicate", written, err)
	}
	wantSizes(t, q, 1, 0, 0, 0)
	ack(t, q, read(t, q, 1)...)
	redistest.Eventually(t, "the window is over", func() bool {
		again, err := q.WriteBatch(t.Context(), draft)
		if err != nil {
			t.Fatal(err)
		}
		return !again[0].Duplicate
	})
	wantSizes(t, q, 1, 0, 0, 0)
}

// TestCancelFreesADedupeID: a message that is written again after its cancellation is a new one,
// not a duplicate of the cancelled one (F9 in docs/DEFECTS.md).
func TestCancelFreesADedupeID(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	for _, delay := range []time.Duration{0, time.Hour} {
		draft := Draft{Tenant: "a", DedupeID: fmt.Sprint("order 17:", delay), Delay: delay}
		for range 2 {
			written, err := q.WriteBatch(t.Context(), draft)
			if err != nil || written[0].Duplicate {
				t.Fatalf("written = %+v, %v, want a message", written, err)
			}
			_, err = q.Cancel(t.Context(), written[0].ID)
			want(t, "cancel", nil, nil, err)
		}
	}
	want(t, "read", bodies(read(t, q, 10)), "", nil) // which forgets the turns of tenants without messages
	wantNothingLeft(t, q)
}

// TestDedupeIDsAreTheTenants: two tenants with the same id do not swallow each
// other's messages, however they are named.
func TestDedupeIDsAreTheTenants(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	written, err := q.WriteBatch(t.Context(),
		Draft{Tenant: "a", DedupeID: "1"}, Draft{Tenant: "b", DedupeID: "1"}, Draft{Tenant: "a:1", DedupeID: "1"}, Draft{Tenant: "a", DedupeID: "1:1"})
	if err != nil {
		t.Fatal(err)
	}
	for i, w := range written {
		if w.Duplicate {
			t.Errorf("write %d is a duplicate", i)
		}
	}
}

func TestHeadersAndGzip(t *testing.T) {
	t.Parallel()
	q := open(t, Config{Gzip: 100})
	long, short := strings.Repeat("long ", 100), "\x00\xff short"
	headers := map[string]string{"traceparent": "00-x", "ünï": "\"quoted\""}
	for _, body := range []string{long, short, ""} {
		if _, err := q.Write(t.Context(), Draft{Tenant: "a", Body: []byte(body), Headers: headers}); err != nil {
			t.Fatal(err)
		}
	}
	plain := openOn(t, redistest.Shared(t).Client(t), q.name, Config{})
	for i, m := range read(t, plain, 3) {
		if body := string(m.Body); body != []string{long, short, ""}[i] {
			t.Errorf("body = %q", body)
		}
		if diff := cmp.Diff(headers, m.Headers); diff != "" {
			t.Errorf("headers (-want +got):\n%s", diff)
		}
	}
}

func TestPause(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	wantError(t, q.Pause(t.Context()), millrace.ErrNotFound)
	write(t, q, "a:1 a:2")
	flying := read(t, q, 1)
	want(t, "pause", nil, nil, q.Pause(t.Context()))
	want(t, "paused", stats(t, q).Paused, true, nil)
	_, err := q.Read(t.Context(), ReadConfig{})
	wantError(t, err, ErrPaused)
	_, err = q.Read(t.Context(), ReadConfig{Block: time.Second})
	wantError(t, err, ErrPaused)
	ack(t, q, flying...)
	write(t, q, "a:3")
	got := make(chan Message)
	go func() { got <- eventually(t, q) }()
	want(t, "resume", nil, nil, q.Resume(t.Context()))
	<-got
}

// TestAttemptsAreTheQueues: a process that sets no MaxAttempts, such as the
// command, leaves the queue's setting alone.
func TestAttemptsAreTheQueues(t *testing.T) {
	t.Parallel()
	q := open(t, Config{MaxAttempts: 7})
	write(t, q, "a:x")
	stranger := openOn(t, q.run.Client, q.name, Config{})
	write(t, stranger, "a:y")
	for range 7 {
		for _, m := range read(t, stranger, 2) {
			nack(t, stranger, NackConfig{}, m)
		}
	}
	if c := stats(t, q).Counters; c.Nacked != 14 || c.Buried != 2 {
		t.Errorf("counters = %+v, want two messages dead after seven attempts", c)
	}
}

// TestPriority is the place among the messages of a tenant, and gives it no turns.
func TestPriority(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	for i, priority := range []int{0, -4, 4, 0, 1} {
		if _, err := q.Write(t.Context(), Draft{Tenant: "a", Body: fmt.Append(nil, i), Priority: priority}); err != nil {
			t.Fatal(err)
		}
	}
	write(t, q, "b:b0 b:b1")
	got := read(t, q, 4)
	want(t, "order", bodies(got), "2 b0 4 b1", nil)
	want(t, "priority", got[0].Priority, 4, nil)
	nack(t, q, NackConfig{}, got[2]) // 4, in its old place
	want(t, "the rest", bodies(read(t, q, 10)), "4 0 3 1", nil)
}

// The oldest age is the wait for a reader: neither the delay of a message
// nor its time in flight counts.
func TestOldestAgeIsTheWait(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	write(t, q, "a:x")
	m := read(t, q, 1)[0]
	redistest.Eventually(t, "it is in hand for a while", func() bool { return time.Since(m.Written) > 100*time.Millisecond })
	back := time.Now()
	nack(t, q, NackConfig{}, m)
	if age, most := stats(t, q).OldestAge, time.Since(back)+10*time.Millisecond; age > most {
		t.Errorf("a message that came back %v ago has waited for %v", most, age)
	}
	if got := read(t, q, 1)[0]; got.PickupDelay > time.Since(back)+10*time.Millisecond {
		t.Errorf("pickup delay = %v", got.PickupDelay)
	}
}

// TestLenCountsWhatAWorkerCouldDo: also due and abandoned messages, whether or not
// a process has noticed (F8 in docs/DEFECTS.md).
func TestLenCountsWhatAWorkerCouldDo(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	n, err := q.Len(t.Context())
	want(t, "Len of no queue", n, 0, err)
	write(t, q, "a:1 a:2 a:3")
	if _, err := q.Read(t.Context(), ReadConfig{Visibility: minVisibility}); err != nil {
		t.Fatal(err)
	}
	read(t, q, 1)
	for _, delay := range []time.Duration{time.Millisecond, time.Hour} {
		if _, err := q.Write(t.Context(), Draft{Tenant: "a", Delay: delay}); err != nil {
			t.Fatal(err)
		}
	}
	passes(t, q.run.Client, minVisibility)
	n, err = q.Len(t.Context())
	want(t, "Len", n, 3, err) // the one that waits, the one that is due, the abandoned one
}

// TestReady: a server that takes messages is ready, with and without a queue. A full one and a
// replica are not, and nothing is left behind.
func TestReady(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	client := server.Client(t)
	q := openOn(t, client, "x", Config{})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(q.Ready(t.Context()))
	if keys, err := do(t, client, "KEYS", "*").AsStrSlice(); err != nil || len(keys) > 0 {
		t.Errorf("keys = %q, %v", keys, err)
	}
	write(t, q, "a:x")
	must(q.Ready(t.Context()))
	must(do(t, client, "CONFIG", "SET", "maxmemory", "1").Error())
	wantError(t, q.Ready(t.Context()), millrace.ErrFull)
	must(do(t, client, "CONFIG", "SET", "maxmemory", "0").Error())
	must(do(t, client, "REPLICAOF", "127.0.0.1", "1").Error())
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond) // it may become the master
	defer cancel()
	if err := q.Ready(ctx); err == nil {
		t.Error("a replica is ready")
	}
}

// TestBusyTenantsAreListed: a tenant all of whose messages are with handlers.
func TestBusyTenantsAreListed(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	for _, d := range []Draft{{Tenant: "slow"}, {Tenant: "user"}} {
		if _, err := q.Write(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	returns := make(chan struct{})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- q.Consume(ctx, ConsumeConfig{Concurrency: 4}, func(context.Context, Message) error { <-returns; return nil })
	}()
	redistest.Eventually(t, "both are with handlers", func() bool { return stats(t, q).InFlight == 2 })
	busy := map[string]int{}
	for _, f := range stats(t, q).Flows {
		busy[f.Tenant] += f.InFlight
	}
	if busy["slow"] != 1 || busy["user"] != 1 {
		t.Errorf("busy = %v", busy)
	}
	close(returns)
	redistest.Eventually(t, "nothing is listed", func() bool { return len(stats(t, q).Flows) == 0 })
	stop()
	<-done
}

// TestOldestAgeOfAThrottledTenant: a message that is handed back or throttled waits since its write: a tenant that is
// throttled again and again is not young.
func TestOldestAgeOfAThrottledTenant(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	before := time.Now()
	write(t, q, "a:x")
	m := read(t, q, 1)[0]
	after := time.Now()
	redistest.Eventually(t, "a moment has passed", func() bool { return time.Since(after) > 50*time.Millisecond })
	_, _, err := q.Exchange(t.Context(), map[string]error{m.Receipt: Throttle(time.Hour, errors.New("429"))}, ReadConfig{})
	if err != nil && !errors.Is(err, ErrEmpty) {
		t.Fatal(err)
	}
	s := stats(t, q)
	if least := time.Since(before) - 20*time.Millisecond; s.OldestAge < 50*time.Millisecond || s.OldestAge > time.Since(before)+20*time.Millisecond {
		t.Errorf("the oldest is %s old, want %s at least", s.OldestAge, least)
	}
	if err := q.Limits().Resume(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if got := eventually(t, q); got.PickupDelay < 50*time.Millisecond || got.Attempt != 1 {
		t.Errorf("pickup delay %s, attempt %d, want more than 50 ms of the first", got.PickupDelay, got.Attempt)
	}
}
