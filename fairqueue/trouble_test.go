package fairqueue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redistest"
	"github.com/millrace/millrace/internal/script"
	"github.com/millrace/millrace/internal/script/scripttest"
)

// load writes messages with bodies of their own and counts how often each was
// handled.
type load struct {
	q       *Queue
	written atomic.Int64

	mu      sync.Mutex
	bodies  []string
	handled map[string]int
}

func newLoad(q *Queue) *load { return &load{q: q, handled: map[string]int{}} }

// produce writes from several goroutines until stop is called. A write that
// failed is done again under another body, for nobody knows what became of it.
func (l *load) produce(t *testing.T, writers int) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for w := range writers {
		running.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				body := fmt.Sprint(w, "-", i)
				// One that was cancelled could arrive after the queue was drained.
				if _, err := l.q.Write(context.WithoutCancel(ctx), Draft{Tenant: fmt.Sprint("tenant", i%7), Body: []byte(body)}); err != nil {
					continue
				}
				l.mu.Lock()
				l.bodies = append(l.bodies, body)
				l.mu.Unlock()
				l.written.Add(1)
			}
		})
	}
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			running.Wait()
		})
	}
	t.Cleanup(stop)
	return stop
}

func (l *load) handle(_ context.Context, m Message) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.handled[string(m.Body)]++
	return nil
}

// after waits until n more messages were written, so that trouble falls into
// work.
func (l *load) after(t *testing.T, n int64) {
	t.Helper()
	goal := l.written.Load() + n
	redistest.Eventually(t, "more is written", func() bool { return l.written.Load() >= goal })
}

// check says which messages were handled never, or more often than most.
func (l *load) check(t *testing.T, most int) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	twice := 0
	for _, body := range l.bodies {
		switch n := l.handled[body]; {
		case n == 0:
			t.Errorf("lost: %s", body)
		case n > most:
			t.Errorf("%s was handled %d times", body, n)
		case n > 1:
			twice++
		}
	}
	t.Logf("%d messages, %d of them handled more than once", len(l.bodies), twice)
}

// drained waits until nothing waits, is in flight or set aside.
func drained(t *testing.T, q *Queue) {
	t.Helper()
	redistest.Eventually(t, "the queue is drained", func() bool {
		s, err := q.Stats(t.Context())
		return err == nil && s.Waiting+s.InFlight+s.Delayed == 0
	})
}

// underLoad writes and consumes while trouble plays. No message may be lost, and
// none handled more often than most.
func underLoad(t *testing.T, client rueidis.Client, most int, trouble func(l *load)) {
	t.Helper()
	q := openOn(t, client, redistest.Name(t), Config{Streams: 8})
	l := newLoad(q)
	stopConsuming := consume(t, q, ConsumeConfig{Visibility: 2 * time.Second}, l.handle)
	stop := l.produce(t, 4)
	trouble(l)
	stop()
	drained(t, q)
	stopConsuming()
	l.check(t, most)
	wantSizes(t, q, 0, 0, 0, 0)
}

func TestRestartUnderLoad(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{AOF: true})
	underLoad(t, server.Client(t), 3, func(l *load) {
		for range 3 {
			l.after(t, 200)
			server.Kill()
			server.Restart()
		}
		l.after(t, 200)
	})
}

func TestScriptFlushUnderLoad(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	client := server.Client(t)
	underLoad(t, client, 1, func(l *load) {
		for range 20 {
			l.after(t, 50)
			if err := do(t, client, "SCRIPT", "FLUSH").Error(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestLostRepliesUnderLoad(t *testing.T) {
	t.Parallel()
	proxy := redistest.NewProxy(t, redistest.Shared(t).Addr())
	underLoad(t, proxy.Client(t), 1, func(l *load) {
		for range 20 {
			l.after(t, 20)
			lost := proxy.DropReply(evalsha)
			redistest.Eventually(t, "a reply is lost", func() bool { return lost.Count() == 1 })
		}
	})
}

// TestVisibilityOutlivesARestart: what was in flight stays so when the server
// comes back, and comes again when its time is over.
func TestVisibilityOutlivesARestart(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{AOF: true})
	q := openOn(t, server.Client(t), "x", Config{})
	write(t, q, "a:1 b:2")
	first := read(t, q, 1)[0]
	server.Kill()
	server.Restart()
	redistest.Eventually(t, "the server answers", func() bool { _, err := q.Len(t.Context()); return err == nil })
	wantSizes(t, q, 1, 1, 0, 0)
	ack(t, q, read(t, q, 10)...)
	if got := read(t, q, 10); len(got) != 0 {
		t.Fatalf("read %q while it is in flight", bodies(got))
	}
	good, err := q.Extend(t.Context(), MinVisibility, first.Receipt)
	want(t, "extend", good, []bool{true}, err)
	again := eventually(t, q)
	if again.ID != first.ID || again.Attempt != 2 {
		t.Errorf("read = %+v, want %s at attempt 2", again, first.ID)
	}
}

// TestConsumerOutlivesTrouble with the connection and with the server.
func TestConsumerOutlivesTrouble(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{AOF: true})
	proxy := redistest.NewProxy(t, server.Addr())
	q := openOn(t, proxy.Client(t), "x", Config{})
	l := newLoad(q)
	consume(t, q, ConsumeConfig{Visibility: time.Second}, l.handle)
	for i, trouble := range []func(){
		proxy.Cut,
		func() { proxy.Refuse(true); proxy.Cut(); proxy.Refuse(false) },
		func() { server.Kill(); server.Restart() },
		func() { server.Pause(); server.Resume() },
		func() { do(t, server.Client(t), "FLUSHALL") },
		func() { do(t, server.Client(t), "CLIENT", "KILL", "TYPE", "normal") },
	} {
		trouble()
		body := fmt.Sprint("after trouble ", i)
		redistest.Eventually(t, "the server takes a message", func() bool {
			_, err := q.Write(t.Context(), Draft{Tenant: "a", Body: []byte(body)})
			return err == nil
		})
		redistest.Eventually(t, body+": the message is handled", func() bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.handled[body] > 0
		})
	}
}

// TestDeletedWhileReadersBlock: readers go on when a stream or the whole queue is
// deleted under them, and take what is written afterwards (Q21 in docs/DEFECTS.md).
func TestDeletedWhileReadersBlock(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"a stream with messages", "all streams", "the queue"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, redistest.Options{})
			q := openOn(t, server.Client(t), "x", Config{Streams: 4, PerTenant: 1})
			write(t, q, "a:1")
			flying := read(t, q, 1)[0]
			if what == "a stream with messages" {
				ack(t, q, flying)
			}
			got := make(chan Message)
			for range 2 {
				go func() { got <- eventually(t, q) }()
			}
			blockedReaders(t, server, 1)
			switch what {
			case "the queue":
				if n, err := q.Delete(t.Context()); err != nil || n == 0 {
					t.Fatalf("delete = %d, %v", n, err)
				}
			case "all streams":
				for i := range 4 {
					do(t, q.run.Client, "DEL", fmt.Sprint(baseKey("x"), ":s:", i))
				}
				good, err := q.Extend(t.Context(), time.Minute, flying.Receipt)
				want(t, "extend", good, []bool{false}, err)
				_, err = q.Ack(t.Context(), flying.Receipt)
				wantError(t, err, ErrStale)
			case "a stream with messages":
				// Written and gone before anybody can look, so that more is counted
				// than there is.
				err := do(t, q.run.Client, "EVAL", strings.Join([]string{
					"redis.call('XADD', KEYS[1] .. ':s:' .. ARGV[1], '*', 't', 'a', 'b', 'lost')",
					"redis.call('SETRANGE', KEYS[1] .. ':waits', 4 * ARGV[1], '\\0\\0\\0\\3')",
					"redis.call('HINCRBY', KEYS[1], 'in', 3)",
					"return redis.call('DEL', KEYS[1] .. ':s:' .. ARGV[1])",
				}, "\n"), "1", baseKey("x"), fmt.Sprint(flying.Stream)).Error()
				if err != nil {
					t.Fatal(err)
				}
			}
			write(t, q, "a:2 b:3")
			seen := map[string]bool{}
			for range 2 {
				m := <-got
				seen[string(m.Body)] = true
				ack(t, q, m)
			}
			want(t, "read after the deletion", seen, map[string]bool{"2": true, "3": true}, nil)
			read(t, q, 1) // a read notices that more was counted than there is
			wantSizes(t, q, 0, 0, 0, 0)
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
	q := openOn(t, client, "x", Config{Streams: 4, PerTenant: 2, MaxAttempts: 3})
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
	for place, n := range map[Place]int{Waiting: 8, InFlight: 0, Delayed: 2} {
		page, err := q.Browse(ctx, BrowseConfig{Place: place})
		want(t, "browsed", len(page.Messages), n, err)
	}
	for _, d := range []Draft{{Tenant: "a"}, {Tenant: "a", Delay: time.Hour}, {Tenant: "a", DedupeID: "x"}, {Tenant: "new", Deadline: time.Hour}} {
		_, err := q.Write(ctx, d)
		wantError(t, err, millrace.ErrFull)
	}
	wantError(t, q.Resize(ctx, 8, 0), millrace.ErrFull)
	wantError(t, openOn(t, client, "fresh", Config{}).Resize(ctx, 8, 0), millrace.ErrFull)
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
		if err := q.Nack(ctx, got[body].Receipt, cfg); err != nil {
			t.Errorf("nack %+v on a full server: %v", cfg, err)
		}
	}
	places, err := q.Cancel(ctx, aside, got["3"].ID, got["4"].ID, got["7"].ID)
	want(t, "cancel", places, []Place{Delayed, Waiting, Delayed, InFlight}, err)
	n, err := q.Redrive(ctx, got["5"].ID)
	want(t, "redrive", n, 1, err)
	n, err = q.Purge(ctx, got["6"].ID)
	want(t, "purge", n, 1, err)
	wantSizes(t, q, 1, 2, 0, 0) // 5; 8 and soon
	for _, call := range []func(context.Context) error{q.Pause, q.Resume} {
		if err := call(ctx); err != nil {
			t.Errorf("pause or resume on a full server: %v", err)
		}
	}
	good, err = q.Extend(ctx, MinVisibility, got["8"].Receipt, got["soon"].Receipt)
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
	wantSizes(t, q, 0, 0, 0, 0)
}

// TestFullServerIsCleanedUp: the upkeep of many messages in flight goes on, too,
// when it takes several calls.
func TestFullServerIsCleanedUp(t *testing.T) {
	t.Parallel()
	play := func(scripts *script.Library) error {
		server := redistest.Start(t, redistest.Options{Policy: "noeviction"})
		q := openOn(t, server.Client(t), "x", Config{Streams: 1})
		q.run.Scripts = scripts
		drafts := make([]Draft, 1500)
		for i := range drafts {
			drafts[i].Tenant = "a"
		}
		if _, err := q.WriteBatch(t.Context(), drafts...); err != nil {
			t.Fatal(err)
		}
		for len(read(t, q, 1000)) > 0 {
		}
		// Something was due, and more is in flight than one call looks at.
		for _, command := range [][]string{{"ZADD", baseKey("x") + ":due", "1", "0"}, {"CONFIG", "SET", "maxmemory", "1"}} {
			if err := do(t, q.run.Client, command...).Error(); err != nil {
				t.Fatal(err)
			}
		}
		_, err := q.Read(t.Context(), ReadConfig{})
		return err
	}
	wantError(t, play(library), ErrEmpty)
	wantError(t, play(scripttest.Without(t, library, "redis.call('HDEL', K, '')", "")), millrace.ErrFull) // what the first write is for
}

// TestManyFirstReaders: fifty processes that read a new queue first, all at once,
// see no error, and each message goes to one of them (Q20 in docs/DEFECTS.md).
func TestManyFirstReaders(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	name := redistest.Name(t)
	var mu sync.Mutex
	seen := map[string]int{}
	var running sync.WaitGroup
	start := make(chan struct{})
	for i := range 50 {
		q := openOn(t, client, name, Config{Consumer: fmt.Sprint("process", i)})
		running.Go(func() {
			<-start
			if i%5 == 0 {
				if _, err := q.WriteBatch(t.Context(), make50(i)...); err != nil {
					t.Errorf("write: %v", err)
				}
			}
			for {
				messages, err := q.Read(t.Context(), ReadConfig{Max: 3, Block: 200 * time.Millisecond})
				if errors.Is(err, ErrEmpty) {
					return
				}
				if err != nil {
					t.Errorf("read: %v", err)
					return
				}
				mu.Lock()
				for _, m := range messages {
					seen[string(m.Body)]++
				}
				mu.Unlock()
			}
		})
	}
	close(start)
	running.Wait()
	for body, n := range seen {
		if n != 1 {
			t.Errorf("%s was delivered %d times", body, n)
		}
	}
	if len(seen) != 500 {
		t.Errorf("%d messages were delivered, want 500", len(seen))
	}
}

// make50 makes drafts of 50 tenants.
func make50(writer int) []Draft {
	drafts := make([]Draft, 50)
	for i := range drafts {
		drafts[i] = Draft{Tenant: fmt.Sprint("tenant", i), Body: fmt.Append(nil, writer, "-", i)}
	}
	return drafts
}

// TestCancelledCallsReturn pauses the server, so that only the context can end a
// call. The best of several tries must return within 50 ms of the cancel: a busy
// machine may delay some, but not all.
func TestCancelledCallsReturn(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	q, flying, deadID := busyQueue(t, server.Client(t))
	calls := everyCall(t.Context(), nil, Message{}, "")
	defer server.Resume()
	server.Pause()
	for name := range calls {
		for _, deadline := range []bool{false, true} {
			best := time.Hour
			for range 5 {
				ctx, cancel := context.WithCancel(t.Context())
				if deadline { // one that is far away must not hide the cancel
					ctx, cancel = context.WithTimeout(ctx, time.Minute)
				}
				var cancelled time.Time
				timer := time.AfterFunc(5*time.Millisecond, func() {
					cancelled = time.Now()
					cancel()
				})
				err := everyCall(ctx, q, flying, deadID)[name]()
				timer.Stop()
				if !errors.Is(err, context.Canceled) {
					t.Errorf("%s: error = %v, want context.Canceled", name, err)
				}
				best = min(best, time.Since(cancelled))
				cancel()
			}
			if best > 50*time.Millisecond {
				t.Errorf("%s (deadline: %v) returns %v after the cancel, more than 50 ms", name, deadline, best)
			}
		}
	}
}

// TestCancelledReadOrphansNothing cancels blocked reads at the moment in which a
// message comes. Whoever gets it, it is not lost and no attempt is counted (Q23
// in docs/DEFECTS.md).
func TestCancelledReadOrphansNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	q, writer := openOn(t, server.Client(t), "x", Config{}), openOn(t, server.Client(t), "x", Config{})
	taken := 0
	for i := range 100 {
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
		timer := time.AfterFunc(time.Duration(i)*10*time.Microsecond, cancel)
		write(t, writer, "a:x")
		messages := <-got
		timer.Stop()
		cancel()
		if len(messages) > 0 {
			taken++
		} else {
			start := time.Now()
			messages = []Message{eventually(t, writer)}
			if took := time.Since(start); took > 1500*time.Millisecond {
				t.Errorf("the message of a cancelled read came after %v", took)
			}
		}
		if messages[0].Attempt != 1 {
			t.Errorf("attempt = %d, want 1: nobody had it", messages[0].Attempt)
		}
		ack(t, writer, messages...)
		blockedReaders(t, server, 0)
	}
	wantSizes(t, writer, 0, 0, 0, 0)
	t.Logf("%d of 100 reads had the message before they were cancelled", taken)
}

// TestExpiredMessagesHideNone: a read looks behind messages whose deadline has
// come, however many, and a sleeping reader does not doze between them.
func TestExpiredMessagesHideNone(t *testing.T) {
	t.Parallel()
	for _, block := range []time.Duration{0, 10 * time.Second} {
		t.Run(fmt.Sprint("block ", block), func(t *testing.T) {
			t.Parallel()
			q := open(t, Config{Streams: 1})
			drafts := make([]Draft, 500)
			for i := range drafts {
				drafts[i] = Draft{Tenant: "a", Deadline: time.Millisecond}
			}
			if _, err := q.WriteBatch(t.Context(), drafts...); err != nil {
				t.Fatal(err)
			}
			passes(t, q.run.Client, 2*time.Millisecond)
			write(t, q, "a:good")
			start := time.Now()
			messages, err := q.Read(t.Context(), ReadConfig{Block: block})
			if took := time.Since(start); err != nil || took > time.Second {
				t.Fatalf("read = %v after %v, want the message behind the expired ones at once", err, took)
			}
			ack(t, q, messages...)
			wantSizes(t, q, 0, 0, 0, 0)
		})
	}
}

// passes waits until so much time has passed on the server.
func passes(t *testing.T, client rueidis.Client, d time.Duration) {
	t.Helper()
	now := func() time.Time {
		parts, err := do(t, client, "TIME").AsIntSlice()
		if err != nil {
			t.Fatal(err)
		}
		return time.Unix(parts[0], parts[1]*1000)
	}
	goal := now().Add(d)
	redistest.Eventually(t, "time passes on the server", func() bool { return now().After(goal) })
}

// TestRepeatedWriteAcrossAResize: the reply of a write is lost, and the queue is
// resized before the library asks again. The message is written once.
func TestRepeatedWriteAcrossAResize(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	proxy := redistest.NewProxy(t, server.Addr())
	name := redistest.Name(t)
	other := openOn(t, server.Client(t), name, Config{})
	write(t, other, "a:first")
	ack(t, other, read(t, other, 1)...)
	q := openOn(t, proxy.Client(t), name, Config{})
	read(t, q, 1) // the connection is there
	proxy.Refuse(true)
	lost := proxy.DropReply(evalsha)
	written := make(chan string)
	go func() {
		id, err := q.Write(t.Context(), Draft{Tenant: "a", Body: []byte("x")})
		if err != nil {
			t.Errorf("write: %v", err)
		}
		written <- id
	}()
	<-lost.Done()
	if err := other.Resize(t.Context(), 8, 2); err != nil {
		t.Fatal(err)
	}
	proxy.Refuse(false)
	id := <-written
	wantSizes(t, other, 1, 0, 0, 0)
	if m := read(t, other, 1)[0]; m.ID != id {
		t.Errorf("message %s, and the writer was told %s", m.ID, id)
	}
}

// TestRepeatBehindOthers: a write whose reply is lost is done once, though 25,000 calls of
// others come before its repeat.
func TestRepeatBehindOthers(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	proxy := redistest.NewProxy(t, server.Addr())
	client := server.Client(t)
	scripttest.Load(t, client, library)
	other := openOn(t, client, "x", Config{})
	write(t, other, "a:first")
	args := other.writeArgs(other.shaped(), []draft{{Draft: Draft{Tenant: "a"}, fields: []string{fieldTenant, "a"}}})
	const others = 25_000
	var calls redistest.Pipeline
	for i := range others {
		calls.Add(slices.Concat([]string{"EVALSHA", library.Script("write").SHA(), "1", baseKey("x")}, args,
			[]string{fmt.Sprint("other:", i%100), fmt.Sprintf("%016dAAAAAAAAAAA", i)})...)
	}
	q := openOn(t, proxy.Client(t), "x", Config{Hooks: []millrace.Hook{beforeRepeat(func() { calls.Send(t, server) })}})
	lost := proxy.DropReply(evalsha)
	if _, err := q.Write(t.Context(), Draft{Tenant: "b"}); err != nil || lost.Count() != 1 {
		t.Fatalf("Write = %v with %d lost replies, want 1", err, lost.Count())
	}
	n, err := q.Len(t.Context())
	want(t, "Len", n, others+2, err)
}

// beforeRepeat is called before the second try of a call.
type beforeRepeat func()

func (f beforeRepeat) OnCall(ctx context.Context, call millrace.Call) (context.Context, func(error)) {
	if call.Try == 2 {
		f()
	}
	return ctx, nil
}

// TestWritesBeforeReadersSleep: two processes found nothing, and before they
// sleep two messages are written, one after the other. Neither process sleeps
// beside a message (Q16 in docs/DEFECTS.md).
func TestWritesBeforeReadersSleep(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	calls := func() string {
		line := server.Info("commandstats")["cmdstat_evalsha"]
		count, _, _ := strings.Cut(line, ",")
		return count
	}
	writer := openOn(t, server.Client(t), "x", Config{})
	write(t, writer, "a:first")
	ack(t, writer, read(t, writer, 1)...)
	best := time.Hour
	for range 3 {
		got := make(chan Message)
		var proxies []*redistest.Proxy
		for range 2 {
			proxy := redistest.NewProxy(t, server.Addr())
			q := openOn(t, proxy.Client(t), "x", Config{})
			read(t, q, 1) // the connection is there
			before := calls()
			proxy.HalfClose()
			go func() { got <- eventually(t, q) }()
			redistest.Eventually(t, "the reader has asked", func() bool { return calls() != before })
			proxies = append(proxies, proxy)
		}
		write(t, writer, "a:2")
		write(t, writer, "b:3")
		start := time.Now()
		for _, proxy := range proxies {
			proxy.Heal()
		}
		ack(t, writer, <-got)
		ack(t, writer, <-got)
		best = min(best, time.Since(start))
	}
	if best > 500*time.Millisecond {
		t.Errorf("the two messages were taken after %v at best: a reader slept beside one", best)
	}
}

// TestRedrivenMessageStaysInItsShard: what a dead message does when it is tried
// again is its own tenant's business, also if it was delayed at first.
func TestRedrivenMessageStaysInItsShard(t *testing.T) {
	t.Parallel()
	q := open(t, Config{PerTenant: 1})
	for i := range 5 {
		if _, err := q.Write(t.Context(), Draft{Tenant: fmt.Sprint("tenant", i), Delay: time.Millisecond}); err != nil {
			t.Fatal(err)
		}
		m := eventually(t, q)
		if err := q.Nack(t.Context(), m.Receipt, NackConfig{Dead: true}); err != nil {
			t.Fatal(err)
		}
		n, err := q.Redrive(t.Context(), m.ID)
		want(t, "redrive", n, 1, err)
		again := read(t, q, 1)[0]
		if again.Stream != m.Stream {
			t.Errorf("%s: the message was in stream %d, and after the redrive in %d", m.Tenant, m.Stream, again.Stream)
		}
		ack(t, q, again)
	}
}
