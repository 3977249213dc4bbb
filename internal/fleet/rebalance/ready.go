package rebalance

import (
	"context"
	"errors"

	"github.com/millrace/millrace/internal/fleet/members"
)

// leave has everybody ask for the place of a tag each time.
func (j *job) leave(ctx context.Context, it *item) error {
	it.run = j.run
	// A tag that is being forgotten is in use again, as if somebody wrote for it. The
	// record by which it is found comes first.
	if it.via != it.from {
		text, r, err := j.read(ctx, it.via, it.tag)
		if err != nil {
			return err
		}
		if r.Mark != members.Unmarked {
			if err := j.exchange(ctx, "use", it.via, it.tag, text, homeText(r.Home)); err != nil {
				return err
			}
		}
	}
	text, r, err := j.read(ctx, it.from, it.tag)
	switch {
	case err != nil:
		return err
	case text == "":
		return ErrUnknown.Errorf("nobody has written for %q yet", it.tag)
	case r.Home != it.from || r.Mark != members.Unmarked && r.Mark != members.Forgetting:
		return ErrTaken.Errorf("the record of %q in partition %d is %q by now", it.tag, it.from, text)
	}
	it.state = leaving // or not, if the exchange fails: it can be undone either way
	if err := j.exchange(ctx, "leave", it.from, it.tag, text, it.leaving()); err != nil || !it.sentOn() {
		return err
	}
	// Only who finds this mark again knows that nobody has moved the tag on since.
	err = j.exchange(ctx, "mark", it.via, it.tag, homeText(it.from), it.leaving())
	if errors.Is(err, ErrTaken) {
		return nil // it names another one, that sends the tag on; so it may stay
	}
	return err
}

// claim writes down at the new place that the tag is about to come. Nobody is held
// up by that: the claim says where the tag still is.
func (j *job) claim(ctx context.Context, it *item) error {
	text, r, err := j.read(ctx, it.to, it.tag)
	switch {
	case err != nil:
		return err
	case text != "" && r.Home == it.to:
		return ErrTaken.Errorf("%q is in partition %d, and partition %d has a record that says it is there", it.tag, it.from, it.to)
	case r.Mark != members.Unmarked: // what another call has left behind
		it.found = homeText(it.from)
	default:
		it.found = text
	}
	it.claimed, it.state = it.claimText(0), claimed
	return j.exchange(ctx, "claim", it.to, it.tag, text, it.claimed)
}

// sweep deletes what is at the new places under the tags' names, while their places
// are being forgotten anyway: a write of long ago that nobody took for a success has
// made it, or a copy that was not finished.
func (j *job) sweep(ctx context.Context, items []*item) error {
	places := map[int][]*item{}
	for _, it := range items {
		places[it.to] = append(places[it.to], it)
	}
	for to, items := range places {
		keys, err := j.keysOf(ctx, to, tags(items))
		if err != nil {
			return err
		}
		if err := eachItem(ctx, items, func(it *item) error {
			return j.clear(ctx, "sweep", to, it.tag, it.claimed, keys[it.tag])
		}); err != nil {
			return err
		}
	}
	return nil
}
