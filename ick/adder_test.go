package ick

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redistest"
)

// waits counts those who wait for the end of the context.
type waits struct {
	context.Context
	count *atomic.Int64
}

func (w waits) Done() <-chan struct{} {
	w.count.Add(1)
	return w.Context.Done()
}

func TestAdderGivesEveryCallerItsOwnAnswer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	hook := &recorder{}
	k := openOn(t, server.Client(t), "x", Config{Hooks: []millrace.Hook{hook}})
	adder := k.Adder()

	// While the server is stopped, one call is under way and all others wait for the next.
	server.Pause()
	const callers = 20 // whose marks do not fill a call
	var all sync.WaitGroup
	var waiting atomic.Int64
	answers := make([]Added, callers)
	for i := range callers {
		all.Go(func() {
			var err error
			// Everybody marks "hot", and two by two share another member.
			answers[i], err = adder.Add(waits{t.Context(), &waiting},
				Entry{"hot", float64(1000 - i)}, Entry{"pair" + strconv.Itoa(i/2), float64(i)})
			if err != nil {
				t.Errorf("caller %d: %v", i, err)
			}
		})
		redistest.Eventually(t, "the caller waits", func() bool { return int(waiting.Load()) == i+1 })
	}
	server.Resume()
	all.Wait()
	adder.Close()

	if got, want := len(hook.calls), 2; got != want {
		t.Errorf("script calls = %d, want %d for %d callers", got, want, callers)
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
	if s.Pset.Range.Newest != 1000-(callers-1) {
		t.Errorf("score of hot = %v, want the lowest that anybody gave", s.Pset.Range.Newest)
	}
}

func TestAdderAnswersAsIfCalledAlone(t *testing.T) {
	t.Parallel()
	k := open(t, Config{})
	adder := k.Adder()
	defer adder.Close()
	for _, step := range []struct {
		marks        string
		isNew, lower int
	}{{"a10", 1, 0}, {"a20 b20", 1, 0}, {"a5 c30", 1, 1}, {"a5", 0, 0}, {"d9 d8 d10 d7", 1, 2}} {
		got, err := adder.Add(t.Context(), marks(t, step.marks)...)
		want(t, "add "+step.marks, got, Added{New: step.isNew, Lowered: step.lower}, err)
	}
	got, err := adder.AddNow(t.Context(), "a", "e", "e")
	want(t, "add now", got, Added{New: 1}, err)
	list := make([]Entry, 2500)
	for i := range list {
		list[i] = Entry{Member: fmt.Sprint("big", i), Score: 1}
	}
	got, err = adder.Add(t.Context(), list...)
	want(t, "add 2500", got, Added{New: 2500}, err)
}

func TestAdderWithLostReplies(t *testing.T) {
	t.Parallel()
	k, proxy := proxied(t, Config{})
	adder := k.Adder()
	defer adder.Close()
	lost := proxy.DropReply(evalsha)
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			if _, err := adder.AddNow(t.Context(), "m"+strconv.Itoa(i)); err != nil {
				t.Errorf("add: %v", err)
			}
		})
	}
	all.Wait()
	if lost.Count() != 1 {
		t.Fatalf("replies lost = %d, want 1", lost.Count())
	}
	if s, err := k.Stats(t.Context()); err != nil || s.Pset.Size != 20 {
		t.Errorf("waiting = %+v, %v, want all 20 marks", s.Pset, err)
	}
}

func TestAdderErrors(t *testing.T) {
	t.Parallel()
	k := open(t, Config{})
	adder := k.Adder()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := adder.AddNow(ctx, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("add with an ended context: %v, want context.Canceled", err)
	}
	if err := do(t, k.run.Client, "SET", k.name, "ick.v9").Error(); err != nil {
		t.Fatal(err)
	}
	_, err := adder.AddNow(t.Context(), "a")
	wantError(t, err, millrace.ErrVersion)
	adder.Close()
	adder.Close()
	if _, err := adder.AddNow(t.Context(), "a"); !errors.Is(err, ErrClosed) {
		t.Errorf("add on a closed adder: %v, want %v", err, ErrClosed)
	}
}
