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
	return q.position(ctx, source, "")
}

// Sources returns the positions of all sources of the queue, none if there is no queue.
//
// Errors: [millrace.ErrBroken], [millrace.ErrVersion].
func (q *Queue) Sources(ctx context.Context) (map[string]int64, error) {
	reply, err := q.call(ctx, "sources")
	if err != nil {
		return nil, err
	}
	all := map[string]int64{}
	for reply.More() {
		source := reply.Text()
		all[source] = reply.Int()
	}
	return all, reply.Err()
}

// SetPosition has the next message of a source be the one behind this position: to begin in
// the middle, or to leave out what is lost. With 0 the queue forgets the source. It creates the
// queue if there is none.
//
// Errors: [millrace.ErrBadArgument], [millrace.ErrFull], [millrace.ErrBroken],
// [millrace.ErrVersion].
func (q *Queue) SetPosition(ctx context.Context, source string, position int64) error {
	if position < 0 || position > maxPosition {
		return millrace.ErrBadArgument.Errorf("a position is from 0 to 10^15, not %d", position)
	}
	_, err := q.position(ctx, source, strconv.FormatInt(position, 10))
	if err == nil {
		q.entry.Touch()
	}
	return err
}

func (q *Queue) position(ctx context.Context, source, set string) (int64, error) {
	if source == "" || len(source) > maxLabel {
		return 0, millrace.ErrBadArgument.Errorf("a source has 1 to %d bytes, not %d", maxLabel, len(source))
	}
	reply, err := q.call(ctx, "position", source, set, q.known().setting())
	if err != nil {
		return 0, err
	}
	at := reply.Int()
	return at, reply.Err()
}

// refusal is the error of a draft for which the script write answered '?' and this.
func refusal(at string) error {
	if at == "" {
		return ErrSources
	}
	return ErrGap.Errorf("the source has position %s in the queue, so the next one is missing", at)
}
