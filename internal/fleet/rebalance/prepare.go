package rebalance

import (
	"context"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/fleet/members"
)

// find looks the tags up, and returns those to be moved. Of earlier moves of them it takes
// over those to the same partition, finishes those that have arrived, and drops others.
func (j *job) find(ctx context.Context, items []*item) (coming []*item, err error) {
	const passes = 4 // the second one finds no earlier move, unless another call is at work
	for range passes {
		if err := eachItem(ctx, items, func(it *item) error { return j.locate(ctx, it) }); err != nil {
			return nil, err
		}
		items = filter(items, func(it *item) bool { return it.err == nil && (it.other != nil || it.from != it.to) })
		takes := func(it *item) bool { return it.other != nil && it.other.stuck() && it.other.to == it.to && !it.back }
		if _, err := every(ctx, filter(items, takes), func(ctx context.Context, it *item) error { return j.thaw(ctx, it.other) }); err != nil {
			return nil, err
		}
		var again, others []*item
		for _, it := range items {
			switch {
			case it.back:
				it.err = stays(it.tag, it.from)
				if it.other != nil {
					others = append(others, it.other)
				}
			case it.other == nil || takes(it):
				coming = append(coming, it)
			default:
				again, others = append(again, it), append(others, it.other)
			}
		}
		if err := j.giveUp(ctx, others); err != nil {
			return nil, err
		}
		items = again
	}
	for _, it := range items {
		it.err = ErrTaken.Errorf("another call moves %q", it.tag)
	}
	return coming, nil
}

// locate looks up where a tag is, and whether it was being moved.
func (j *job) locate(ctx context.Context, it *item) error {
	it.other = nil
	l, err := j.place(ctx, it.tag)
	if err != nil {
		return err
	}
	it.via, it.from = l.Record, l.Partition
	page, back, err := j.ask(ctx, it.from, it.tag)
	if err != nil || page[0].text == "" {
		return err
	}
	r := page[0]
	if it.back = back; r.Home != it.from {
		return ErrTaken.Errorf("%q has just been moved", it.tag)
	}
	if from, run, ok := r.from(); ok {
		it.other = &item{tag: it.tag, trip: trip{from, it.from, run}, via: unknown, arrived: true}
	} else if to, run, ok := r.to(); ok {
		it.other = &item{tag: it.tag, trip: trip{it.from, to, run}, via: it.via, found: homeText(it.from), begun: true, doubtful: true}
	}
	return nil
}

func (m *Mover) place(ctx context.Context, tag string) (l fleet.Location, err error) {
	err = m.retry(ctx, "locate", tag, func() error {
		l, err = m.f.Locate(ctx, tag)
		if err == nil && l.How == fleet.Nowhere {
			err = ErrUnknown.Errorf("the fleet does not know %q", tag)
		}
		return err
	})
	return l, err
}

// leave makes clients look the tag up each time.
func (j *job) leave(ctx context.Context, it *item) error {
	it.run = j.run
	// A tag that is being forgotten is in use again, as by a write. The record by which it
	// is found comes first.
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
		return ErrUnknown.Errorf("%q was never written", it.tag)
	case it.other != nil && text == it.other.thawed():
	case r.Home != it.from || r.Mark != members.Unmarked && r.Mark != members.Forgetting:
		return ErrTaken.Errorf("the record of %q in partition %d is %q by now", it.tag, it.from, text)
	}
	it.begun = true
	if err := j.exchange(ctx, "leave", it.from, it.tag, text, it.leaving()); err != nil || !it.forwarded() {
		return err
	}
	// If this mark is there later, no other call has moved the tag on.
	return ignoreTaken(j.exchange(ctx, "mark", it.via, it.tag, homeText(it.from), it.leaving()))
}

// claim writes at the new place that the tag may come. It holds up no client: the claim
// says where the tag is.
func (j *job) claim(ctx context.Context, it *item) error {
	page, back, err := j.ask(ctx, it.to, it.tag)
	if err != nil {
		return err
	}
	text, r := page[0].text, page[0].record
	switch {
	case back: // it may have the tag, too
		return stays(it.tag, it.to)
	case text != "" && r.Home == it.to:
		return ErrTaken.Errorf("%q is in partition %d, and the record in partition %d says that it is there", it.tag, it.from, it.to)
	case r.Mark != members.Unmarked: // left by another call
		it.found = homeText(it.from)
	default:
		it.found = text
	}
	it.claimed = it.claimText(0)
	return j.exchange(ctx, "claim", it.to, it.tag, text, it.claimed)
}

// sweep deletes keys of the tags at their new places, while clients forget the old ones:
// of an old write that did not succeed, or of an unfinished copy.
func (j *job) sweep(ctx context.Context, items []*item) error {
	for partition, items := range byPartition(items, to) {
		keys, err := j.keysOf(ctx, partition, items)
		if err != nil {
			return err
		}
		if err := eachItem(ctx, items, func(it *item) error {
			return j.clear(ctx, "sweep", partition, it.tag, it.claimed, keys[it.tag])
		}); err != nil {
			return err
		}
	}
	return nil
}
