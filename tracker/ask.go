package tracker

import (
	"context"
	"time"
)

// State is what is known about an identifier.
type State int

// What may be known.
const (
	Unknown   State = iota // no pass is complete yet; ask the database
	Queued                 // it has work queued
	NotQueued              // it has none
)

// String returns the name of the state in words.
func (s State) String() string {
	switch s {
	case Unknown:
		return "unknown"
	case Queued:
		return "queued"
	case NotQueued:
		return "not queued"
	default:
		return "not a state"
	}
}

// Answer is what the tracker knows about one identifier.
type Answer struct {
	State State

	// Age is how old the knowledge is, by the server's clock: for what is [Queued],
	// since it was last seen to have work; for what is [NotQueued], since the last
	// full pass began, which would have seen work that was queued before; 0 for
	// what is [Unknown].
	Age time.Duration
}

// Queued tells from memory whether an identifier has work queued. An identifier
// that is tracked is [Queued], and else [NotQueued], but [Unknown] until the
// first full pass over the source is complete. Errors: [ErrID], [millrace.ErrBroken],
// [millrace.ErrVersion].
func (t *Tracker) Queued(ctx context.Context, id string) (Answer, error) {
	answers, err := t.QueuedMany(ctx, id)
	if err != nil {
		return Answer{}, err
	}
	return answers[0], nil
}

// QueuedMany is [Tracker.Queued] for several identifiers, answered in their
// order. Each 1,000 of them are answered as of one moment.
func (t *Tracker) QueuedMany(ctx context.Context, ids ...string) ([]Answer, error) {
	answers := make([]Answer, 0, len(ids))
	err := t.each(ids, func(part []string) error {
		values, err := t.texts(ctx, &t.run, 3+len(part), "queued", part...)
		if err != nil {
			return err
		}
		now, err := number(values[0])
		if err != nil {
			return err
		}
		for _, stamp := range values[3:] {
			a := Answer{State: Queued}
			switch {
			case stamp != "":
			case values[1] == "0":
				answers = append(answers, Answer{})
				continue
			default:
				a.State, stamp = NotQueued, values[2]
			}
			since, err := number(stamp)
			if err != nil {
				return err
			}
			a.Age = age(now, since)
			answers = append(answers, a)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if t.cfg.Enlister != nil && ctx.Err() == nil {
		t.cfg.Enlister.Enlist(ctx)
	}
	return answers, nil
}

// age is the time from since to now, both in Unix milliseconds, 0 if the clock
// was set back.
func age(now, since int64) time.Duration {
	return time.Duration(max(0, now-since)) * time.Millisecond
}
