package fetch

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/test/redistest"
	"github.com/millrace/millrace/lease"
)

var errLoad = errors.New("the source is out of order")

// TestOutcomes goes through the diagram of the package's documentation.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	const ttl, stale = time.Minute, 10 * time.Second
	cfg := Config{TTL: ttl, Stale: stale, Negative: ttl, Errors: -1}
	old := func(t *testing.T, c *Cache) { // a value that is old
		t.Helper()
		want(t, c, "k", &source{value: "old"}, "old", Miss, nil)
		age(t, c, "k", stale/2)
	}
	elsewhere := func(t *testing.T, c *Cache) func() { // another process computes
		t.Helper()
		other := openOn(t, redistest.Shared(t).Client(t), c.name, cfg)
		s, release := blocked(t, "other's")
		answers := start(context.WithoutCancel(t.Context()), other, "k", s) // a cleanup may wait for it
		<-s.begun
		return func() {
			release()
			wantFrom(t, answers, "other's", Miss, nil)
		}
	}
	nothing := func(*testing.T, *Cache) {}
	tests := []struct {
		name    string
		before  func(t *testing.T, c *Cache)
		load    *source
		value   string
		outcome Outcome
		err     error
		loads   int
		next    Outcome // of a second call
		nextErr error
	}{
		{"nothing there", nothing, &source{value: "new"}, "new", Miss, nil, 1, Hit, nil},
		{"nothing there, load fails", nothing, &source{err: errLoad}, "", Failed, errLoad, 1, Failed, errLoad},
		{"nothing there, there is none", nothing, &source{err: millrace.ErrNotFound}, "", Miss, millrace.ErrNotFound, 1, Negative, millrace.ErrNotFound},
		{"old", old, &source{value: "new"}, "new", Miss, nil, 1, Hit, nil},
		{"old, load fails", old, &source{err: errLoad}, "old", Stale, nil, 1, Stale, nil},
		{"old, there is none", old, &source{err: millrace.ErrNotFound}, "", Miss, millrace.ErrNotFound, 1, Negative, millrace.ErrNotFound},
		{"old, another computes", func(t *testing.T, c *Cache) {
			t.Helper()
			old(t, c)
			t.Cleanup(elsewhere(t, c))
		}, &source{value: "new"}, "old", Stale, nil, 0, Stale, nil},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := open(t, cfg)
			tc.before(t, c)
			want(t, c, "k", tc.load, tc.value, tc.outcome, tc.err)
			wantLoads(t, tc.load, tc.loads)
			_, r, err := Get(t.Context(), c, "k", tc.load.load)
			if r.Outcome != tc.next || !errors.Is(err, tc.nextErr) {
				t.Errorf("the next Get = %v, %v, want %v, %v", r.Outcome, err, tc.next, tc.nextErr)
			}
		})
	}
	t.Run("nothing there, another computes", func(t *testing.T) {
		t.Parallel()
		c := open(t, cfg)
		finish := elsewhere(t, c)
		s := &source{value: "own"}
		answers := start(t.Context(), c, "k", s)
		awaitCallers(t, c, 1)
		finish()
		wantFrom(t, answers, "other's", Waited, nil)
		wantLoads(t, s, 0)
	})
	t.Run("all in one process", func(t *testing.T) {
		t.Parallel()
		c := open(t, cfg)
		s, release := blocked(t, "new")
		first := start(t.Context(), c, "k", s)
		awaitCallers(t, c, 1)
		second := start(t.Context(), c, "k", s)
		awaitCallers(t, c, 2)
		release()
		wantFrom(t, first, "new", Miss, nil)
		wantFrom(t, second, "new", Waited, nil)
		wantLoads(t, s, 1)
	})
	t.Run("old, in one process", func(t *testing.T) {
		t.Parallel()
		c := open(t, cfg)
		old(t, c)
		s, release := blocked(t, "new")
		first := start(t.Context(), c, "k", s)
		<-s.begun
		want(t, c, "k", s, "old", Stale, nil) // while the first computes
		release()
		wantFrom(t, first, "new", Miss, nil)
		if got, want := c.Stats(), (Stats{Misses: 2, Stale: 1, Loads: 2}); got != want {
			t.Errorf("Stats = %+v, want %+v", got, want)
		}
	})
}

// TestStaleWindowEndsWhileLoading: a load that fails after the old value's time
// fails its callers.
func TestStaleWindowEndsWhileLoading(t *testing.T) {
	t.Parallel()
	c := open(t, Config{Stale: time.Minute})
	want(t, c, "k", &source{value: "old"}, "old", Miss, nil)
	age(t, c, "k", time.Minute/2)
	s, release := blocked(t, "")
	s.err = errLoad
	answers := start(t.Context(), c, "k", s)
	<-s.begun
	age(t, c, "k", time.Millisecond)
	redistest.Eventually(t, "the old value is gone", func() bool {
		_, _, err := c.keys.Get(t.Context(), "k")
		return err != nil
	})
	release()
	wantFrom(t, answers, "", Failed, errLoad)
}

// TestNoneReplacesTheOld: that there is none any more ends the old value, even if it
// is not remembered itself.
func TestNoneReplacesTheOld(t *testing.T) {
	t.Parallel()
	c := open(t, Config{Stale: time.Minute, Negative: -1})
	want(t, c, "k", &source{value: "old"}, "old", Miss, nil)
	age(t, c, "k", time.Minute/2)
	want(t, c, "k", &source{err: fmt.Errorf("gone: %w", millrace.ErrNotFound)}, "", Miss, millrace.ErrNotFound)
	want(t, c, "k", &source{err: errLoad}, "", Failed, errLoad)
}

// TestNegativeByDefault: that there is none is remembered unless that is turned off.
func TestNegativeByDefault(t *testing.T) {
	t.Parallel()
	s := &source{err: millrace.ErrNotFound}
	for _, tc := range []struct {
		negative time.Duration
		then     Outcome
	}{{0, Negative}, {-1, Miss}} {
		c := open(t, Config{Negative: tc.negative})
		want(t, c, "k", s, "", Miss, millrace.ErrNotFound)
		want(t, c, "k", s, "", tc.then, millrace.ErrNotFound)
	}
	if got := (Config{TTL: time.Second}).withDefaults(); got.Negative != time.Second || got.Away != time.Second {
		t.Errorf("with a TTL of a second Negative = %v and Away = %v, want no more", got.Negative, got.Away)
	}
}

// TestServerTellsTheTime: only the deadline in Redis makes a value old, and the stored
// entry decides for how long.
func TestServerTellsTheTime(t *testing.T) {
	t.Parallel()
	c := open(t, Config{TTL: time.Hour, Stale: time.Minute, Jitter: -1})
	other := openOn(t, redistest.Shared(t).Client(t), c.name, Config{TTL: time.Second, Stale: time.Hour})
	want(t, c, "k", &source{value: "v"}, "v", Miss, nil)
	age(t, c, "k", 31*time.Minute)
	if r := want(t, other, "k", &source{}, "v", Hit, nil); r.Age < 30*time.Minute || r.Age > 31*time.Minute {
		t.Errorf("Age = %v, want a little more than 30m", r.Age)
	}
	age(t, c, "k", time.Minute)
	want(t, other, "k", &source{err: errLoad}, "v", Stale, nil)
}

// TestNoClientClock: the package looks at the client's clock only to count how long a load
// takes, how old this process's memory is, and down to when Redis is asked again.
func TestNoClientClock(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var uses []string
	clock := regexp.MustCompile(`time\.(Now|Since|Until|After|NewTimer|NewTicker)\b`)
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(file, "_test.go") && clock.Match(source) {
			uses = append(uses, file)
		}
	}
	if diff := cmp.Diff([]string{"memory.go", "outage.go"}, uses); diff != "" {
		t.Errorf("files that use a clock (-want +got):\n%s", diff)
	}
}

type enlister struct{ count atomic.Int64 }

func (e *enlister) Enlist(context.Context) { e.count.Add(1) }

func TestEnlist(t *testing.T) {
	t.Parallel()
	e := &enlister{}
	c := open(t, Config{Enlister: e, Negative: long, Stale: time.Minute})
	wantCount := func(when string, want int64) {
		t.Helper()
		if got := e.count.Load(); got != want {
			t.Errorf("after %s: %d enlistments, want %d", when, got, want)
		}
	}
	want(t, c, "k", &source{value: "v"}, "v", Miss, nil)
	want(t, c, "none", &source{err: millrace.ErrNotFound}, "", Miss, millrace.ErrNotFound)
	want(t, c, "fails", &source{err: errLoad}, "", Failed, errLoad)
	wantCount("misses", 0)
	for range 3 {
		want(t, c, "k", &source{}, "v", Hit, nil)
	}
	wantCount("three hits", 3)
	want(t, c, "none", &source{}, "", Negative, millrace.ErrNotFound)
	wantCount("a negative", 4)
	age(t, c, "k", time.Second)
	want(t, c, "k", &source{err: errLoad}, "v", Stale, nil)
	wantCount("an old value", 4)
	if got, want := c.Stats(), (Stats{Hits: 3, Negatives: 1, Stale: 1, Misses: 2, Failed: 1, Loads: 4}); got != want {
		t.Errorf("Stats = %+v, want %+v", got, want)
	}
}

// TestCancelledCallerFailsNobody: the first caller goes away, the others have the
// value.
func TestCancelledCallerFailsNobody(t *testing.T) {
	t.Parallel()
	c := open(t, Config{})
	type mark struct{}
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), mark{}, "first's"))
	release := make(chan struct{})
	begun := make(chan struct{})
	first := make(chan error, 1)
	go func() {
		_, _, err := Get(ctx, c, "k", func(ctx context.Context) (string, error) {
			close(begun)
			select {
			case <-release:
			case <-ctx.Done():
				return "", ctx.Err()
			}
			return fmt.Sprint(ctx.Value(mark{})), ctx.Err()
		})
		first <- err
	}()
	<-begun
	second := start(t.Context(), c, "k", &source{})
	awaitCallers(t, c, 2)
	cancelled := time.Now()
	cancel()
	select {
	case err := <-first:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the cancelled Get = %v, want context.Canceled", err)
		}
	case <-time.After(patient):
		t.Error("the cancelled Get does not return")
	}
	if took := time.Since(cancelled); took > time.Second {
		t.Errorf("the cancelled Get returned after %v", took)
	}
	close(release)
	wantFrom(t, second, "first's", Waited, nil)
	want(t, c, "k", &source{}, "first's", Hit, nil)
}

// TestAllCallersGo: a computation that has begun is kept though no caller waits; one that has not
// does not begin.
func TestAllCallersGo(t *testing.T) {
	t.Parallel()
	c := open(t, Config{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s, release := blocked(t, "v")
	loading := start(ctx, c, "k", s)
	<-s.begun

	other := openOn(t, redistest.Shared(t).Client(t), c.name, Config{})
	unwanted := &source{}
	waiting := start(ctx, other, "k", unwanted)
	awaitCallers(t, other, 1)
	cancel()
	wantFrom(t, loading, "", Failed, context.Canceled)
	wantFrom(t, waiting, "", Failed, context.Canceled)
	if n := other.callers(); n != -1 {
		t.Errorf("%d callers wait for a flight without callers", n)
	}
	release()
	redistest.Eventually(t, "the value is kept", func() bool {
		_, _, err := c.keys.Get(t.Context(), "k")
		return err == nil
	})
	wantLoads(t, unwanted, 0)
	want(t, other, "k", unwanted, "v", Hit, nil)
}

func TestCancelledBefore(t *testing.T) {
	t.Parallel()
	c := open(t, Config{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := &source{}
	wantFrom(t, start(ctx, c, "k", s), "", Failed, context.Canceled)
	wantLoads(t, s, 0)
}

func TestPanic(t *testing.T) {
	t.Parallel()
	for name, load := range map[string]func(context.Context) (string, error){
		"panics":             func(context.Context) (string, error) { panic("out of paper") },
		"ends its goroutine": func(context.Context) (string, error) { runtime.Goexit(); return "", nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := open(t, Config{Errors: -1})
			begun, release := make(chan struct{}), make(chan struct{})
			failing := func(ctx context.Context) (string, error) {
				close(begun)
				<-release
				return load(ctx)
			}
			first := make(chan error, 1)
			go func() {
				_, _, err := Get(t.Context(), c, "k", failing)
				first <- err
			}()
			<-begun
			second := start(t.Context(), c, "k", &source{})
			awaitCallers(t, c, 2)
			close(release)
			if err := <-first; !errors.Is(err, ErrPanicked) {
				t.Errorf("Get = %v, want ErrPanicked", err)
			}
			wantFrom(t, second, "", Failed, ErrPanicked)
			want(t, c, "k", &source{value: "v"}, "v", Miss, nil) // at once: the lease is free
		})
	}
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	c := open(t, Config{Timeout: 20 * time.Millisecond})
	_, _, err := Get(t.Context(), c, "k", func(ctx context.Context) (string, error) {
		<-ctx.Done()
		return "", ctx.Err()
	})
	if !errors.Is(err, millrace.ErrTimeout) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Get = %v, want ErrTimeout", err)
	}
	if t.Context().Err() != nil {
		t.Error("the caller's context ended")
	}
}

// TestForget: a value computed from older data is not kept, whichever process computes
// it and whichever forgets.
func TestForget(t *testing.T) {
	t.Parallel()
	for name, same := range map[string]bool{"in the same process": true, "elsewhere": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := open(t, Config{Stale: time.Minute})
			forgetter := c
			if !same {
				forgetter = openOn(t, redistest.Shared(t).Client(t), c.name, Config{})
			}
			before, release := blocked(t, "before")
			loading := start(t.Context(), c, "k", before)
			<-before.begun
			if err := forgetter.Forget(t.Context(), "k"); err != nil {
				t.Fatal(err)
			}
			after := &source{value: "after"}
			want(t, forgetter, "k", after, "after", Miss, nil)
			release()
			wantFrom(t, loading, "before", Miss, nil)
			redistest.Eventually(t, "the flights have ended", func() bool { return c.callers() < 0 })
			value, _, err := Get(t.Context(), c, "k", after.load)
			if value != "after" || err != nil {
				t.Errorf("Get = %q, %v, want what was computed after", value, err)
			}
			if err := c.Forget(t.Context(), "k"); err != nil {
				t.Fatal(err)
			}
			want(t, c, "k", &source{value: "last"}, "last", Miss, nil)
			if err := c.Forget(t.Context(), "never"); err != nil {
				t.Errorf("Forget of nothing = %v", err)
			}
		})
	}
}

// TestOverrun: a computation that ran longer than its lease gives its value to its
// callers and leaves the newer one alone.
func TestOverrun(t *testing.T) {
	t.Parallel()
	c := open(t, Config{Timeout: 10 * time.Millisecond})
	c.hold = 20 * time.Millisecond
	s, release := blocked(t, "late") // it ignores its context
	loading := start(t.Context(), c, "k", s)
	<-s.begun
	other := openOn(t, redistest.Shared(t).Client(t), c.name, Config{})
	want(t, other, "k", &source{value: "newer"}, "newer", Miss, nil)
	release()
	wantFrom(t, loading, "late", Miss, nil)
	want(t, c, "k", &source{}, "newer", Hit, nil)
}

// TestLeaseSaysWho: the lease of a computation names the process.
func TestLeaseSaysWho(t *testing.T) {
	t.Parallel()
	c := open(t, Config{Timeout: time.Minute})
	s, release := blocked(t, "v")
	loading := start(t.Context(), c, "k", s)
	<-s.begun
	locker, err := lease.New(redistest.Shared(t).Client(t), lease.Config{})
	if err != nil {
		t.Fatal(err)
	}
	info, err := locker.Show(t.Context(), "fetch/"+c.name+"/k")
	if err != nil || !info.Held || !strings.HasSuffix(info.Metadata, fmt.Sprintf(", process %d", os.Getpid())) {
		t.Errorf("Show = %+v, %v, want it held by this process", info, err)
	}
	release()
	wantFrom(t, loading, "v", Miss, nil)
}

type handleHook struct {
	mu   sync.Mutex
	seen []string
}

func (h *handleHook) OnHandle(ctx context.Context, work millrace.Handling) (context.Context, func(error)) {
	return ctx, func(err error) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.seen = append(h.seen, fmt.Sprint(work.Structure, " ", work.Size, " ", err))
	}
}

func TestHooksSeeLoads(t *testing.T) {
	t.Parallel()
	hook := &handleHook{}
	c := open(t, Config{Hooks: []millrace.Hook{hook}})
	want(t, c, "k", &source{value: "v"}, "v", Miss, nil)
	want(t, c, "k", &source{}, "v", Hit, nil)
	want(t, c, "other", &source{err: errLoad}, "", Failed, errLoad)
	if got, want := hook.seen, []string{"fetch 1 <nil>", "fetch 1 " + errLoad.Error()}; !slices.Equal(got, want) {
		t.Errorf("the hook saw %q, want %q", got, want)
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	for _, name := range []string{"", "a/b", "a{b}", "a\nb", strings.Repeat("x", maxName+1)} {
		if _, err := Open(t.Context(), client, name, Config{}); !errors.Is(err, millrace.ErrBadName) {
			t.Errorf("Open(%.20q) = %v, want millrace.ErrBadName", name, err)
		}
	}
	c := openOn(t, client, strings.Repeat("n", maxName-20)+redistest.Name(t)[:20], Config{})
	for _, key := range []string{"", "a{b}", "a\x7f", strings.Repeat("x", maxKey+1)} {
		want(t, c, key, &source{}, "", Failed, millrace.ErrBadName)
		if err := c.Forget(t.Context(), key); !errors.Is(err, millrace.ErrBadName) {
			t.Errorf("Forget(%.20q) = %v, want millrace.ErrBadName", key, err)
		}
	}
	for _, key := range []string{"/", "user/42?x=y", "ключ", strings.Repeat("k", maxKey)} {
		want(t, c, key, &source{value: "v"}, "v", Miss, nil)
		want(t, c, key, &source{}, "v", Hit, nil)
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	for _, cfg := range []Config{
		{TTL: -1}, {TTL: time.Microsecond}, {Stale: -1}, {Negative: time.Microsecond}, {Errors: time.Microsecond}, {Timeout: -1}, {Concurrency: -1},
		{Jitter: 1}, {Jitter: math.NaN()}, {Early: math.Inf(1)},
	} {
		if _, err := Open(t.Context(), client, "x", cfg); !errors.Is(err, millrace.ErrBadArgument) {
			t.Errorf("Open(%+v) = %v, want millrace.ErrBadArgument", cfg, err)
		}
	}
}

// TestOldIsGoneForWhoComesLater: a caller that finds nothing does not get the old value that
// an earlier caller found, though they wait for the same flight.
func TestOldIsGoneForWhoComesLater(t *testing.T) {
	t.Parallel()
	c := open(t, Config{})
	f := &flight{cache: c, request: request{key: "k"}, callers: 1, done: make(chan struct{}), answer: answer{outcome: Stale, payload: []byte("old")}}
	c.flights["k"] = f // a flight that is about to give an old value
	answers := start(t.Context(), c, "k", &source{value: "new"})
	awaitCallers(t, c, 2)
	c.mu.Lock()
	c.remove(f)
	c.mu.Unlock()
	close(f.done)
	wantFrom(t, answers, "new", Miss, nil)
}
