package fairqueue

import (
	"context"
	"strconv"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/script"
)

// Position returns the position of the last message of a source that is or was in the queue, 0
// if there is none. See [Draft].Source.
//
// A server that lost its last writes lost messages and positions together: so a position lower
// than what the source wrote says exactly what is missing.
//
// Errors: [millrace.ErrBadArgument], [millrace.ErrBroken], [millrace.ErrVersion].
func (q *Queue) Position(ctx context.Context, source string) (int64, error) {
	if err := checkSource(source); err != nil {
		return 0, err
	}
	var at int64
	key := baseKey(q.name)
	err := q.observe(ctx, "position", func(ctx context.Context) error {
		return q.run.Plain(ctx, "fairqueue.position", key, func(ctx context.Context) error {
			// The words of a read would go to replicas, if the client sends reads there; callers write by the answer.
			cmd := q.client.B().Arbitrary("HMGET").Keys(key).Args("version", "at:"+source).Build()
			found, err := script.Prompt(ctx, func(ctx context.Context) ([]string, error) { return q.client.Do(ctx, cmd).AsStrSlice() })
			switch {
			case err != nil:
				return err
			case found[0] != "" && found[0] != wireVersion:
				return millrace.ErrVersion.Errorf("the queue has version %s", found[0])
			case found[1] != "":
				at, err = strconv.ParseInt(found[1], 10, 64)
			}
			return err
		})
	})
	return at, err
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
// the middle, or to leave out what is lost. With 0 the queue forgets the source. Otherwise it
// creates the queue if there is none.
//
// Errors: [millrace.ErrBadArgument], [millrace.ErrFull], [millrace.ErrBroken],
// [millrace.ErrVersion].
func (q *Queue) SetPosition(ctx context.Context, source string, position int64) error {
	if position < 0 || position > maxPosition {
		return millrace.ErrBadArgument.Errorf("a position is from 0 to 10^15, not %d", position)
	}
	if err := checkSource(source); err != nil {
		return err
	}
	value := ""
	if position > 0 {
		value = strconv.FormatInt(position, 10)
	}
	err := q.set(ctx, "at:"+source, value)
	for err == errNotFound && position > 0 { //nolint:errorlint // set returns it as it is
		if err = q.create(ctx); err == nil {
			err = q.set(ctx, "at:"+source, value)
		}
	}
	if err == errNotFound { //nolint:errorlint // as above
		return nil // there is nothing to forget
	}
	if err == nil {
		q.entry.Touch()
	}
	return err
}

func checkSource(source string) error {
	if source == "" || len(source) > maxLabel {
		return millrace.ErrBadArgument.Errorf("a source has 1 to %d bytes, not %d", maxLabel, len(source))
	}
	return nil
}

// refusal is the error of a draft for which the script write answered '?' and this.
func refusal(at string) error {
	if at == "" {
		return ErrSources
	}
	return ErrGap.Errorf("the source has position %s in the queue, so the next one is missing", at)
}
