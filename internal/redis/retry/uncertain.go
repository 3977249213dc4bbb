package retry

import (
	"context"
	"errors"
	"net"
	"sync/atomic"

	"github.com/millrace/millrace"
)

// Open reports whether a try of a call that failed with err may have taken effect: not if the
// server refused it, and not if there was no connection.
func Open(ctx context.Context, err error) bool {
	switch {
	case err == nil:
		return false
	case ctx.Err() != nil && errors.Is(err, context.Cause(ctx)): // whatever the cause is
		return true
	case millrace.Code(err) != "": // of a client that knows
		return errors.Is(err, millrace.ErrUncertain)
	}
	return Word(err) == "" && !Unsent(err)
}

// Unsent reports whether there was no connection, so that nothing was sent.
func Unsent(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// Uncertain returns [millrace.ErrUncertain] for a call that may have taken effect, and that err
// ended. An error that says so already stays.
func Uncertain(err error) error {
	if errors.Is(err, millrace.ErrUncertain) {
		return err
	}
	return millrace.ErrUncertain.Wrap(unanswered{err})
}

// Effect tells callers that share a call, and leave before it ends, whether it may have taken
// effect by then. The nil Effect takes no notes.
type Effect struct{ possible atomic.Bool }

// Possible reports whether a try is on its way, or may have taken effect.
func (e *Effect) Possible() bool { return e != nil && e.possible.Load() }

// Note notes whether it is possible.
func (e *Effect) Note(possible bool) {
	if e != nil {
		e.possible.Store(possible)
	}
}

type effectKey struct{}

// WithEffect returns a context whose calls take notes in e.
func WithEffect(ctx context.Context, e *Effect) context.Context {
	return context.WithValue(ctx, effectKey{}, e)
}

// EffectOf returns the Effect of a context, nil for none.
func EffectOf(ctx context.Context) *Effect {
	e, _ := ctx.Value(effectKey{}).(*Effect)
	return e
}

// unanswered is the error that ended a call without an answer.
type unanswered struct{ error }

func (u unanswered) Unwrap() error { return u.error }

// Bare returns the error that ended a call instead of the error of [Uncertain], and other errors as
// they are. It is for code that asks why there is no answer, and not for the call's outcome.
func Bare(err error) error {
	if e, ok := errors.AsType[*millrace.Error](err); ok {
		if u, ok := e.Err.(unanswered); ok { //nolint:errorlint // only this error's own cause counts
			return u.error
		}
	}
	return err
}

// NoAnswer reports whether err is no answer of the structure: it has no code of the library, or
// says that the server refuses all calls for now.
func NoAnswer(err error) bool {
	return err != nil && (millrace.Code(Bare(err)) == "" || errors.Is(err, millrace.ErrUnavailable))
}
