package rebalance

import (
	"context"
	"errors"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/fleet/members"
)

// find finds out where tags are, and puts in order what earlier calls have left of
// them. It returns those that are to be moved.
func (j *job) find(ctx context.Context, items []*item) (coming []*item, err error) {
	const passes = 3 // one finishes an earlier move; more are for other calls at the same time
	for range passes {
		if err := eachItem(ctx, items, func(it *item) error { return j.locate(ctx, it) }); err != nil {
			return nil, err
		}
		var again, others []*item
		var claims []*claim
		for _, it := range items {
			if it.stale != nil {
				claims = append(claims, it.stale)
				it.stale = nil
			}
			switch {
			case it.err != nil:
			case it.other != nil:
				again, others = append(again, it), append(others, it.other)
				it.other = nil
			case it.from != it.to:
				coming = append(coming, it)
			}
		}
		if err := errors.Join(j.tidy(ctx, others), j.disown(ctx, claims)); err != nil {
			return nil, err
		}
		items = again
	}
	for _, it := range items {
		it.err = ErrTaken.Errorf("%q is being moved by somebody else", it.tag)
	}
	return coming, nil
}

// locate finds out where one tag is. If it was being moved, it is not any more, or
// it has arrived.
func (j *job) locate(ctx context.Context, it *item) error {
	l, err := j.place(ctx, it.tag)
	if err != nil {
		return err
	}
	it.via, it.from = l.Record, l.Partition
	text, r, err := j.read(ctx, it.from, it.tag)
	if err != nil || text == "" {
		return err
	}
	if r.Home != it.from {
		return ErrTaken.Errorf("%q has just been moved", it.tag)
	}
	if from, ok := r.from(); ok {
		it.other = &item{tag: it.tag, trip: trip{from: from, to: it.from}, via: unknown}
		return nil
	}
	to, ok := r.to()
	if !ok {
		return nil
	}
	there, c, err := j.read(ctx, to, it.tag)
	switch {
	case err != nil:
		return err
	case there != "" && c.Home == to:
		it.other = &item{tag: it.tag, trip: trip{from: it.from, to: to}, via: unknown}
		return nil
	case c.Mark != members.Unmarked:
		// Whoever was moving it cannot go on without the claim.
		held := trip{from: it.from, to: to, run: j.run}.claimText(0)
		if err := j.exchange(ctx, "hold", to, it.tag, there, held); err != nil {
			return err
		}
		thawed := leavingText(it.from, r.Token)
		it.stale = &claim{tag: it.tag, at: to, home: it.from, text: held, mark: thawed}
		return j.exchange(ctx, "thaw", it.from, it.tag, text, thawed)
	}
	return j.exchange(ctx, "stay", it.from, it.tag, text, homeText(it.from))
}

// claim is the record of a tag that was to come, and does not.
type claim struct {
	tag  string
	at   int    // the partition to which it was to come
	home int    // where it is
	text string // the record at at
	mark string // that at home, if it is to be taken off as well
	keys []string
}

// disown takes claims back, and what was copied with them. What is another record by
// now is somebody else's.
func (m *Mover) disown(ctx context.Context, claims []*claim) error {
	places := map[int][]*claim{}
	for _, c := range claims {
		places[c.at] = append(places[c.at], c)
	}
	for at, claims := range places {
		var tags []string
		for _, c := range claims {
			tags = append(tags, c.tag)
		}
		keys, err := m.keysOf(ctx, at, tags)
		if err != nil {
			return err
		}
		for _, c := range claims {
			c.keys = keys[c.tag]
		}
	}
	return each(ctx, claims, func(c *claim) error {
		err := m.clear(ctx, "sweep", c.at, c.tag, c.text, c.keys)
		if err == nil {
			err = m.exchange(ctx, "unclaim", c.at, c.tag, c.text, homeText(c.home))
		}
		if err == nil && c.mark != "" {
			err = m.exchange(ctx, "stay", c.home, c.tag, c.mark, homeText(c.home))
		}
		if errors.Is(err, ErrTaken) {
			return nil
		}
		return err
	})
}

// unknown is for the partition whose record says where a tag is.
const unknown = -1

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
