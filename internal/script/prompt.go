package script

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Prompt makes a call to Redis return as soon as ctx ends. Left alone, the
// client is deaf to that twice: on an idle connection it turns the context's
// deadline into one of the connection, and waits for that even if the context
// is cancelled before; and while it opens a connection, it waits for as long as
// a dial may take.
//
// So the call is given a context that shows no deadline, and runs in a goroutine
// of its own, which is left to end by itself when ctx has ended before it.
func Prompt[T any](ctx context.Context, call func(context.Context) (T, error)) (T, error) {
	if ctx.Done() == nil || ctx.Value(detachedKey{}) != nil {
		value, err := call(ctx)
		return value, Caused(ctx, err)
	}
	type answer struct {
		value T
		err   error
	}
	answers := make(chan answer, 1)
	go func() {
		value, err := call(Endless(ctx))
		answers <- answer{value, err}
	}()
	select {
	case a := <-answers:
		return a.value, Caused(ctx, a.err)
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

// Detached returns a context for calls from a goroutine that callers can stop waiting
// for. Such a call runs in that goroutine, and not in a second one.
func Detached(ctx context.Context) context.Context {
	return context.WithValue(ctx, detachedKey{}, true)
}

type detachedKey struct{}

// Within is context.WithTimeout for a limit of the library's own. What ends with it says
// that there was no answer, and not that a deadline has passed which no caller set; it
// is context.DeadlineExceeded all the same.
func Within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, silence{limit})
}

// readTimeout is how long one try of a read takes at most.
const readTimeout = 2 * time.Second

// Reading returns the context of one try of a read. A client repeats reads by itself for as
// long as their context lasts, which may have no end; tries that end are repeated by the
// runner, as long as its policy says.
func Reading(ctx context.Context) (context.Context, context.CancelFunc) {
	return Within(ctx, readTimeout)
}

// silence is that a server did not answer within the limit.
type silence struct{ limit time.Duration }

func (s silence) Error() string { return fmt.Sprintf("no answer within %v", s.limit) }

func (s silence) Is(err error) bool { return err == context.DeadlineExceeded }

// Caused returns the cause of the end of ctx for an error that only tells that it has
// ended.
func Caused(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return context.Cause(ctx)
	}
	return err
}

// Endless returns a context that ends when ctx does, but shows no deadline.
func Endless(ctx context.Context) context.Context {
	if _, ok := ctx.Deadline(); !ok {
		return ctx
	}
	return withoutDeadline{ctx}
}

type withoutDeadline struct{ context.Context }

func (withoutDeadline) Deadline() (time.Time, bool) { return time.Time{}, false }
