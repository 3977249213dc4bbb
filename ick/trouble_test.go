package ick

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/internal/test/scripttest"
)

// load dirties documents and knows each one's last version. The documents lie
// in a hash on the server, where consumers read them; the processed versions
// lie in a sorted set with the version as the score, which only rises.
type load struct {
	client   rueidis.Client
	db, done string // keys
	mark     func(ctx context.Context, member string) error

	mu      sync.Mutex
	version map[string]int
}

func newLoad(k *Ick) *load {
	return &load{
		client: k.run.Client, db: k.name + ":db", done: k.name + ":done", version: map[string]int{},
		mark: func(ctx context.Context, member string) error {
			_, err := k.AddNow(ctx, member)
			return err
		},
	}
}

// change writes a new version of a document and marks it. It is done again
// until the server confirms both.
func (l *load) change(ctx context.Context, member string) error {
	l.mu.Lock()
	l.version[member]++
	version := l.version[member]
	l.mu.Unlock()
	client := l.client
	for ctx.Err() == nil {
		// Two producers may write a document in either order, so the higher version stays.
		err := client.Do(ctx, client.B().Zadd().Key(l.db).Gt().ScoreMember().ScoreMember(float64(version), member).Build()).Error()
		if err != nil {
			continue
		}
		if err = l.mark(ctx, member); err == nil {
			return nil
		}
	}
	return ctx.Err()
}

// produce changes documents from several goroutines, each with a channel of its
// own, until stop is called.
func (l *load) produce(t *testing.T, producers, documents int) (changes *atomic.Int64, stop func()) {
	t.Helper()
	changes = new(atomic.Int64)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for range producers {
		running.Go(func() {
			for ctx.Err() == nil {
				if err := l.change(t.Context(), fmt.Sprint("doc", rand.IntN(documents))); err != nil {
					t.Errorf("change: %v", err)
					return
				}
				changes.Add(1)
			}
		})
	}
	stop = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(stop)
	return changes, stop
}

// process is a handler: it brings the copy in line with the documents.
func process(client rueidis.Client, db, done string) Handler {
	return func(ctx context.Context, batch []Entry) error {
		versions, err := client.Do(ctx, client.B().Zmscore().Key(db).Member(Reservation{Entries: batch}.Members()...).Build()).AsFloatSlice()
		if err != nil {
			return err
		}
		cmd := client.B().Zadd().Key(done).Gt().ScoreMember()
		for i, e := range batch {
			cmd = cmd.ScoreMember(versions[i], e.Member)
		}
		return client.Do(ctx, cmd.Build()).Error()
	}
}

// check says which documents' last version was not processed, though no mark is
// left.
func (l *load) check(t *testing.T) {
	t.Helper()
	client := l.client
	zs, err := client.Do(t.Context(), client.B().Zrange().Key(l.done).Min("0").Max("-1").Withscores().Build()).AsZScores()
	if err != nil {
		t.Fatal(err)
	}
	processed := map[string]int{}
	for _, z := range zs {
		processed[z.Member] = int(z.Score)
	}
	for member, version := range l.version {
		if processed[member] < version {
			t.Errorf("forgotten: %s processed at %d of %d", member, processed[member], version)
		}
	}
	t.Logf("%d documents", len(l.version))
}

// underLoad dirties documents from several goroutines and consumes them while
// trouble plays, and checks that nothing was forgotten.
func underLoad(t *testing.T, client rueidis.Client, name string, trouble func(changes *atomic.Int64)) {
	t.Helper()
	k := openOn(t, client, name, Config{})
	l := newLoad(k)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var consumers sync.WaitGroup
	consumers.Go(func() {
		if err := k.Consume(ctx, ConsumeConfig{Batch: 20}, process(client, l.db, l.done)); !errors.Is(err, context.Canceled) {
			t.Errorf("Consume = %v, want it to go on until it is told to end", err)
		}
	})
	changes, stop := l.produce(t, 4, 200)
	trouble(changes)
	stop()
	drained(t, k)
	l.check(t)
	cancel()
	consumers.Wait()
}

// after waits until n more changes were made, so that trouble falls into work.
func after(t *testing.T, changes *atomic.Int64, n int64) {
	t.Helper()
	goal := changes.Load() + n
	redistest.Eventually(t, "more changes", func() bool { return changes.Load() >= goal })
}

func TestRestartUnderLoad(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{AOF: true})
	underLoad(t, server.Client(t), "x", func(changes *atomic.Int64) {
		for range 3 {
			after(t, changes, 200)
			server.Kill()
			server.Restart()
		}
		after(t, changes, 200)
	})
}

func TestScriptFlushUnderLoad(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	client := server.Client(t)
	underLoad(t, client, "x", func(changes *atomic.Int64) {
		for range 20 {
			after(t, changes, 50)
			if err := do(t, client, "SCRIPT", "FLUSH").Error(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestLostRepliesUnderLoad loses twenty replies while producers and consumers work.
func TestLostRepliesUnderLoad(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	proxy := redistest.NewProxy(t, server.Addr())
	underLoad(t, proxy.Client(t), redistest.Name(t), func(changes *atomic.Int64) {
		for range 20 {
			after(t, changes, 20)
			lost := proxy.DropReply(evalsha)
			redistest.Eventually(t, "a reply is lost", func() bool { return lost.Count() == 1 })
		}
	})
}

// TestFullServer: calls that drain go on, and those that add fail with nothing changed.
func TestFullServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{Policy: "noeviction"})
	k := openOn(t, server.Client(t), "x", Config{})
	ctx := t.Context()
	limit := func(bytes string) {
		t.Helper()
		if err := do(t, k.run.Client, "CONFIG", "SET", "maxmemory", bytes).Error(); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 100 {
		wantAdd(t, k, fmt.Sprintf("m%d.5 n%d.5", i, i), map[bool]int{true: 2, false: 0}[i == 0], 0)
	}
	wantAdd(t, k, "a1 b2 c3 d4 e5", 5, 0)
	wantReserve(t, k, 1, "m0.5")

	limit("1")
	before := dump(t, k)
	_, err := k.Add(ctx, Entry{"z", 1})
	wantError(t, err, millrace.ErrFull)
	_, err = k.AddNow(ctx, "z")
	wantError(t, err, millrace.ErrFull)
	if after := dump(t, k); len(after) != len(before) || after[key("x", keyPset)] != before[key("x", keyPset)] {
		t.Error("a refused add changed the Ick")
	}
	fresh := openOn(t, k.run.Client, "fresh", Config{})
	_, err = fresh.Add(ctx, Entry{"z", 1})
	wantError(t, err, millrace.ErrFull)
	if got := keyspace(t, fresh); len(got) != 0 {
		t.Errorf("a refused first add left keys: %v", got)
	}

	token := wantReserve(t, k, 2, "m0.5 n0.5")
	wantCommit(t, k, token, "m", 1, 0)
	token = wantExchange(t, k, token, "n", 3, 1, 0, "a1 b2 c3")
	if n, err := k.park(ctx, token, ConsumeConfig{MaxAttempts: 1}, "why", []string{"b", "c"}); n != 2 || err != nil {
		t.Errorf("park on a full server = %d, %v, want 2", n, err)
	}
	if n, err := k.Retry(ctx, "b"); n != 1 || err != nil {
		t.Errorf("retry on a full server = %d, %v, want 1", n, err)
	}
	if n, err := k.Drop(ctx, "c"); n != 1 || err != nil {
		t.Errorf("drop on a full server = %d, %v, want 1", n, err)
	}
	if s, err := k.Stats(ctx); err != nil || s.Distinct != 4 {
		t.Errorf("stats on a full server = %+v, %v, want 4 members", s, err)
	}
	c := consume(t, k, ConsumeConfig{})
	c.batch(t, "a b d e", nil)
	drained(t, k)
	c.stop()

	limit("0")
	wantAdd(t, k, "f1", 1, 0)
	limit("1")
	unready := openOn(t, k.run.Client, "x", Config{})
	unready.run.Scripts = scripttest.Without(t, library, "redis.call('HDEL', meta, '')", "")
	_, err = unready.Reserve(ctx, 1)
	wantError(t, err, millrace.ErrFull) // the first write is there for that
	wantReserve(t, k, 1, "f1")
	if n, err := k.Delete(ctx); n != 2 || err != nil {
		t.Errorf("delete on a full server = %d, %v, want 2", n, err)
	}
}

// TestConsumerOutlivesTrouble: a consumer whose server is full, and whose
// handler therefore fails, goes on when there is room.
func TestConsumerOutlivesTrouble(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	proxy := redistest.NewProxy(t, server.Addr())
	k := openOn(t, proxy.Client(t), "x", Config{})
	c := consume(t, k, ConsumeConfig{})
	for i, trouble := range []func(){
		proxy.Cut,
		func() { proxy.Refuse(true); proxy.Cut(); proxy.Refuse(false) },
		func() { server.Kill(); server.Restart() },
		func() { server.Pause(); server.Resume() },
	} {
		trouble()
		member := string(rune('a' + i))
		redistest.Eventually(t, "the server takes a mark", func() bool {
			_, err := k.AddNow(t.Context(), member)
			return err == nil
		})
		c.batch(t, member, nil)
		drained(t, k)
	}
}

// TestCancelledCallsReturn pauses the server, so that only the context can end a
// call. The best of several tries must return within 50 ms of the cancel: a
// busy machine may delay some, but not all.
func TestCancelledCallsReturn(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	k := openOn(t, server.Client(t), "x", Config{})
	wantAdd(t, k, "a1", 1, 0)
	token := wantReserve(t, k, 1, "a1")
	defer server.Resume()
	server.Pause()
	for name, call := range map[string]func(context.Context) error{
		"Add": func(ctx context.Context) error { _, err := k.AddNow(ctx, "b"); return err },
		"Add of many": func(ctx context.Context) error {
			_, err := k.AddNow(ctx, slices.Repeat([]string{"b"}, 2*sharing)...)
			return err
		},
		"Reserve": func(ctx context.Context) error { _, err := k.Reserve(ctx, 1); return err },
		"Commit":  func(ctx context.Context) error { _, err := k.Commit(ctx, token, "a"); return err },
		"Stats":   func(ctx context.Context) error { _, err := k.Stats(ctx); return err },
		"Consume": func(ctx context.Context) error {
			return k.Consume(ctx, ConsumeConfig{}, func(context.Context, []Entry) error { return nil })
		},
	} {
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
				err := call(ctx)
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

func TestAMillionMembers(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	k := openOn(t, server.Client(t), "x", Config{})
	ctx := t.Context()
	const added = 100_000
	members := 200_000
	if os.Getenv("MILLRACE_SOAK") != "" {
		members = 1_000_000
	}
	list := make([]Entry, added)
	for i := range list {
		list[i] = Entry{Member: strconv.Itoa(i), Score: float64(i)}
	}
	got, err := k.Add(ctx, list...)
	want(t, "add", got, Added{New: added}, err)
	// The rest as a gem's producers would add it, only faster.
	const fill = "for i = ARGV[1], ARGV[2] - 1 do redis.call('ZADD', KEYS[1], i, string.format('%d', i)) end"
	for first := added; first < members; first += 50_000 {
		err := do(t, k.run.Client, "EVAL", fill, "1", key("x", keyPset), strconv.Itoa(first), strconv.Itoa(first+50_000)).Error()
		if err != nil && !rueidis.IsRedisNil(err) {
			t.Fatal(err)
		}
	}
	const batch = 10_000
	var done []string
	var token string
	for round := range 3 {
		r, c, err := k.Exchange(ctx, token, done, batch)
		if err != nil || len(r.Entries) != batch || c.Committed != len(done) {
			t.Fatalf("exchange = %d entries, %+v, %v", len(r.Entries), c, err)
		}
		for i, e := range r.Entries {
			if want := round*batch + i; e.Member != strconv.Itoa(want) {
				t.Fatalf("entry %d of batch %d = %s, want %d", i, round, e.Member, want)
			}
		}
		token, done = r.Token, r.Members()
	}
	// Dirty the whole batch again: all of it is in both sets, over two pages.
	if _, err := k.AddNow(ctx, append(done, "new")...); err != nil {
		t.Fatal(err)
	}
	r, err := k.Reserve(ctx, batch+5_000)
	if err != nil || len(r.Entries) != batch+5_000 {
		t.Fatalf("reserve = %d entries, %v", len(r.Entries), err)
	}
	s, err := k.Stats(ctx)
	if err != nil || s.Total != members-2*batch+batch+1 || s.Reserved.Size != 15_000 || s.Total-s.Distinct != batch {
		t.Fatalf("stats = %+v, %v, want 15,000 reserved of which 10,000 wait, too", s, err)
	}
	if n, err := k.Delete(ctx); n != 3 || err != nil {
		t.Errorf("delete = %d, %v, want 3", n, err)
	}
}
