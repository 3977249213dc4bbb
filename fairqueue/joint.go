package fairqueue

import (
	"context"
	"sync"

	"github.com/millrace/millrace/internal/reqid"
	"github.com/millrace/millrace/internal/script"
)

// joint has calls that goroutines make at the same time share one script call,
// since a call costs the server more than what most do in it. One that is alone
// goes out at once; those that come while two are under way go out together with
// the next, 1,000 items at most. A shared call keeps the values of the context of
// its first caller, and no caller's end ends it. A call whose requests come from a
// seed goes alone: what shares it would be asked as a request that is not its own.
type joint[In, Out any] struct {
	call func(context.Context, []In) ([]Out, error) // answers one Out for each In

	mu      sync.Mutex
	waiting []*part[In, Out]
	calls   int
}

// part is one caller's share.
type part[In, Out any] struct {
	ctx  context.Context //nolint:containedctx // it travels with the call that it is part of
	in   []In
	done chan struct{}

	// Written before done is closed.
	out []Out
	err error
}

// do returns one Out for each In, at most 1,000. It returns when ctx ends; what
// was asked may be done all the same.
func (j *joint[In, Out]) do(ctx context.Context, in []In) ([]Out, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if reqid.Seeded(ctx) {
		return j.call(ctx, in)
	}
	p := &part[In, Out]{ctx: ctx, in: in, done: make(chan struct{})}
	j.mu.Lock()
	j.waiting = append(j.waiting, p)
	if j.calls < callsAtOnce {
		j.calls++
		go j.serve()
	}
	j.mu.Unlock()
	select {
	case <-p.done:
		return p.out, p.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// serve makes shared calls until nobody waits for one.
func (j *joint[In, Out]) serve() {
	for {
		j.mu.Lock()
		if len(j.waiting) == 0 {
			j.calls--
			j.mu.Unlock()
			return
		}
		turn, size := 0, 0
		for turn < len(j.waiting) && (turn == 0 || size+len(j.waiting[turn].in) <= chunk) {
			size += len(j.waiting[turn].in)
			turn++
		}
		parts := j.waiting[:turn:turn]
		j.waiting = j.waiting[turn:]
		j.mu.Unlock()

		all := make([]In, 0, size)
		for _, p := range parts {
			all = append(all, p.in...)
		}
		ctx, cancel := script.Within(context.WithoutCancel(parts[0].ctx), callPatience)
		out, err := j.call(ctx, all)
		cancel()
		for _, p := range parts {
			if p.err = err; err == nil {
				p.out, out = out[:len(p.in):len(p.in)], out[len(p.in):]
			}
			close(p.done)
		}
	}
}
