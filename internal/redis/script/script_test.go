package script_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/redis/script"
	"github.com/millrace/millrace/internal/test/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// library has the scripts of these tests.
var library = script.Load(fstest.MapFS{
	"incr.lua":  {Data: []byte("-- test.incr(K) by -> number\n-- Needs    name\nreturn redis.call('INCRBY', name, ARGV[1])")},
	"name.lua":  {Data: []byte("-- fragment name: where the number is\n-- Touches  n\nlocal name = prefix .. 'n'\n")},
	"none.lua":  {Data: []byte("-- test.none(K) -> nil\nreturn false")},
	"odd.lua":   {Data: []byte("-- test.odd(K) -> error\nreturn redis.error_reply('ODD thing')")},
	"other.lua": {Data: []byte("-- test.other(K) -> error\nreturn redis.error_reply('VERSION 7')")},
	"one.lua":   {Data: []byte("-- test.one(K) -> 1\nreturn 1")},
}, "K:")

func TestRun(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	proxy := redistest.NewProxy(t, server.Addr())
	client := proxy.Client(t)
	hook := &tries{}
	run := script.Runner{Scripts: library, Client: client, Hooks: []millrace.Hook{hook, 7}}
	value := func() int64 {
		t.Helper()
		reply, err := run.Run(t.Context(), "incr", "k", "5")
		if err != nil {
			t.Fatal(err)
		}
		return reply.Int()
	}
	if got := value(); got != 5 {
		t.Errorf("first run = %d, want 5: the server does not know the script yet", got)
	}
	if err := client.Do(t.Context(), client.B().ScriptFlush().Build()).Error(); err != nil {
		t.Fatal(err)
	}
	if got := value(); got != 10 {
		t.Errorf("run after SCRIPT FLUSH = %d, want 10", got)
	}
	lost := proxy.DropReply(redistest.Named("EVALSHA"))
	if got := value(); got != 20 || lost.Count() != 1 {
		t.Errorf("run whose reply was lost = %d, want 20: it was repeated", got)
	}
	if want := []int{1, 1, 1, 2}; !slices.Equal(hook.numbers, want) {
		t.Errorf("tries = %v, want %v", hook.numbers, want)
	}
}

func TestRunGivesAnswersAsTheyAre(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	client := server.Client(t)
	hook := &tries{}
	run := script.Runner{Scripts: library, Client: client, Hooks: []millrace.Hook{hook}}
	reply, err := run.Run(t.Context(), "none", "k")
	if err != nil {
		t.Fatal(err)
	}
	if text, ok := reply.Maybe(); ok || reply.Err() != nil {
		t.Errorf("nil = %q, %v, want nothing and no error", text, reply.Err())
	}
	if _, err = run.Run(t.Context(), "other", "k"); !errors.Is(err, millrace.ErrVersion) {
		t.Errorf("error of another version = %v, want ErrVersion", err)
	}
	_, err = run.Run(t.Context(), "odd", "k")
	if _, ok := rueidis.IsRedisErr(err); !ok || err.Error() != "ODD thing" {
		t.Errorf("error = %v, want the script's", err)
	}
	if err := client.Do(t.Context(), client.B().ConfigSet().ParameterValue().ParameterValue("maxmemory", "1").Build()).Error(); err != nil {
		t.Fatal(err)
	}
	if _, err = run.Run(t.Context(), "incr", "k", "1"); !errors.Is(err, millrace.ErrFull) {
		t.Errorf("error of a full server = %v, want ErrFull", err)
	}
	if want := []int{1, 1, 1, 1}; !slices.Equal(hook.numbers, want) {
		t.Errorf("tries = %v, want one each: answers are not repeated", hook.numbers)
	}
}

// TestRefusalsAreNamed: all codes with which a server refuses calls for now have one name.
func TestRefusalsAreNamed(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	run := script.Runner{Scripts: library, Client: client}
	for _, code := range []string{"READONLY", "LOADING", "MASTERDOWN", "NOREPLICAS", "CLUSTERDOWN", "TRYAGAIN", "BUSY"} {
		refused := client.Do(t.Context(), client.B().Eval().Script("return redis.error_reply(ARGV[1])").Numkeys(0).Arg(code+" not now").Build()).Error()
		if err := run.Name(refused); !errors.Is(err, millrace.ErrUnavailable) || !errors.Is(err, refused) {
			t.Errorf("%s is named %v, want ErrUnavailable with it inside", code, err)
		}
	}
}

// tries writes down the number of each try.
type tries struct {
	mu      sync.Mutex
	numbers []int
}

func (h *tries) OnCall(ctx context.Context, call millrace.Call) (context.Context, func(error)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.numbers = append(h.numbers, call.Try)
	return ctx, nil
}

// TestPromptBeforeTheConnectionStands cancels calls of a client whose every
// connection is new, to a server that accepts connections and says nothing. The
// best of several must return within 50 ms: a busy machine may delay some.
func TestPromptBeforeTheConnectionStands(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	client := server.Client(t, func(o *rueidis.ClientOption) {
		o.DisableAutoPipelining = true
		o.Dialer.Timeout = time.Second
	})
	run := script.Runner{Scripts: library, Client: client}
	server.Pause()
	defer server.Resume()
	best := time.Hour
	for range 5 {
		ctx, cancel := context.WithCancel(t.Context())
		var cancelled time.Time
		time.AfterFunc(5*time.Millisecond, func() {
			cancelled = time.Now()
			cancel()
		})
		if _, err := run.Run(ctx, "incr", "k", "1"); !errors.Is(err, context.Canceled) {
			t.Errorf("error = %v, want context.Canceled", err)
		}
		best = min(best, time.Since(cancelled))
	}
	if best > 50*time.Millisecond {
		t.Errorf("a call returns %v after its cancel, more than 50 ms", best)
	}
}

// TestFrozenServer: a server that answered a moment ago and then freezes does not
// keep a caller beyond its context, even if each call has a connection of its own.
func TestFrozenServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	run := script.Runner{Scripts: library, Client: server.Client(t, func(o *rueidis.ClientOption) { o.DisableAutoPipelining = true })}
	for range 3 {
		if _, err := run.Run(t.Context(), "one", "k"); err != nil {
			t.Fatal(err)
		}
	}
	server.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err := run.Run(ctx, "one", "k")
	if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || took > time.Second {
		t.Errorf("Run = %v after %v, want the deadline of 50 ms", err, took)
	}
}

// TestSilentNode: calls to a node that is silent, and that has as many waiting as its
// connection takes, end with their contexts while the other nodes answer many calls.
func TestSilentNode(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t, 3, 0)
	cluster.HoldFailovers()
	run := script.Runner{Scripts: library, Client: cluster.Client(t, func(o *rueidis.ClientOption) {
		o.RingScaleEachConn = 4
		o.PipelineMultiplex = -1 // one connection to a node
	})}
	silent, there, elsewhere := cluster.Nodes[0], "", ""
	for i := 0; there == "" || elsewhere == ""; i++ {
		if key := fmt.Sprint(i); cluster.MasterOf(key) == silent {
			there = key
		} else {
			elsewhere = key
		}
	}
	if _, err := run.Run(t.Context(), "one", there); err != nil {
		t.Fatal(err)
	}
	silent.Pause()
	var waiting sync.WaitGroup
	defer waiting.Wait()
	defer silent.Resume()
	client := run.Client
	for range 1 << 5 {
		waiting.Go(func() { client.Do(context.Background(), client.B().Get().Key(there).Build()) })
	}
	calls := &begun{}
	others := script.Runner{Scripts: library, Client: client, Hooks: []millrace.Hook{calls}}
	for range 20 { // many are under way
		waiting.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, _ = others.Run(ctx, "one", there)
		})
	}
	redistest.Eventually(t, "calls are under way", func() bool { return calls.n.Load() == 20 })
	if _, err := others.Run(t.Context(), "one", elsewhere); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err := others.Run(ctx, "one", there)
	if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || took > time.Second {
		t.Errorf("Run = %v after %v, want the deadline of 50 ms", err, took)
	}
}

// begun counts calls.
type begun struct{ n atomic.Int64 }

func (b *begun) OnCall(ctx context.Context, _ millrace.Call) (context.Context, func(error)) {
	b.n.Add(1)
	return ctx, nil
}

// TestCauseOfManyCalls: each of many callers gets the cause of its context's end, also where
// the client ends the call.
func TestCauseOfManyCalls(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	calls := &begun{}
	run := script.Runner{Scripts: library, Client: server.Client(t), Hooks: []millrace.Hook{calls}}
	if _, err := run.Run(t.Context(), "one", "k"); err != nil {
		t.Fatal(err)
	}
	server.Pause()
	defer server.Resume()
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("why")
	errs := make(chan error)
	for range 40 {
		go func() {
			_, err := run.Run(ctx, "one", "k")
			errs <- err
		}()
	}
	redistest.Eventually(t, "all are under way", func() bool { return calls.n.Load() == 41 })
	cancel(why)
	for range 40 {
		if err := <-errs; !errors.Is(err, why) {
			t.Errorf("error = %v, want %v", err, why)
		}
	}
}

// TestWithin: the library's own limit says that there was no answer.
func TestWithin(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	run := script.Runner{Scripts: library, Client: server.Client(t)}
	server.Pause()
	defer server.Resume()
	ctx, cancel := script.Within(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := run.Run(ctx, "one", "k")
	if got, want := fmt.Sprint(retry.Bare(err)), "no answer within 20ms"; got != want || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error = %q, want %q, which is context.DeadlineExceeded", got, want)
	}
}
