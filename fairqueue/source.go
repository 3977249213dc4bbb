package fairqueue

import (
	"context"
	"strconv"
	"strings"

	"github.com/millrace/millrace"
)

// Sources are the sources of a queue: see [Draft].Source. Each has a position, that of its last
// message.
type Sources struct{ q *Queue }

// Sources returns the sources of the queue.
func (q *Queue) Sources() Sources { return Sources{q} }

// Position returns the position of the last message of a source that is or was in the queue, 0
// if there is none. See [Draft].Source.
//
// A server that lost its last writes lost messages and positions together: so exactly the source's
// messages with higher numbers are missing.
//
// Errors: [millrace.ErrBadArgument], [millrace.ErrBroken], [millrace.ErrVersion].
func (s Sources) Position(ctx context.Context, source string) (int64, error) {
	if err := checkSource(source); err != nil {
		return 0, err
	}
	// Callers write by the answer, so the master gives it.
	reply, err := look{q: s.q, name: "position", master: true}.pipe(ctx, [][]string{{"HMGET", "", "version", "at:" + source}})
	if err != nil {
		return 0, err
	}
	found := reply.Texts()
	switch {
	case reply.Err() != nil:
		return 0, reply.Err()
	case found[0] != "" && found[0] != wireVersion:
		return 0, millrace.ErrVersion.Errorf("the queue has version %.60q", found[0])
	case found[1] == "":
		return 0, nil
	}
	return strconv.ParseInt(found[1], 10, 64)
}

// All returns the positions of all sources of the queue, none if there is no queue.
//
// Errors: [millrace.ErrBroken], [millrace.ErrVersion].
func (s Sources) All(ctx context.Context) (map[string]int64, error) {
	all := map[string]int64{}
	reply, _, err := look{q: s.q, name: "sources"}.start(ctx, [][]string{{"HGETALL", ""}})
	if err != nil {
		return all, ignore(err, millrace.ErrNotFound)
	}
	for field, at := range reply.Fields() {
		if source, ok := strings.CutPrefix(field, "at:"); ok {
			if all[source], err = strconv.ParseInt(at, 10, 64); err != nil {
				return nil, millrace.ErrBroken.Errorf("the position of the source %q cannot be read", source).Wrap(err)
			}
		}
	}
	return all, reply.Err()
}

// SetPosition has the next message of a source be the one behind this position: to begin in
// the middle, or to leave out lost messages. With 0 the queue forgets the source. Otherwise it
// creates the queue if there is none.
//
// Errors: [millrace.ErrBadArgument], [millrace.ErrFull], [millrace.ErrBroken],
// [millrace.ErrVersion].
func (s Sources) SetPosition(ctx context.Context, source string, position int64) error {
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
	err := s.q.set(ctx, "at:"+source, value)
	for err == errNotFound && position > 0 { //nolint:errorlint // set returns it as it is
		if err = s.q.create(ctx); err == nil {
			err = s.q.set(ctx, "at:"+source, value)
		}
	}
	if err == errNotFound { //nolint:errorlint // as above
		return nil // there is nothing to forget
	}
	if err == nil {
		s.q.entry.Touch()
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
