package bench

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/test/redistest"
)

// The first operations, which warm up, do not count.
func TestRateWarmsUp(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	b := B{Time: 50 * time.Millisecond}
	speed, err := b.run(t.Context(), rated(func(context.Context, *B) op {
		return func(context.Context, int) error {
			calls.Add(1)
			time.Sleep(time.Millisecond)
			return nil
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	if most := float64(calls.Load()-Goroutines) / b.Time.Seconds(); speed <= 0 || speed > most {
		t.Errorf("rate = %v a second, want at most %v of %d calls in all", speed, most, calls.Load())
	}
}

// A goroutine that fails ends the others, however much time they have.
func TestWhatFailsEndsTheOthers(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	fail := func(_ context.Context, goroutine int) error {
		if goroutine == 7 {
			return broken
		}
		return nil
	}
	if _, err := (B{Time: time.Hour}).run(t.Context(), rated(func(context.Context, *B) op { return fail })); !errors.Is(err, broken) {
		t.Errorf("Rate = %v, want %v", err, broken)
	}
	if err := Deal(t.Context(), 1<<40, fail); !errors.Is(err, broken) {
		t.Errorf("Deal = %v, want %v", err, broken)
	}
}

func TestDealCallsForEachNumberOnce(t *testing.T) {
	t.Parallel()
	const n = 1000
	var calls [n]atomic.Int64
	if err := Deal(t.Context(), n, func(_ context.Context, i int) error { calls[i].Add(1); return nil }); err != nil {
		t.Fatal(err)
	}
	for i := range calls {
		if got := calls[i].Load(); got != 1 {
			t.Errorf("%d calls for %d, want 1", got, i)
		}
	}
}

// The memory of a queue is that of all its keys but its answers.
func TestQueueKeysAreAll(t *testing.T) {
	t.Parallel()
	c := redistest.Start(t, redistest.Options{}).Client(t)
	name := redistest.Name(t)
	q, err := fairqueue.New(c, name, fairqueue.Config{})
	if err != nil {
		t.Fatal(err)
	}
	known := queueKeys(name)
	if _, err := q.WriteBatch(t.Context(), drafts(1000)...); err != nil {
		t.Fatal(err)
	}
	for range 2 { // with messages, and without
		for _, key := range keys(t, c, "*") {
			if !slices.Contains(known, key) && !strings.Contains(key, ":lanes:") && !strings.HasPrefix(key, "mr:registry:") {
				t.Errorf("a queue has the key %q, which is not counted", key)
			}
		}
		messages, err := q.Read(t.Context(), fairqueue.ReadConfig{Max: 1000})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := q.Ack(t.Context(), receipts(messages)...); err != nil {
			t.Fatal(err)
		}
		if _, err := q.Write(t.Context(), fairqueue.Draft{Tenant: "t", Delay: time.Hour, DedupeID: "d"}); err != nil {
			t.Fatal(err)
		}
		if _, err := q.Write(t.Context(), fairqueue.Draft{Tenant: "t"}); err != nil {
			t.Fatal(err)
		}
	}
}

// An idle reader's commands are counted where they are made, and the commands of others are not.
func TestCounter(t *testing.T) {
	t.Parallel()
	c := redistest.Start(t, redistest.Options{}).Client(t)
	w := counted(c)
	if err := w.Do(t.Context(), w.B().Ping().Build()).Error(); err != nil {
		t.Fatal(err)
	}
	if len(w.blocks) > 0 {
		t.Error("PING is reported as a command that blocks")
	}
	_ = w.DoMulti(t.Context(), w.B().Ping().Build(), w.B().Ping().Build())
	_ = w.Do(t.Context(), w.B().Blpop().Key("none").Timeout(0.01).Build())
	if err := c.Do(t.Context(), c.B().Ping().Build()).Error(); err != nil {
		t.Fatal(err)
	}
	if err := w.blocked(t.Context()); err != nil {
		t.Errorf("BLPOP is not reported as a command that blocks: %v", err)
	}
	if got, want := w.sent.Load(), int64(4); got != want {
		t.Errorf("%d commands, want %d", got, want)
	}
}
