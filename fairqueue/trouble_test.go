package fairqueue

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/internal/test/scripttest"
)

// TestRepeatBehindOthers: a write that is sent again, as after a lost reply, is done once,
// though 25,000 calls of others come before that.
func TestRepeatBehindOthers(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	client := server.Client(t)
	scripttest.Load(t, client, library)
	q := openOn(t, client, "x", Config{})
	request := q.run.Request(t.Context())
	defer request.Done()
	send := func() string {
		t.Helper()
		reply, err := q.run.RunRequest(t.Context(), request, "write", baseKey("x"), "0", "1000", "0", "", "=b", "4", "\x00")
		if err != nil {
			t.Fatal(err)
		}
		want(t, "another setting", reply.Bool(), false, nil)
		return reply.Text()
	}
	id := send()
	const others = 25_000
	var calls redistest.Pipeline
	for i := range others {
		calls.Add("EVALSHA", library.Script("write").SHA(), "1", baseKey("x"),
			"0", "1000", "0", "", "=a", "4", "\x00", fmt.Sprint("other:", i%100), fmt.Sprintf("%016dAAAAAAAAAAA", i))
	}
	calls.Send(t, server)
	want(t, "the id of the repeat", send(), id, nil)
	n, err := q.Len(t.Context())
	want(t, "Len", n, others+1, err)
}

// TestCancelledReadOrphansNothing cancels blocked reads at the moment in which a
// message comes. Whichever reader gets it, it is not lost and no attempt is counted (Q23
// in docs/DEFECTS.md).
func TestCancelledReadOrphansNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	q, writer := openOn(t, server.Client(t), "x", Config{}), openOn(t, server.Client(t), "x", Config{})
	taken := 0
	for i := range 40 {
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan []Message)
		go func() {
			messages, err := q.Read(ctx, ReadConfig{Block: -1, Visibility: time.Hour})
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("read: %v", err)
			}
			got <- messages
		}()
		blockedReaders(t, server, 1)
		timer := time.AfterFunc(time.Duration(i)*25*time.Microsecond, cancel)
		write(t, writer, "a:x")
		messages := <-got
		timer.Stop()
		cancel()
		if len(messages) > 0 {
			taken++
		} else {
			messages = []Message{eventually(t, writer)}
		}
		if messages[0].Attempt != 1 {
			t.Errorf("attempt = %d, want 1: nobody had it", messages[0].Attempt)
		}
		ack(t, writer, messages...)
		blockedReaders(t, server, 0)
	}
	wantSizes(t, writer, 0, 0, 0, 0)
	t.Logf("%d of 40 reads had the message before they were cancelled", taken)
}

// TestExpiredMessagesHideNone: a read looks behind messages whose deadline has
// come, however many, and a sleeping reader does not sleep between them (F4 in
// docs/DEFECTS.md).
func TestExpiredMessagesHideNone(t *testing.T) {
	t.Parallel()
	for _, block := range []time.Duration{0, 10 * time.Second} {
		t.Run(fmt.Sprint("block ", block), func(t *testing.T) {
			t.Parallel()
			q := open(t, Config{})
			drafts := make([]Draft, 5000)
			for i := range drafts {
				drafts[i] = Draft{Tenant: "a", TTL: time.Millisecond}
			}
			if _, err := q.WriteBatch(t.Context(), drafts...); err != nil {
				t.Fatal(err)
			}
			passes(t, q.run.Client, 2*time.Millisecond)
			write(t, q, "a:good")
			messages, err := q.Read(t.Context(), ReadConfig{Block: block}) // with a doze after each turn it takes a minute
			if err != nil {
				t.Fatalf("read = %v, want the message behind the expired ones", err)
			}
			ack(t, q, messages...)
			wantSizes(t, q, 0, 0, 0, 0)
			want(t, "expired", stats(t, q).Counters.Expired, int64(5000), nil)
		})
	}
}

// TestFullServer: writing fails and changes nothing; all that drains goes on.
func TestFullServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{Policy: "noeviction"})
	client := server.Client(t)
	ctx := t.Context()
	limit := func(bytes string) {
		t.Helper()
		if err := do(t, client, "CONFIG", "SET", "maxmemory", bytes).Error(); err != nil {
			t.Fatal(err)
		}
	}
	q := openOn(t, client, "x", Config{MaxAttempts: 3})
	write(t, q, "a:1 a:2 a:3 b:4 b:5 c:6 c:7 d:8")
	aside, err := q.Write(ctx, Draft{Tenant: "a", Body: []byte("aside"), Delay: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	soon, err := q.Write(ctx, Draft{Tenant: "a", Body: []byte("soon"), Delay: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}

	limit("1")
	before := dump(t, q)
	for place, n := range map[State]int{Waiting: 8, InFlight: 0, Delayed: 2} {
		messages, _, err := q.Browse(ctx, BrowseConfig{State: place})
		want(t, "browsed", len(messages), n, err)
	}
	for _, d := range []Draft{{Tenant: "a"}, {Tenant: "a", Delay: time.Hour}, {Tenant: "a", DedupeID: "x"}, {Tenant: "new", TTL: time.Hour}} {
		_, err := q.Write(ctx, d)
		wantError(t, err, millrace.ErrFull)
	}
	_, err = openOn(t, client, "fresh", Config{IdleExpiry: time.Hour}).Write(ctx, Draft{Tenant: "a"})
	wantError(t, err, millrace.ErrFull)
	if diff := cmp.Diff(before, dump(t, q)); diff != "" {
		t.Errorf("refused writes changed the queue (-before +after):\n%s", diff)
	}
	if n, err := do(t, client, "EXISTS", baseKey("fresh")).AsInt64(); n != 0 || err != nil {
		t.Errorf("a refused first write left a queue: %d, %v", n, err)
	}

	got := map[string]Message{}
	redistest.Eventually(t, "all but one are read, the delayed one too", func() bool {
		for _, m := range read(t, q, 3) {
			got[string(m.Body)] = m
		}
		return len(got) == 9
	})
	ack(t, q, got["1"], got["2"])
	good, err := q.Extend(ctx, time.Hour, got["3"].Receipt, got["4"].Receipt)
	want(t, "extend", good, []bool{true, true}, err)
	for body, cfg := range map[string]NackConfig{"3": {}, "4": {Delay: time.Hour}, "5": {Dead: true}, "6": {Dead: true}} {
		if _, err := q.Nack(ctx, cfg, got[body].Receipt); err != nil {
			t.Errorf("nack %+v on a full server: %v", cfg, err)
		}
	}
	places, err := q.Cancel(ctx, aside, got["3"].ID, got["4"].ID, got["7"].ID)
	want(t, "cancel", places, []State{Delayed, Waiting, Delayed, InFlight}, err)
	n, err := q.Dead().Redrive(ctx, got["5"].ID)
	want(t, "redrive", n, 1, err)
	n, err = q.Dead().Purge(ctx, got["6"].ID)
	want(t, "purge", n, 1, err)
	wantSizes(t, q, 1, 3, 0, 0) // 5; 8, soon and 7, which was cancelled
	for _, call := range []func(context.Context) error{q.Pause, q.Resume} {
		if err := call(ctx); err != nil {
			t.Errorf("pause or resume on a full server: %v", err)
		}
	}
	good, err = q.Extend(ctx, minVisibility, got["8"].Receipt, got["soon"].Receipt)
	want(t, "extend", good, []bool{true, true}, err)
	seen := map[string]int{}
	redistest.Eventually(t, "what was in flight comes again", func() bool {
		for _, m := range read(t, q, 10) {
			seen[string(m.Body)] = m.Attempt
			ack(t, q, m)
		}
		return len(seen) == 3
	})
	want(t, "read again", seen, map[string]int{"5": 1, "8": 2, "soon": 2}, nil)
	if got["soon"].ID != soon {
		t.Errorf("id = %s, then %s", soon, got["soon"].ID)
	}
	limit("0")
	wantSizes(t, q, 0, 1, 0, 0)
}

// TestFullServerNeedsAFirstWrite that it does not refuse: without it nothing could be read
// from a full server.
func TestFullServerNeedsAFirstWrite(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{Policy: "noeviction"})
	q := openOn(t, server.Client(t), "x", Config{})
	write(t, q, "a:1 a:2 a:3")
	if err := do(t, q.run.Client, "CONFIG", "SET", "maxmemory", "1").Error(); err != nil {
		t.Fatal(err)
	}
	want(t, "messages read", len(read(t, q, 1)), 1, nil)
	q.run.Scripts = scripttest.Without(t, library, "redis.call('HDEL', K, 'none')", "")
	_, err := q.Read(t.Context(), ReadConfig{Visibility: time.Second}) // the short form begins with one
	wantError(t, err, millrace.ErrFull)
}
