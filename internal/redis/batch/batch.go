// Package batch lets goroutines that make calls at the same time share them.
//
// # The problem
//
// For most scripts the call costs the server more than the work, and a process has many
// goroutines that each need little.
//
// # The mechanism
//
// A request goes out at once if no call is in flight. Later requests wait, and go out together
// with the next call, in their order: the busier the callers, the more of them share a call. A
// second call starts when many items wait. Where calls take longer than 2 ms, as over a long
// distance, up to 4 are in flight.
//
//	Do ──▶ waiting ──▶ a call, shared with others ──▶ its own answer
//	          │                      │
//	          └─ context ends:       └─ context ends: the answer goes to Abandoned
//	             it is never sent
//
// A call is bounded in items and bytes. No caller's context ends it.
package batch

import (
	"context"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/redis/retry"
)

const (
	// Calls that take longCall on average run longCalls at a time.
	longCall  = 2 * time.Millisecond
	longCalls = 4
)

// Config configures a batcher.
type Config[In, Out any] struct {
	// Call sends requests and returns an answer for each, or one error for all. The
	// context is not that of any caller.
	Call func(ctx context.Context, requests []In) ([]Out, error)

	// Size returns the items and bytes of a request. Defaults to one item.
	Size func(In) (items, bytes int)

	// MaxItems and MaxBytes bound a call of more than one request. Default to 1,000 and
	// 1 MiB.
	MaxItems, MaxBytes int

	// FullItems is how many waiting items start a second call. Defaults to 50.
	FullItems int

	// Together reports whether a request can share a call with others, which are at
	// least one. Defaults to always.
	Together func(others []In, request In) bool

	// Changes reports whether a call for the request may change something. The error of a
	// caller that leaves such a call is millrace.ErrUncertain, from when a script is on its
	// way. Defaults to never.
	Changes func(request In) bool

	// Abandoned gets answers whose callers have gone. Defaults to none.
	Abandoned func(ctx context.Context, request In, answer Out)
}

// Batcher joins requests into calls. It is safe for concurrent use.
type Batcher[In, Out any] struct {
	cfg Config[In, Out]

	mu      sync.Mutex
	waiting []*request[In, Out]
	items   int           // that wait
	calls   int           // in flight
	took    time.Duration // by calls, a running mean

	serving sync.WaitGroup
}

// request is one caller's.
type request[In, Out any] struct {
	ctx  context.Context //nolint:containedctx // its values travel with the call
	in   In
	gone bool          // the caller has left; guarded by the batcher's mu
	call *retry.Effect // of the call that has it, nil before; guarded by the batcher's mu
	done chan struct{}

	// Written before done is closed.
	out Out
	err error
}

// New returns a batcher.
func New[In, Out any](cfg Config[In, Out]) *Batcher[In, Out] {
	if cfg.Size == nil {
		cfg.Size = func(In) (int, int) { return 1, 0 }
	}
	if cfg.MaxItems == 0 {
		cfg.MaxItems = 1000
	}
	if cfg.MaxBytes == 0 {
		cfg.MaxBytes = 1 << 20
	}
	if cfg.FullItems == 0 {
		cfg.FullItems = 50
	}
	if cfg.Together == nil {
		cfg.Together = func([]In, In) bool { return true }
	}
	if cfg.Changes == nil {
		cfg.Changes = func(In) bool { return false }
	}
	if cfg.Abandoned == nil {
		cfg.Abandoned = func(context.Context, In, Out) {}
	}
	return &Batcher[In, Out]{cfg: cfg}
}

// Do returns the answer to a request. When ctx ends, it returns the cause at once: the request
// is not sent, or its answer goes to [Config].Abandoned.
func (b *Batcher[In, Out]) Do(ctx context.Context, in In) (out Out, err error) {
	if ctx.Err() != nil {
		return out, context.Cause(ctx)
	}
	r := &request[In, Out]{ctx: ctx, in: in, done: make(chan struct{})}
	b.mu.Lock()
	b.waiting = append(b.waiting, r)
	n, _ := b.cfg.Size(in)
	b.items += n
	if b.calls == 0 || b.calls == 1 && b.items >= b.cfg.FullItems || b.took >= longCall && b.calls < longCalls {
		b.calls++
		b.serving.Go(b.serve)
	}
	b.mu.Unlock()
	select {
	case <-r.done:
		return r.out, r.err
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-r.done: // the answer came at the same moment
		return r.out, r.err
	default:
	}
	r.gone = true
	if r.call.Possible() && b.cfg.Changes(in) {
		return out, retry.Uncertain(context.Cause(ctx))
	}
	return out, context.Cause(ctx)
}

// Alone makes a call on the caller's goroutine and context if none is in flight, which costs
// less than Do. It reports whether it did. Requests that come meanwhile wait.
func (b *Batcher[In, Out]) Alone(call func()) bool {
	b.mu.Lock()
	if b.calls > 0 {
		b.mu.Unlock()
		return false
	}
	b.calls++
	b.serving.Add(1)
	b.mu.Unlock()
	start := time.Now()
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.took = (b.took + time.Since(start)) / 2
		if len(b.waiting) > 0 {
			b.serving.Go(b.serve)
		} else {
			b.calls--
		}
		b.serving.Done()
	}()
	call()
	return true
}

// Wait waits for the calls in flight, when there are no more requests.
func (b *Batcher[In, Out]) Wait() { b.serving.Wait() }

// serve makes calls until no request waits.
func (b *Batcher[In, Out]) serve() {
	for {
		b.mu.Lock()
		shared := b.next()
		if shared == nil {
			b.calls--
			b.mu.Unlock()
			return
		}
		b.mu.Unlock()
		b.call(shared)
	}
}

// next takes the first request that waits, and those that can share its call. Call it with mu
// held.
func (b *Batcher[In, Out]) next() []*request[In, Out] {
	var shared, rest []*request[In, Out]
	var others []In
	items, bytes, left := 0, 0, 0
	effect := new(retry.Effect)
	for _, r := range b.waiting {
		if r.gone {
			continue
		}
		n, size := b.cfg.Size(r.in)
		if shared == nil || items+n <= b.cfg.MaxItems && bytes+size <= b.cfg.MaxBytes && b.cfg.Together(others, r.in) {
			r.call = effect
			shared, others = append(shared, r), append(others, r.in)
			items, bytes = items+n, bytes+size
		} else {
			rest, left = append(rest, r), left+n
		}
	}
	b.waiting, b.items = rest, left
	return shared
}

// call makes one call, and distributes its answers.
func (b *Batcher[In, Out]) call(shared []*request[In, Out]) {
	all := make([]In, len(shared))
	for i, r := range shared {
		all[i] = r.in
	}
	ctx := retry.WithEffect(context.WithoutCancel(shared[0].ctx), shared[0].call)
	start := time.Now()
	out, err := b.cfg.Call(ctx, all)
	var left []int
	b.mu.Lock()
	b.took = (b.took + time.Since(start)) / 2
	for i, r := range shared {
		if err == nil && r.gone {
			left = append(left, i)
		}
		if r.err = err; err == nil {
			r.out = out[i]
		}
		close(r.done)
	}
	b.mu.Unlock()
	for _, i := range left {
		b.cfg.Abandoned(ctx, shared[i].in, out[i])
	}
}
