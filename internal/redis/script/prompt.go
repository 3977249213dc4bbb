package script

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Prompt makes a call to Redis return as soon as ctx ends. The client alone does not in two
// cases: on an idle connection it waits for the context's deadline even if the context is
// cancelled before, and while it opens a connection it waits for the whole dial timeout.
//
// So the call gets a context without a visible deadline, and runs in its own goroutine,
// which ends by itself if ctx ends first.
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

// Detached returns a context for calls from a goroutine that its callers can abandon. Prompt
// starts no second goroutine for such a call.
func Detached(ctx context.Context) context.Context {
	return context.WithValue(ctx, detachedKey{}, true)
}

type detachedKey struct{}

// Within is context.WithTimeout for a limit of the library. Its error reports that there was
// no answer, since the caller set no deadline; it still matches context.DeadlineExceeded.
func Within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, silence{limit})
}

// readTimeout is how long one try of a read takes at most.
const readTimeout = 2 * time.Second

// Reading returns the context of one try of a read. The client repeats reads for as long as
// their context lasts, perhaps for ever; this context ends, and the runner repeats the try.
func Reading(ctx context.Context) (context.Context, context.CancelFunc) {
	return Within(ctx, readTimeout)
}

// silence is the error of a server that did not answer within the limit.
type silence struct{ limit time.Duration }

func (s silence) Error() string { return fmt.Sprintf("no answer within %v", s.limit) }

func (s silence) Is(err error) bool { return err == context.DeadlineExceeded }

// Caused returns the cause of ctx's end in place of an error that only reports the end.
func Caused(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return context.Cause(ctx)
	}
	return err
}

// Endless returns a context that ends when ctx does, without a visible deadline.
func Endless(ctx context.Context) context.Context {
	if _, ok := ctx.Deadline(); !ok {
		return ctx
	}
	return withoutDeadline{ctx}
}

type withoutDeadline struct{ context.Context }

func (withoutDeadline) Deadline() (time.Time, bool) { return time.Time{}, false }
