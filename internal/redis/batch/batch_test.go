package batch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// caller makes requests, which are numbers, and records the calls.
type caller struct {
	mu    sync.Mutex
	calls [][]int
	hold  chan struct{} // a call under way waits for it
	err   error
}

func (c *caller) call(_ context.Context, requests []int) ([]int, error) {
	c.mu.Lock()
	c.calls = append(c.calls, requests)
	c.mu.Unlock()
	<-c.hold
	answers := make([]int, len(requests))
	for i, r := range requests {
		answers[i] = -r
	}
	return answers, c.err
}

func (c *caller) made() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprint(c.calls)
}

// start makes requests one after the other, and returns a function that waits for their answers.
func start(t *testing.T, b *Batcher[int, int], ctx context.Context, requests ...int) (wait func()) { //nolint:revive // the test comes first
	t.Helper()
	var running sync.WaitGroup
	for _, r := range requests {
		running.Go(func() {
			if out, err := b.Do(ctx, r); err == nil && out != -r || err != nil && ctx.Err() == nil {
				t.Errorf("answer to %d = %d, %v", r, out, err)
			}
		})
		synctest.Wait()
	}
	return running.Wait
}

func want(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s = %s, want %s", what, got, want)
	}
}

// TestShared: the first request goes out at once, and the requests that come meanwhile share a call.
func TestShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &caller{hold: make(chan struct{})}
		b := New(Config[int, int]{Call: c.call})
		wait := start(t, b, t.Context(), 1, 2, 3)
		want(t, "calls", c.made(), "[[1]]")
		close(c.hold)
		wait()
		want(t, "calls", c.made(), "[[1] [2 3]]")
	})
}

// TestAlone: a caller can make its own call while no other is in progress, and requests wait
// until it ends.
func TestAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &caller{hold: make(chan struct{})}
		b := New(Config[int, int]{Call: c.call})
		go b.Alone(func() { <-c.hold })
		synctest.Wait()
		wait := start(t, b, t.Context(), 1, 2)
		if b.Alone(func() { t.Error("a second call is made alone") }) {
			t.Error("Alone reports a call that it did not make")
		}
		want(t, "calls", c.made(), "[]")
		c.hold <- struct{}{} // for the call of its own
		synctest.Wait()
		want(t, "calls", c.made(), "[[1 2]]")
		close(c.hold)
		wait()
		for range 2 {
			if !b.Alone(func() {}) {
				t.Error("no call is under way, and Alone makes none")
			}
		}
		b.Wait()
		want(t, "calls", c.made(), "[[1 2]]")
	})
}

// TestFullCalls: requests that fill a call do not wait for the one in progress.
func TestFullCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &caller{hold: make(chan struct{})}
		b := New(Config[int, int]{Call: c.call, Size: func(r int) (int, int) { return r, 0 }})
		wait := start(t, b, t.Context(), 100, 20, 30, 100)
		want(t, "calls", c.made(), "[[100] [20 30]]")
		close(c.hold)
		wait()
		want(t, "calls", c.made(), "[[100] [20 30] [100]]")
	})
}

// TestLongCalls: several long calls are in progress at once, and short ones are not.
func TestLongCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &caller{hold: make(chan struct{})}
		b := New(Config[int, int]{Call: c.call})
		wait := start(t, b, t.Context(), 1)
		time.Sleep(2 * longCall)
		close(c.hold)
		wait()
		c.hold = make(chan struct{})
		wait = start(t, b, t.Context(), 2, 3, 4, 5, 6, 7)
		want(t, "calls", c.made(), "[[1] [2] [3] [4] [5]]")
		close(c.hold)
		wait()
		want(t, "calls", c.made(), "[[1] [2] [3] [4] [5] [6 7]]")
		for i := range 9 {
			start(t, b, t.Context(), 10+i)()
		}
		c.hold = make(chan struct{})
		wait = start(t, b, t.Context(), 20, 21, 22)
		want(t, "last call", c.made()[len(c.made())-5:], "[20]]")
		close(c.hold)
		wait()
	})
}

// TestBounds of a call in count and in bytes; one request may be larger. No case has enough items waiting to start a
// second call, so calls are in the order of their requests.
func TestBounds(t *testing.T) {
	for _, tt := range []struct {
		name string
		cfg  Config[int, int]
		want string
	}{
		{"count", Config[int, int]{MaxItems: 2}, "[[1] [2 3] [4 30] [31]]"},
		{"items", Config[int, int]{MaxItems: 5, FullItems: 100, Size: func(r int) (int, int) { return r, 0 }}, "[[1] [2 3] [4] [30] [31]]"},
		{"bytes", Config[int, int]{MaxBytes: 33, Size: func(r int) (int, int) { return 1, r }}, "[[1] [2 3 4] [30] [31]]"},
		{"together", Config[int, int]{Together: func(others []int, r int) bool { return others[0]%2 == r%2 }}, "[[1] [2 4 30] [3 31]]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &caller{hold: make(chan struct{})}
				tt.cfg.Call = c.call
				wait := start(t, New(tt.cfg), t.Context(), 1, 2, 3, 4, 30, 31)
				close(c.hold)
				wait()
				want(t, "calls", c.made(), tt.want)
			})
		})
	}
}

// TestCancelled: a cancelled request that waits is never sent, and the answer to one that was
// sent goes to Abandoned.
func TestCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &caller{hold: make(chan struct{})}
		var abandoned []int
		b := New(Config[int, int]{Call: c.call, Abandoned: func(ctx context.Context, in, out int) {
			if ctx.Err() != nil {
				t.Error("the context of a caller who has gone is used")
			}
			abandoned = append(abandoned, in, out)
		}})
		why := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		left := start(t, b, ctx, 1, 2)
		stays := start(t, b, t.Context(), 3)
		cancel(why)
		left() // while the call is under way
		if _, err := b.Do(ctx, 4); !errors.Is(err, why) {
			t.Errorf("Do = %v, want the cause", err)
		}
		close(c.hold)
		stays()
		synctest.Wait()
		want(t, "calls", c.made(), "[[1] [3]]")
		want(t, "abandoned", fmt.Sprint(abandoned), "[1 -1]")
	})
}

// TestError: all requests of a call get its error, and no answer is abandoned.
func TestError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &caller{hold: make(chan struct{}), err: errors.New("no luck")}
		b := New(Config[int, int]{Call: c.call, Abandoned: func(context.Context, int, int) { t.Error("abandoned") }})
		var running sync.WaitGroup
		for i := range 3 {
			running.Go(func() {
				if _, err := b.Do(t.Context(), i); !errors.Is(err, c.err) {
					t.Errorf("Do = %v", err)
				}
			})
		}
		close(c.hold)
		running.Wait()
	})
}

// TestMany goroutines each get their own answer.
func TestMany(t *testing.T) {
	t.Parallel()
	c := &caller{hold: make(chan struct{})}
	close(c.hold)
	b := New(Config[int, int]{Call: c.call})
	var running sync.WaitGroup
	for i := range 2000 {
		running.Go(func() {
			if out, err := b.Do(t.Context(), i); out != -i || err != nil {
				t.Errorf("answer to %d = %d, %v", i, out, err)
			}
		})
	}
	running.Wait()
}
