package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/test/redistest"
)

// entry returns the entry of a queue.
func entry(client rueidis.Client, name string) *Entry {
	e := &Entry{}
	e.Enter(client, Queue, name, nil)
	return e
}

// settled touches entries and waits until that has had its effect.
func settled(t *testing.T, client rueidis.Client, entries ...*Entry) {
	t.Helper()
	for _, e := range entries {
		e.Touch()
	}
	Settle(t.Context(), client)
}

// TestTouch: a structure in use is entered once, with the time.
func TestTouch(t *testing.T) {
	t.Parallel()
	client := own(t).Client(t)
	before := time.Now().UnixMilli()
	settled(t, client, entry(client, "a"), entry(client, "b c"), entry(client, "b c"))
	all := registered(t, client)
	for _, f := range []string{"queue a", "queue b c"} {
		if at, err := strconv.ParseInt(all[f], 10, 64); err != nil || at < before || at > time.Now().UnixMilli() {
			t.Errorf("%q is entered with %q, want the time", f, all[f])
		}
	}
	if len(all) != 2 {
		t.Errorf("%v is entered, want two structures", all)
	}
}

// TestTouchOnce: a structure is entered once a period, however often and by how many
// values of the same name it is used.
func TestTouchOnce(t *testing.T) {
	t.Parallel()
	server := own(t)
	client := server.Client(t)
	must(t, client, "CONFIG", "RESETSTAT")
	for range 100 {
		e := entry(client, "a") // as by a program that makes one for each call
		for range 100 {
			e.Touch()
		}
		Settle(t.Context(), client)
	}
	if got := server.Info("commandstats")["cmdstat_hset"]; !strings.HasPrefix(got, "calls=1,") {
		t.Errorf("HSET: %s, want one call", got)
	}
}

// TestLeave: a deleted structure is not entered any more, even if its entry was waiting, and
// is entered when it begins anew.
func TestLeave(t *testing.T) {
	t.Parallel()
	client := own(t).Client(t)
	e := entry(client, "a")
	for range 2 {
		settled(t, client, e)
		if all := registered(t, client); len(all) != 1 {
			t.Errorf("%v is entered, want the structure", all)
		}
		e.Leave(t.Context())
		if all := registered(t, client); len(all) != 0 {
			t.Errorf("%v is entered, want nothing", all)
		}
	}
	must(t, client, "CONFIG", "SET", "maxmemory", "1")
	settled(t, client, e) // and so it will be tried again
	e.Leave(t.Context())
	b := Of(client).structures
	b.mu.Lock()
	defer b.mu.Unlock()
	for shard, p := range b.shards {
		if len(p.waiting) > 0 {
			t.Errorf("shard %d is about to enter what was deleted", shard)
		}
	}
}

// TestFlushHeals: a lost entry is entered again in the next period if its structure is used.
func TestFlushHeals(t *testing.T) {
	t.Parallel()
	client := own(t).Client(t)
	b := newBook(client, parts, 50*time.Millisecond, "", hset)
	used, unused := &Entry{book: b, member: "queue used"}, &Entry{book: b, member: "queue unused"}
	used.Touch()
	unused.Touch()
	redistest.Eventually(t, "both are entered", func() bool { return len(registered(t, client)) == 2 })
	must(t, client, "FLUSHALL")
	redistest.Eventually(t, "what is used is entered again", func() bool {
		used.Touch()
		return registered(t, client)["queue used"] != ""
	})
	if all := registered(t, client); len(all) != 1 {
		t.Errorf("%v is entered, want what is used alone", all)
	}
}

// TestDenied: a client without permission to enter names is told once, and served.
func TestDenied(t *testing.T) {
	t.Parallel()
	server := own(t)
	must(t, server.Client(t), "ACL", "SETUSER", "u", "on", ">pw", "~*", "&*", "+@all", "-hset")
	client := server.Client(t, func(o *rueidis.ClientOption) { o.Username, o.Password = "u", "pw" })
	var logged bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&logged, nil))
	b := newBook(client, parts, 20*time.Millisecond, "not entered", hset)
	b.logger.Store(logger)
	for period := b.generation.Load(); b.generation.Load() < period+3; {
		e := &Entry{book: b, member: "queue " + strconv.Itoa(int(b.generation.Load()))}
		e.Touch()
		runtime.Gosched()
	}
	for shard := range parts {
		b.settle(t.Context(), shard)
	}
	if got := strings.Count(logged.String(), "not entered"); got != 1 {
		t.Errorf("%d log lines, want one: %s", got, logged.String())
	}
	// Names that are new each time are tried once a period.
	var tried, refused int
	if _, err := fmt.Sscanf(server.Info("commandstats")["cmdstat_hset"], "calls=%d,usec=0,usec_per_call=0.00,rejected_calls=%d", &tried, &refused); err != nil || refused < 2 {
		t.Errorf("HSET was refused %d times (%v), want it in each period", refused, err)
	}
}

// TestFullServer: a full server delays no caller, and the entry is sent again when the server
// has memory.
func TestFullServer(t *testing.T) {
	t.Parallel()
	client := own(t).Client(t)
	must(t, client, "CONFIG", "SET", "maxmemory", "1")
	e := entry(client, "a")
	settled(t, client, e)
	if all := registered(t, client); len(all) > 0 {
		t.Errorf("%v is entered on a full server", all)
	}
	must(t, client, "CONFIG", "SET", "maxmemory", "0")
	redistest.Eventually(t, "it is entered", func() bool { return len(registered(t, client)) == 1 })
}

// TestSilentServer: with a server that does not answer, touching returns at once, and
// costs one goroutine a shard however much there is to enter.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	server := own(t)
	client := server.Client(t)
	must(t, client, "PING")
	server.Pause()
	b := newBook(client, parts, entryPeriod, "", hset)
	before, began := runtime.NumGoroutine(), time.Now()
	for i := range 20_000 {
		e := &Entry{book: b, member: "queue " + strconv.Itoa(i)}
		e.Touch()
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("20,000 structures were touched within %v, want no time at all", took)
	}
	if more := runtime.NumGoroutine() - before; more > 200 { // those of other tests, too
		t.Errorf("%d goroutines more, want a few", more)
	}
	server.Resume()
	redistest.Eventually(t, "all are entered", func() bool { return len(registered(t, client)) == 20_000 })
}

// TestBounds: the numbers of remembered and of waiting entries are bounded.
func TestBounds(t *testing.T) {
	t.Parallel()
	server := own(t)
	client := server.Client(t)
	server.Pause()
	b := newBook(client, 1, entryPeriod, "", hset)
	for i := range maxEntered + maxWaiting {
		b.enter("queue "+strconv.Itoa(i), 1)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := len(b.shards[0].waiting); n > 2*maxWaiting {
		t.Errorf("%d wait, want at most %d", n, maxWaiting)
	}
	if n := len(b.entered); n > maxEntered {
		t.Errorf("%d are remembered, want at most %d", n, maxEntered)
	}
}

// TestRegistrars: clients have registrars of their own, the last ones used for long; a
// client that cannot be compared has one, too.
func TestRegistrars(t *testing.T) {
	t.Parallel()
	client := own(t).Client(t)
	if one, other := Of(client), Of(client); one != other {
		t.Error("a client has two registrars")
	}
	type odd struct {
		rueidis.Client
		_ []int
	}
	e := &Entry{}
	e.Enter(odd{Client: client}, Queue, "a", nil)
	e.Touch()
	redistest.Eventually(t, "it is entered", func() bool { return len(registered(t, client)) == 1 })
	var zero Entry
	zero.Touch()
}

// TestClosedClient: nothing is tried with a client that is closed.
func TestClosedClient(t *testing.T) {
	t.Parallel()
	client := own(t).Client(t)
	e := entry(client, "a")
	client.Close()
	settled(t, client, e)
	b := Of(client).structures
	b.mu.Lock()
	defer b.mu.Unlock()
	for shard, p := range b.shards {
		if len(p.waiting) > 0 || p.failures > 0 {
			t.Errorf("shard %d goes on with a client that is closed", shard)
		}
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	client := own(t).Client(t)
	names := numbered(3000)
	create(t, client, Queue, time.Now(), names...)
	create(t, client, Ick, time.Now(), "a", "x{tag}y")
	for kind, want := range map[Kind][]string{Queue: names, Ick: {"a", "x{tag}y"}, Tracker: nil} {
		slices.Sort(want)
		if got, err := listed(t.Context(), client, kind); err != nil || !slices.Equal(got, want) {
			t.Errorf("List of %s: %d names, %v, want %d", kind, len(got), err, len(want))
		}
	}
	n := 0
	for range List(t.Context(), client, Queue, nil) { // and its goroutines end
		if n++; n == 10 {
			break
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := listed(ctx, client, Queue); !errors.Is(err, context.Canceled) {
		t.Errorf("List for a caller who has gone = %v", err)
	}
}

// TestListIsTrue: a deleted structure is not listed, and one that this process is entering
// is.
func TestListIsTrue(t *testing.T) {
	t.Parallel()
	client := own(t).Client(t)
	create(t, client, Queue, time.Now(), "gone", "there")
	must(t, client, "DEL", Queue.keys("gone")[0])
	must(t, client, "SET", Queue.keys("new")[0], "1")
	entry(client, "new").Touch()
	if got, err := listed(t.Context(), client, Queue); err != nil || !slices.Equal(got, []string{"new", "there"}) {
		t.Errorf("List = %q, %v, want new and there", got, err)
	}
}

// TestListWithoutAServer: when no server answers, the error is the server's own.
func TestListWithoutAServer(t *testing.T) {
	t.Parallel()
	server := own(t)
	client := server.Client(t)
	must(t, client, "ACL", "SETUSER", "u", "on", ">pw", "~*", "+@all", "-hscan")
	denied := server.Client(t, func(o *rueidis.ClientOption) { o.Username, o.Password = "u", "pw" })
	if _, err := listed(t.Context(), denied, Queue); err == nil || !strings.Contains(err.Error(), "NOPERM") || errors.Is(err, millrace.ErrPartial) {
		t.Errorf("List without permission = %v, want NOPERM", err)
	}
	server.Pause()
	defer server.Resume()
	began := time.Now()
	_, err := listed(t.Context(), client, Queue)
	if took := time.Since(began); err == nil || took > 2*listTimeout {
		t.Errorf("List of a silent server = %v after %v, want an error within %v", err, took, listTimeout)
	}
}

// TestKeys: each kind's key is found, and nothing else is.
func TestKeys(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds() {
		for _, name := range []string{"a", "a b", "a/b", "a:b"} {
			for _, key := range kind.keys(name) {
				if k, n, ok := find(key); k != kind || n != name || !ok {
					t.Errorf("find(%q) = %s, %q, %v, want %s, %q", key, k, n, ok, kind, name)
				}
			}
		}
	}
	for _, key := range []string{
		"", "a", "mr:queue:{a", "mr:queue:{a}:due", "mr:queue:{}", "mr:queue:{a{b}", "mr:hash:{a/1}", "/ick/{}/pset", "a/ick/{b}/pset",
		"a/ick/{a}/req", "}/meta", "/ick/{a}/pset", "mr:registry:{1}",
	} {
		if k, n, ok := find(key); ok {
			t.Errorf("find(%q) = %s, %q, want nothing", key, k, n)
		}
	}
	for text, want := range map[string]int{"queue orders": 5, "ick documents": 6, "tracker tasks": 8} {
		if got := shardOf(text, parts); got != want {
			t.Errorf("%q is in shard %d, want %d, as docs/WIRE.md says", text, got, want)
		}
	}
}

// BenchmarkTouch measures the cost for a structure when nothing is due.
func BenchmarkTouch(b *testing.B) {
	e := entry(own(b).Client(b), "a")
	e.Touch()
	Settle(b.Context(), e.book.client)
	b.ReportAllocs()
	for b.Loop() {
		e.Touch()
	}
}

func TestTouchAllocatesNothing(t *testing.T) {
	e := entry(own(t).Client(t), "a")
	e.Touch()
	if got := testing.AllocsPerRun(100, e.Touch); got != 0 {
		t.Errorf("%v allocations, want none", got)
	}
	Settle(t.Context(), e.book.client)
	var touching sync.WaitGroup
	for range 10 {
		touching.Go(e.Touch)
	}
	touching.Wait()
}

// TestDeletedByAnother: a process deletes a structure that another one entered and makes again.
// It is listed as soon as the other one's period ends, which is soon.
func TestDeletedByAnother(t *testing.T) {
	t.Parallel()
	if entryPeriod > 10*time.Second || entryPeriod > young/2 {
		t.Errorf("a period takes %v, want ten seconds at most, and half of what upkeep leaves alone, %v", entryPeriod, young)
	}
	server := own(t)
	one, other := server.Client(t), server.Client(t)
	mine, theirs := entry(one, "a"), entry(other, "a")
	must(t, other, "SET", Queue.keys("a")[0], "1")
	settled(t, other, theirs)
	must(t, one, "DEL", Queue.keys("a")[0])
	mine.Leave(t.Context())
	if got, err := listed(t.Context(), one, Queue); err != nil || len(got) > 0 {
		t.Errorf("List = %q, %v, want nothing: it is deleted", got, err)
	}
	must(t, other, "SET", Queue.keys("a")[0], "1")
	Of(other).structures.turn() // the end of its period
	settled(t, other, theirs)
	if got, err := listed(t.Context(), one, Queue); err != nil || !slices.Equal(got, []string{"a"}) {
		t.Errorf("List = %q, %v, want the structure that was made again", got, err)
	}
}
