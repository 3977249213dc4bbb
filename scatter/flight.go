package scatter

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/redis/reqid"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/redis/script"
)

// remembered is how long after its first try a flight may be repeated. The server remembers it
// for ten minutes at least; the difference allows for clocks that run at different speeds.
const remembered = 9 * time.Minute

// flight is a batch in flight. Each try is the same request to the same server.
type flight struct {
	batch   batch
	to      *server
	request *reqid.Request // nil while no try can have taken effect
	by      string         // until when the server recognizes a repeat, by its clock
	open    bool           // a try may have taken effect, or may still do so
}

// send sends the flight. It is done when the server applied it, or no longer knows whether it
// did.
func (f *flight) send(ctx context.Context, sc *Scatter) (done bool, err error) {
	reply, err := sc.on(ctx, f.to, func(ctx context.Context, l *link) (*script.Reply, error) {
		if err := l.policy.Check(ctx); err != nil {
			return nil, err
		}
		if f.request == nil {
			now, err := f.to.now(ctx, sc, l)
			if err != nil {
				return nil, err
			}
			f.request, f.by = l.Request(ctx), strconv.FormatInt(now+remembered.Milliseconds(), 10)
		}
		ctx = context.WithValue(ctx, flightKey{}, f)
		return l.RunRequest(ctx, f.request, "flush", sc.base, f.batch.args(f.by)...)
	})
	late := retry.Code(err, "LATE")
	switch {
	case err == nil:
		if !f.open { // otherwise it may be the reply to an earlier try
			f.to.heard(reply.Int())
		}
		done = true
	case late && f.open, retry.Code(err, "LANE"):
		forgotten := millrace.ErrStale.Errorf("the server no longer knows the flush").Wrap(err)
		err = millrace.ErrUncertain.Errorf("the session may or may not have been written").Wrap(forgotten)
		done = true
	case late: // the server's clock has jumped
		f.to.clock.Store(nil)
	}
	if f.request != nil && (done || !f.open || refused(err)) {
		f.request.Done()
		f.request, f.open = nil, false
	}
	return done, err
}

// refused reports whether the server wrote nothing, because of the contents of the flush.
func refused(err error) bool { return errors.Is(err, ErrType) || errors.Is(err, ErrOverflow) }

type flightKey struct{}

// flightHook records whether a try of a flight may have taken effect: not if the server refused
// it, and not if there was no connection.
type flightHook struct{}

// OnCall watches one try.
func (flightHook) OnCall(ctx context.Context, _ millrace.Call) (context.Context, func(error)) {
	f, ok := ctx.Value(flightKey{}).(*flight)
	if !ok {
		return ctx, nil
	}
	return ctx, func(err error) {
		if err != nil && retry.Word(err) == "" && !retry.Unsent(err) {
			f.open = true
		}
	}
}
