package rebalance

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// release undoes the move of all tags that have not arrived.
func (j *job) release(ctx context.Context, items []*item) {
	late, cancel := j.late(ctx)
	defer cancel()
	var first error
	var once sync.Once
	_ = each(late, items, func(it *item) error {
		if err := j.undo(late, it); err != nil {
			once.Do(func() { first = err })
		}
		return nil // the others are tried all the same
	})
	left := slices.DeleteFunc(slices.Clone(items), func(it *item) bool { return it.state == untouched || it.state == arrived })
	if len(left) > 0 {
		j.cfg.Logger.WarnContext(ctx, "the move of some tags could not be undone; move them again, or resume both partitions, when these can be reached",
			"tags", len(left), "one", left[0].tag, "from", left[0].from, "to", left[0].to, "error", first)
	}
}

// undo takes an item back, step by step. A record that is another one by now is
// somebody else's, and left to them.
func (j *job) undo(ctx context.Context, it *item) error {
	if it.state == doubtful {
		text, _, err := j.read(ctx, it.to, it.tag)
		switch {
		case err != nil:
			return err // it may be there: writers must wait
		case text == it.arrived():
			it.state = arrived
			if err := j.secure(ctx, "secure arrival", it.to); err != nil {
				return err
			}
			return j.flip(ctx, it)
		case it.claimedBy(text):
			// Should the last step still be on its way, it comes too late now.
			err := j.exchange(ctx, "hold", it.to, it.tag, text, it.claimText(it.chunks+1))
			if errors.Is(err, ErrTaken) {
				return j.undo(ctx, it) // it came just before
			}
			if err != nil {
				return err
			}
		}
		it.state = frozen
	}
	if it.state == frozen {
		if err := j.exchange(ctx, "thaw", it.from, it.tag, it.moving(), it.leaving()); err != nil && !errors.Is(err, ErrTaken) {
			return err
		}
		it.state = claimed
	}
	if it.state == claimed {
		text, _, err := j.read(ctx, it.to, it.tag)
		if err != nil {
			return err
		}
		if it.claimedBy(text) {
			if err := j.clear(ctx, "sweep", it.to, it.tag, text, it.keys); err != nil {
				return err
			}
			if err := j.exchange(ctx, "unclaim", it.to, it.tag, text, it.found); err != nil && !errors.Is(err, ErrTaken) {
				return err
			}
		}
		it.state = leaving
	}
	if it.state == leaving {
		if it.sentOn() {
			if err := j.exchange(ctx, "unmark", it.via, it.tag, it.leaving(), homeText(it.from)); err != nil && !errors.Is(err, ErrTaken) {
				return err
			}
		}
		err := j.exchange(ctx, "stay", it.from, it.tag, it.leaving(), homeText(it.from))
		if errors.Is(err, ErrTaken) {
			// Freezing it may still have been on its way.
			err = j.exchange(ctx, "stay", it.from, it.tag, it.moving(), homeText(it.from))
		}
		if err != nil && !errors.Is(err, ErrTaken) {
			return err
		}
		it.state = untouched
	}
	return nil
}
