package fairqueue

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redistest"
	"github.com/millrace/millrace/shuffleshard"
)

func TestLife(t *testing.T) {
	t.Parallel()
	q := open(t, Config{Streams: 4, PerTenant: 2})
	_, err := q.Read(t.Context(), ReadConfig{})
	wantError(t, err, ErrEmpty)
	if n, err := do(t, q.run.Client, "EXISTS", baseKey(q.name)).AsInt64(); n != 0 || err != nil {
		t.Errorf("a read created the queue: %d, %v", n, err)
	}
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
	}
	if len(read(t, q, 10)) != 0 {
		t.Error("messages were delivered twice")
	}
	ack(t, q, got...)
	wantSizes(t, q, 0, 0, 0, 0)
	_, err = q.Ack(t.Context(), got[0].Receipt)
	wantError(t, err, ErrStale)
	places, err := q.Cancel(t.Context(), ids...)
	want(t, "cancel what is done", places, []Place{Nowhere, Nowhere, Nowhere}, err)
	c := stats(t, q).Counters
	want(t, "counters", c, Counters{Written: 3, Delivered: 3, Acked: 3}, nil)
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
	first := read(t, q, 1)[0]
	check(1, first)
	if err := q.Nack(t.Context(), first.Receipt, NackConfig{}); err != nil {
		t.Fatal(err)
	}
	_, err := q.Ack(t.Context(), first.Receipt)
	wantError(t, err, ErrStale)
	second := read(t, q, 1)[0]
	check(2, second)
	if err := q.Nack(t.Context(), second.Receipt, NackConfig{Delay: 20 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	wantSizes(t, q, 0, 0, 1, 0)
	third, err := q.Read(t.Context(), ReadConfig{Block: 10 * time.Second, Visibility: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	check(3, third[0])
	fourth := eventually(t, q) // the third reader did not finish in time
	check(4, fourth)
	wantError(t, q.Nack(t.Context(), third[0].Receipt, NackConfig{}), ErrStale)
	if !fourth.Written.Equal(first.Written) {
		t.Errorf("written %v, then %v", first.Written, fourth.Written)
	}
	if err := q.Nack(t.Context(), fourth.Receipt, NackConfig{Reason: "too hot"}); err != nil {
		t.Fatal(err)
	}
	wantSizes(t, q, 0, 0, 0, 1)
	for m, err := range q.Dead(t.Context()) {
		if err != nil || m.ID != id || m.Reason != "too hot" || m.Attempt != 4 || string(m.Body) != "x" {
			t.Errorf("dead = %+v, %v", m, err)
		}
	}
	n, err := q.Redrive(t.Context(), id, id)
	want(t, "redrive", n, 1, err)
	again := read(t, q, 1)[0]
	delete(seen, again.Receipt)
	check(1, again)
	if err := q.Nack(t.Context(), again.Receipt, NackConfig{Dead: true}); err != nil {
		t.Fatal(err)
	}
	n, err = q.Purge(t.Context(), id)
	want(t, "purge", n, 1, err)
	wantSizes(t, q, 0, 0, 0, 0)
	if n, err := do(t, q.run.Client, "EXISTS", baseKey(q.name)+":places").AsInt64(); n != 0 || err != nil {
		t.Errorf("places of messages that are gone are left: %d, %v", n, err)
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	ids := write(t, q, "a:waits b:flies")
	delayed, err := q.Write(t.Context(), Draft{Tenant: "c", Body: []byte("later"), Delay: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	var flying Message
	for _, m := range read(t, q, 2) {
		if m.ID == ids[1] {
			flying = m
		} else if err := q.Nack(t.Context(), m.Receipt, NackConfig{}); err != nil {
			t.Fatal(err)
		}
	}
	wantSizes(t, q, 1, 1, 1, 0)
	places, err := q.Cancel(t.Context(), ids[0], ids[1], delayed, "1-1.0", "1-1.d", ids[0])
	want(t, "cancel", places, []Place{Waiting, InFlight, Delayed, Nowhere, Nowhere, Nowhere}, err)
	wantSizes(t, q, 0, 0, 0, 0)
	_, err = q.Ack(t.Context(), flying.Receipt)
	wantError(t, err, ErrStale)
	good, err := q.Extend(t.Context(), time.Minute, flying.Receipt)
	want(t, "extend", good, []bool{false}, err)
	if len(read(t, q, 10)) != 0 {
		t.Error("a cancelled message was delivered")
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
	_, err = q.Read(t.Context(), ReadConfig{Block: 150 * time.Millisecond})
	wantError(t, err, ErrEmpty)
	good, err = q.Extend(t.Context(), 20*time.Millisecond, messages[0].Receipt)
	want(t, "extend to less", good, []bool{true}, err)
	if m := eventually(t, q); m.Attempt != 2 {
		t.Errorf("attempt = %d, want 2", m.Attempt)
	}
}

func TestDelayAndDeadline(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	for _, d := range []Draft{
		{Tenant: "a", Body: []byte("soon"), Delay: 60 * time.Millisecond},
		{Tenant: "a", Body: []byte("late"), Delay: 30 * time.Millisecond, Deadline: 20 * time.Millisecond},
		{Tenant: "b", Body: []byte("short"), Deadline: 2 * time.Millisecond},
	} {
		if _, err := q.Write(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	start := time.Now()
	redistest.Eventually(t, "the short one's deadline has come", func() bool { return time.Since(start) > 10*time.Millisecond })
	m := eventually(t, q)
	if took := time.Since(start); string(m.Body) != "soon" || took > 900*time.Millisecond {
		t.Errorf("read %q after %v, want the delayed message when it is due", m.Body, took)
	}
	if m.PickupDelay > time.Second || m.Written.IsZero() {
		t.Errorf("message = %+v", m)
	}
	redistest.Eventually(t, "the others expire", func() bool {
		if len(read(t, q, 10)) > 0 {
			t.Fatal("a message was delivered after its deadline")
		}
		return stats(t, q).Counters.Expired == 2
	})
	wantSizes(t, q, 0, 1, 0, 0)
}

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

func TestHeadersAndGzip(t *testing.T) {
	t.Parallel()
	q := open(t, Config{Gzip: 100})
	long, short := strings.Repeat("long ", 100), "\x00\xff short"
	headers := map[string]string{"traceparent": "00-x", "ünï": "\"quoted\""}
	for _, body := range []string{long, short} {
		if _, err := q.Write(t.Context(), Draft{Tenant: "a\x00\xff", Body: []byte(body), Headers: headers}); err != nil {
			t.Fatal(err)
		}
	}
	plain := openOn(t, q.run.Client, q.name, Config{})
	for _, m := range read(t, plain, 2) {
		if body := string(m.Body); body != long && body != short || m.Tenant != "a\x00\xff" {
			t.Errorf("body = %q of %q", body, m.Tenant)
		}
		if diff := cmp.Diff(headers, m.Headers); diff != "" {
			t.Errorf("headers (-want +got):\n%s", diff)
		}
	}
	if n, err := do(t, q.run.Client, "MEMORY", "USAGE", baseKey(q.name)).AsInt64(); err != nil || n == 0 {
		t.Errorf("memory = %d, %v", n, err)
	}
}

func TestPause(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	wantError(t, q.Pause(t.Context()), millrace.ErrNotFound)
	write(t, q, "a:1 a:2")
	flying := read(t, q, 1)
	if err := q.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err := q.Read(t.Context(), ReadConfig{})
	wantError(t, err, ErrPaused)
	ack(t, q, flying...)
	write(t, q, "a:3")
	got := make(chan Message)
	go func() { got <- eventually(t, q) }()
	if err := q.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-got
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "a{b", "a}", "a\n", strings.Repeat("x", 513)} {
		_, err := New(nil, name, Config{})
		wantError(t, err, millrace.ErrBadName)
	}
	for _, cfg := range []Config{{Streams: -1}, {Streams: MaxStreams + 1}, {PerTenant: -1}, {MaxAttempts: -1}, {DedupeWindow: -1}, {Gzip: -1}} {
		_, err := New(nil, "x", cfg)
		wantError(t, err, millrace.ErrBadArgument)
	}
	q := openOn(t, nil, "x", Config{}) // none of this asks Redis
	for _, d := range []Draft{
		{}, {Tenant: strings.Repeat("x", 513)}, {Tenant: "a", DedupeID: strings.Repeat("x", 513)},
		{Tenant: "a", Delay: -1}, {Tenant: "a", Deadline: -1}, {Tenant: "a", Deadline: 1},
	} {
		_, err := q.WriteBatch(t.Context(), Draft{Tenant: "fine"}, d)
		wantError(t, err, millrace.ErrBadArgument)
	}
	for _, cfg := range []ReadConfig{{Max: -1}, {Max: 1001}, {Visibility: time.Millisecond}, {Visibility: 13 * time.Hour}, {Prefer: -1}, {Prefer: 1025}, {Consumer: "a\nb"}, {Consumer: strings.Repeat("x", 513)}} {
		_, err := q.Read(t.Context(), cfg)
		wantError(t, err, millrace.ErrBadArgument)
	}
	for _, receipt := range []string{"", "x", "1:1", "1:1-1:", "1:1-1:x", "1:1-1 ", "12345:1-1"} {
		_, err := q.Ack(t.Context(), receipt)
		wantError(t, err, millrace.ErrBadArgument)
		wantError(t, q.Nack(t.Context(), receipt, NackConfig{}), millrace.ErrBadArgument)
		_, err = q.Extend(t.Context(), time.Minute, receipt)
		wantError(t, err, millrace.ErrBadArgument)
	}
	for _, id := range []string{"", "x", "1-1", "1-1.x", "1-1.12345"} {
		_, err := q.Cancel(t.Context(), id)
		wantError(t, err, millrace.ErrBadArgument)
		_, err = q.Redrive(t.Context(), id)
		wantError(t, err, millrace.ErrBadArgument)
		_, err = q.Purge(t.Context(), id)
		wantError(t, err, millrace.ErrBadArgument)
	}
	for _, cfg := range []BrowseConfig{
		{Max: -1}, {Max: 1001}, {Place: "dead"}, {Tenant: strings.Repeat("x", 513)},
		{After: "x"}, {After: "1"}, {After: "1.1"}, {After: "1:1-1"}, {After: "12345.1-1"}, {After: ".1-1"},
	} {
		_, err := q.Browse(t.Context(), cfg)
		wantError(t, err, millrace.ErrBadArgument)
	}
	for _, tenant := range []string{"", strings.Repeat("x", 513)} {
		_, err := q.Shard(t.Context(), tenant)
		wantError(t, err, millrace.ErrBadArgument)
	}
	wantError(t, q.Nack(t.Context(), "1:1-1", NackConfig{Delay: -1}), millrace.ErrBadArgument)
	wantError(t, q.Resize(t.Context(), 0, 0), millrace.ErrBadArgument)
	wantError(t, q.Resize(t.Context(), 4, 5), millrace.ErrBadArgument)
	for _, cfg := range []ConsumeConfig{{Concurrency: -1}, {Visibility: 1}, {Drain: -1}, {Affinity: -1}} {
		wantError(t, q.Consume(t.Context(), cfg, nil), millrace.ErrBadArgument)
	}
}

// TestRoundRobin: one message a stream a turn, first in first out within a
// stream, and the cursor goes on where the last read ended.
func TestRoundRobin(t *testing.T) {
	t.Parallel()
	for _, batch := range []int{1, 3, 100} {
		t.Run(fmt.Sprint(batch), func(t *testing.T) {
			t.Parallel()
			q := open(t, Config{Streams: 4, PerTenant: 1})
			tenants := [4]string{} // one for each stream
			for i, found := 0, 0; found < 4; i++ {
				name := fmt.Sprint("tenant", i)
				index := shuffleshard.Get(4, 1, name)[0]
				if tenants[index] == "" {
					tenants[index], found = name, found+1
				}
			}
			for j := range 10 {
				for i := range 4 {
					write(t, q, fmt.Sprintf("%s:%d-%d", tenants[i], i, j))
				}
			}
			var got []string
			for {
				some := read(t, q, batch)
				if len(some) == 0 {
					break
				}
				got = append(got, strings.Fields(bodies(some))...)
			}
			var expected []string
			for j := range 10 {
				for i := range 4 {
					expected = append(expected, fmt.Sprintf("%d-%d", i, j))
				}
			}
			want(t, "order", got, expected, nil)
		})
	}
}

// TestQuietTenantsBehindAFlood is the position of 60 tenants with one message
// each behind 3,000 of another.
func TestQuietTenantsBehindAFlood(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	flood := make([]Draft, 3000)
	for i := range flood {
		flood[i] = Draft{Tenant: "noisy", Body: []byte("noise")}
	}
	if _, err := q.WriteBatch(t.Context(), flood...); err != nil {
		t.Fatal(err)
	}
	for i := range 60 {
		write(t, q, fmt.Sprintf("quiet%d:quiet", i))
	}
	worst := 0
	for position := range 200 {
		m := read(t, q, 1)
		if len(m) == 0 {
			break
		}
		if string(m[0].Body) == "quiet" {
			worst = position + 1
		}
	}
	if worst > 70 {
		t.Errorf("the last quiet tenant is at position %d, want at most 70", worst)
	}
	if got := stats(t, q).Waiting; got != 3060-200 {
		t.Errorf("waiting = %d", got)
	}
}

func TestPrefer(t *testing.T) {
	t.Parallel()
	q := open(t, Config{Streams: 8, PerTenant: 1})
	for i := range 40 {
		write(t, q, fmt.Sprintf("tenant%d:x tenant%d:x", i, i))
	}
	first := read(t, q, 1)[0]
	messages, err := q.Read(t.Context(), ReadConfig{Prefer: first.Stream + 1})
	if err != nil || messages[0].Stream != first.Stream {
		t.Errorf("preferred read = %+v, %v, want stream %d", messages, err, first.Stream)
	}
	next := read(t, q, 1)[0]
	if next.Stream == first.Stream {
		t.Errorf("the next read is of stream %d again", next.Stream)
	}
	if _, err := q.Read(t.Context(), ReadConfig{Prefer: 8}); err != nil && !errors.Is(err, ErrEmpty) {
		t.Error(err)
	}
}

// TestAttemptsAreTheQueues: a process that says nothing of attempts, as the
// command does, leaves it at what the queue was made for.
func TestAttemptsAreTheQueues(t *testing.T) {
	t.Parallel()
	q := open(t, Config{MaxAttempts: 7})
	write(t, q, "a:x")
	stranger := openOn(t, q.run.Client, q.name, Config{})
	write(t, stranger, "a:y")
	for range 7 {
		for _, m := range read(t, stranger, 2) {
			if err := stranger.Nack(t.Context(), m.Receipt, NackConfig{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if c := stats(t, q).Counters; c.Nacked != 14 || c.Buried != 2 {
		t.Errorf("counters = %+v, want two messages dead after seven attempts", c)
	}
}

func TestDeleteRemovesWhateverIsThere(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	for _, key := range []string{baseKey(q.name), baseKey(q.name) + ":s:3"} {
		if err := do(t, q.run.Client, "SET", key, "x").Error(); err != nil {
			t.Fatal(err)
		}
	}
	n, err := q.Delete(t.Context())
	want(t, "delete", n, 2, err)
}

func TestHeadersAreText(t *testing.T) {
	t.Parallel()
	_, err := openOn(t, nil, "x", Config{}).Write(t.Context(), Draft{Tenant: "a", Headers: map[string]string{"k": "\xff"}})
	wantError(t, err, millrace.ErrBadArgument)
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

// TestAnyWriteTouches: a writer that knows nothing of the expiry keeps the queue
// alive, too.
func TestAnyWriteTouches(t *testing.T) {
	t.Parallel()
	q := open(t, Config{IdleExpiry: time.Hour})
	write(t, q, "a:x")
	touched := func() string {
		text, err := do(t, q.run.Client, "HGET", baseKey(q.name), "touched").ToString()
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	before := touched()
	other := openOn(t, q.run.Client, q.name, Config{})
	redistest.Eventually(t, "a later write is noted", func() bool {
		write(t, other, "a:y")
		return touched() != before
	})
}

// The oldest age is the wait for a reader: neither the time that a message was set aside
// nor that in which somebody had it.
func TestOldestAgeIsTheWait(t *testing.T) {
	t.Parallel()
	q := open(t, Config{})
	write(t, q, "a:x")
	m := read(t, q, 1)[0]
	redistest.Eventually(t, "it is in hand for a while", func() bool { return time.Since(m.Written) > 100*time.Millisecond })
	back := time.Now()
	if err := q.Nack(t.Context(), m.Receipt, NackConfig{}); err != nil {
		t.Fatal(err)
	}
	if age, most := stats(t, q).OldestAge, time.Since(back)+10*time.Millisecond; age > most {
		t.Errorf("a message that came back %v ago has waited for %v", most, age)
	}
}
