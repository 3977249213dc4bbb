package ick

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/test/redistest"
)

// waits counts the callers that wait for the end of the context.
type waits struct {
	context.Context
	count *atomic.Int64
}

func (w waits) Done() <-chan struct{} {
	w.count.Add(1)
	return w.Context.Done()
}

// TestSharedAddsAnswerEachCaller: callers share a script call, and get answers as if each had
// called alone. Their hooks see each one's call.
func TestSharedAddsAnswerEachCaller(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	hook := &recorder{}
	k := openOn(t, server.Client(t), "x", Config{Hooks: []millrace.Hook{hook}})

	const callers = 20 // whose marks do not fill a call
	answers := make([]Added, callers)
	for i, err := range holdAdds(t, server, k, callers, func(ctx context.Context, i int) (err error) {
		// All mark "hot", and two by two share another member.
		answers[i], err = k.Add(ctx, Entry{"hot", float64(1000 - i)}, Entry{"pair" + strconv.Itoa(i/2), float64(i)})
		return err
	})() {
		if err != nil {
			t.Errorf("caller %d: %v", i, err)
		}
	}

	if got, want := scriptCalls(t, k.run.Client), 2; got != want {
		t.Errorf("script calls = %d, want %d for %d callers", got, want, callers)
	}
	if len(hook.calls) != callers || len(hook.failed) != callers {
		t.Errorf("the hook was told about %d calls and %d ends, want each caller's", len(hook.calls), len(hook.failed))
	}
	var sum Added
	for i, a := range answers {
		if a.New > 2 || a.New+a.Lowered > 2 {
			t.Errorf("caller %d was told %+v of its two marks", i, a)
		}
		sum.New += a.New
		sum.Lowered += a.Lowered
	}
	if got, want := sum.New, 1+callers/2; got != want {
		t.Errorf("new over all callers = %d, want %d: each member is new to one caller", got, want)
	}
	s, err := k.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := s.Counters.New+s.Counters.Folded, int64(2*callers); got != want {
		t.Errorf("marks counted = %d, want %d", got, want)
	}
	if s.Waiting.Newest != 1000-(callers-1) {
		t.Errorf("score of hot = %v, want the lowest that anybody gave", s.Waiting.Newest)
	}
}

// TestAddsAnswerAsIfCalledAlone: adds count members that are new or lowered, as if each was called alone.
func TestAddsAnswerAsIfCalledAlone(t *testing.T) {
	t.Parallel()
	k := open(t, Config{})
	for _, step := range []struct {
		marks        string
		isNew, lower int
	}{{"a10", 1, 0}, {"a20 b20", 1, 0}, {"a5 c30", 1, 1}, {"a5", 0, 0}, {"d9 d8 d10 d7", 1, 2}} {
		got, err := k.Add(t.Context(), marks(t, step.marks)...)
		want(t, "add "+step.marks, got, Added{New: step.isNew, Lowered: step.lower}, err)
	}
	got, err := k.AddNow(t.Context(), "a", "e", "e")
	want(t, "add now", got, Added{New: 1}, err)
	list := make([]Entry, 2500)
	for i := range list {
		list[i] = Entry{Member: fmt.Sprint("big", i), Score: 1}
	}
	got, err = k.Add(t.Context(), list...)
	want(t, "add 2500", got, Added{New: 2500}, err)
}

func TestSharedAddsWithLostReplies(t *testing.T) {
	t.Parallel()
	k, proxy := proxied(t, Config{})
	lost := proxy.DropReply(evalsha)
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			if _, err := k.AddNow(t.Context(), "m"+strconv.Itoa(i)); err != nil {
				t.Errorf("add: %v", err)
			}
		})
	}
	all.Wait()
	if lost.Count() != 1 {
		t.Fatalf("replies lost = %d, want 1", lost.Count())
	}
	if s, err := k.Stats(t.Context()); err != nil || s.Waiting.Size != 20 {
		t.Errorf("waiting = %+v, %v, want all 20 marks", s.Waiting, err)
	}
}

func TestAddErrors(t *testing.T) {
	t.Parallel()
	k := open(t, Config{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := k.AddNow(ctx, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("add with an ended context: %v, want context.Canceled", err)
	}
	if err := do(t, k.run.Client, "SET", k.name, "ick.v9").Error(); err != nil {
		t.Fatal(err)
	}
	_, err := k.AddNow(t.Context(), "a")
	wantError(t, err, millrace.ErrVersion)
}

// addOne adds a member of the caller's own.
func addOne(k *Ick) func(context.Context, int) error {
	return func(ctx context.Context, i int) error {
		_, err := k.AddNow(ctx, "m"+strconv.Itoa(i))
		return err
	}
}

// holdAdds stops the server, and has n callers add: one call is under way, and the others
// wait for the next. goOn resumes the server and returns each caller's error.
func holdAdds(t *testing.T, server *redistest.Server, k *Ick, n int, add func(context.Context, int) error) (goOn func() []error) {
	t.Helper()
	server.Pause()
	var all sync.WaitGroup
	var waiting atomic.Int64
	told := make([]error, n)
	all.Go(func() { told[0] = add(t.Context(), 0) })
	redistest.Eventually(t, "a call is under way", func() bool { return !k.adds.Alone(func() {}) })
	for i := 1; i < n; i++ {
		all.Go(func() { told[i] = add(waits{t.Context(), &waiting}, i) })
		redistest.Eventually(t, "the caller waits", func() bool { return int(waiting.Load()) == i })
	}
	return func() []error {
		server.Resume()
		all.Wait()
		return told
	}
}

// TestAddOfOneFailsNobodyElse: an add that is refused for its own reason never shares a call.
func TestAddOfOneFailsNobodyElse(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	k := openOn(t, server.Client(t), "x", Config{})
	goOn := holdAdds(t, server, k, 5, addOne(k))
	_, err := k.AddNow(t.Context(), "fine", strings.Repeat("x", maxMember+1))
	wantError(t, err, millrace.ErrTooLarge)
	_, err = k.Add(t.Context(), Entry{"odd", math.NaN()})
	wantError(t, err, millrace.ErrBadArgument)
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error)
	var waiting atomic.Int64
	go func() {
		_, err := k.AddNow(waits{ctx, &waiting}, "gone")
		gone <- err
	}()
	redistest.Eventually(t, "the caller waits", func() bool { return waiting.Load() == 1 })
	cancel()
	wantError(t, <-gone, context.Canceled) // at once, and its request is never sent
	for i, err := range goOn() {
		if err != nil {
			t.Errorf("caller %d: %v", i, err)
		}
	}
	wantReserve(t, k, 0, "")
	r, err := k.Reserve(t.Context(), 10)
	members := r.Members()
	slices.Sort(members)
	want(t, "marks", members, []string{"m0", "m1", "m2", "m3", "m4"}, err)
}

// TestSharedAddsOnAFullServer are refused, all of them, and change nothing.
func TestSharedAddsOnAFullServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	k := openOn(t, server.Client(t), "x", Config{})
	wantAdd(t, k, "a1", 1, 0)
	if err := do(t, k.run.Client, "CONFIG", "SET", "maxmemory", "1").Error(); err != nil {
		t.Fatal(err)
	}
	for _, err := range holdAdds(t, server, k, 5, addOne(k))() {
		wantError(t, err, millrace.ErrFull)
	}
	wantReserve(t, k, 10, "a1")
}

// TestHooksSeeRepeatsOfSharedAdds: once for all callers that share the call.
func TestHooksSeeRepeatsOfSharedAdds(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	proxy := redistest.NewProxy(t, server.Addr())
	shared := func(cmd []string) bool { return evalsha(cmd) && len(cmd) > 7 } // of more than one mark
	redistest.Eventually(t, "adds share a call", func() bool {                // where calls take long, each goes out by itself
		hook := &recorder{}
		k := openOn(t, proxy.Client(t), redistest.Name(t), Config{Hooks: []millrace.Hook{hook}})
		wantAdd(t, k, "a1", 1, 0)
		lost := proxy.DropReply(shared)
		for i, err := range holdAdds(t, server, k, 4, addOne(k))() {
			if err != nil {
				t.Errorf("caller %d: %v", i, err)
			}
		}
		if lost.Count() == 0 {
			proxy.Heal()
			return false
		}
		tries := map[int]int{}
		for _, call := range hook.calls {
			tries[call.Try]++
		}
		if tries[2] > 1 { // two calls were in flight, and the connection of both was lost
			return false
		}
		want(t, "tries", tries, map[int]int{1: 5, 2: 1}, nil)
		return true
	})
}
