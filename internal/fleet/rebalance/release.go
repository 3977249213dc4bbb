package rebalance

import (
	"context"
	"errors"
	"sync"

	"github.com/millrace/millrace"
)

// release has the writers of all tags that have not arrived go on. Tags that this call keeps
// where they are leave nothing behind, and so do all if a partition is full. The moves of
// others are to be completed.
func (j *job) release(ctx context.Context, items []*item, failed error) {
	late, cancel := j.late(ctx)
	defer cancel()
	kept := func(it *item) bool { return it.stuck() && (it.err != nil || errors.Is(failed, millrace.ErrFull)) }
	waits := func(it *item) bool { return it.stuck() && !it.frozen.IsZero() }
	thawed, err := every(late, filter(items, func(it *item) bool { return kept(it) || waits(it) }), j.thaw)
	err = errors.Join(err, j.drop(late, filter(thawed, kept)))
	if left := filter(items, (*item).stuck); len(left) > 0 {
		j.cfg.Logger.WarnContext(ctx, "the moves of some tags are not finished; an agent finishes them, or the same call again",
			"tags", len(left), "first", left[0].tag, "from", left[0].from, "to", left[0].to, "error", err)
	}
}

// thaw makes sure that a tag has arrived, or that it cannot and that its writers go on.
func (m *Mover) thaw(ctx context.Context, it *item) error {
	if it.doubtful {
		text, r, err := m.read(ctx, it.to, it.tag)
		from, run, came := r.from()
		switch {
		case err != nil:
			return err // it may have arrived: writers must wait
		case came && r.Home == it.to && from == it.from && run == it.run: // not by an older move, after a restore
			it.arrived = true
			return nil
		case it.claimedBy(text):
			// An arrival that is still in flight fails from now on.
			it.claimed = it.claimText("held")
			err := m.exchange(ctx, "hold", it.to, it.tag, text, it.claimed)
			if errors.Is(err, ErrTaken) {
				return m.thaw(ctx, it) // it changed just before
			}
			if err != nil {
				return err
			}
		}
	}
	for {
		text, r, err := m.read(ctx, it.from, it.tag)
		if to, run, ok := r.to(); err != nil || !ok || r.Home != it.from || to != it.to || run != it.run {
			return err // another call has taken the tag over
		}
		// A freeze that is still in flight fails from now on.
		if err := m.exchange(ctx, "thaw", it.from, it.tag, text, it.thawed()); !errors.Is(err, ErrTaken) {
			return err
		}
	}
}

// giveUp ends moves that others have begun: it finishes those that have arrived, and drops
// the rest.
func (m *Mover) giveUp(ctx context.Context, items []*item) error {
	thawed, err := every(ctx, filter(items, (*item).stuck), m.thaw)
	if err == nil {
		err = m.drop(ctx, filter(thawed, (*item).stuck))
	}
	return errors.Join(err, m.tidy(ctx, filter(items, func(it *item) bool { return it.arrived })))
}

// drop removes the marks of moves that cannot arrive, and their copies: the tags stay, or
// go elsewhere. A record that has changed meanwhile belongs to another call and is left alone.
func (m *Mover) drop(ctx context.Context, items []*item) error {
	foreign := filter(items, func(it *item) bool { return it.keys == nil && it.claimed != "" && it.doubtful })
	if err := m.findKeys(ctx, foreign, to); err != nil {
		return err
	}
	_, err := every(ctx, items, m.withdraw)
	return err
}

// withdraw takes back the claim with the copied keys, and the marks.
func (m *Mover) withdraw(ctx context.Context, it *item) error {
	if it.claimed != "" && !it.doubtful { // the number in the claim is not certain
		text, _, err := m.read(ctx, it.to, it.tag)
		if err != nil {
			return err
		}
		if it.claimed = ""; it.claimedBy(text) {
			it.claimed = text
		}
	}
	if it.claimed != "" {
		err := m.clear(ctx, "sweep", it.to, it.tag, it.claimed, it.keys)
		if err == nil {
			err = m.exchange(ctx, "unclaim", it.to, it.tag, it.claimed, it.found)
		}
		if ignoreTaken(err) != nil {
			return err
		}
	}
	if it.forwarded() {
		if err := ignoreTaken(m.exchange(ctx, "unmark", it.via, it.tag, it.leaving(), homeText(it.from))); err != nil {
			return err
		}
	}
	err := ignoreTaken(m.exchange(ctx, "stay", it.from, it.tag, it.thawed(), homeText(it.from)))
	it.begun = err != nil
	return err
}

// every does something for each item, and returns those for which it succeeded. It goes on
// after errors.
func every(ctx context.Context, items []*item, do func(context.Context, *item) error) (succeeded []*item, failed error) {
	var mu sync.Mutex
	_ = each(ctx, items, func(it *item) error {
		err := do(ctx, it)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			failed = errors.Join(failed, err)
		} else {
			succeeded = append(succeeded, it)
		}
		return nil
	})
	return succeeded, failed
}
