package fairqueue

import (
	"context"
	"strconv"

	"github.com/millrace/millrace"
)

// Position returns the position of the last message of a source that is or was in the queue, 0
// if there is none. See [Draft].Source.
//
// A server that lost its last writes lost messages and positions together: so a position lower
// than what the source wrote says exactly what is missing.
//
// Errors: [millrace.ErrBadArgument], [millrace.ErrBroken], [millrace.ErrVersion].
func (q *Queue) Position(ctx context.Context, source string) (int64, error) {
	at, _, err := q.position(ctx, source, "")
	return at, err
}

// SetPosition has the next message of a source be the one behind this position: to begin in
// the middle, or to leave out what is lost. With 0 the queue forgets the source.
//
// Errors: [millrace.ErrNotFound], [millrace.ErrBadArgument], [millrace.ErrBroken],
// [millrace.ErrVersion].
func (q *Queue) SetPosition(ctx context.Context, source string, position int64) error {
	if position < 0 || position > maxPosition {
		return millrace.ErrBadArgument.Errorf("a position is from 0 to 10^15, not %d", position)
	}
	_, exists, err := q.position(ctx, source, strconv.FormatInt(position, 10))
	if err == nil && !exists {
		return errNotFound
	}
	return err
}

func (q *Queue) position(ctx context.Context, source, set string) (at int64, exists bool, err error) {
	if source == "" || len(source) > maxLabel {
		return 0, false, millrace.ErrBadArgument.Errorf("a source has 1 to %d bytes, not %d", maxLabel, len(source))
	}
	reply, err := q.call(ctx, "position", source, set)
	if err != nil || reply.None() {
		return 0, false, err
	}
	at = reply.Int()
	return at, true, reply.Err()
}

// refusal is the error of a draft for which the script write answered '?' and this.
func refusal(at string) error {
	if at == "" {
		return ErrSources
	}
	return ErrGap.Errorf("the source has position %s in the queue, so the next one is missing", at)
}
