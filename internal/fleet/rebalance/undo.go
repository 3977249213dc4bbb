package rebalance

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/fleet/members"
)

// reconcile undoes moves that were begun by others, and finishes those that have arrived.
func (m *Mover) reconcile(ctx context.Context, items []*item) error {
	err := m.undo(ctx, filter(items, (*item).stuck))
	return errors.Join(err, m.tidy(ctx, filter(items, func(it *item) bool { return it.arrived })))
}

// undo takes back moves that have not arrived, and finds out which ones have. A record
// that has changed meanwhile belongs to another call and is left alone. An error of one
// item does not keep the others from being undone.
func (m *Mover) undo(ctx context.Context, items []*item) error {
	var mu sync.Mutex
	var failed error
	tryEach := func(items []*item, do func(context.Context, *item) error) (succeeded []*item) {
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
		return succeeded
	}
	items = filter(tryEach(items, m.thaw), (*item).stuck)
	foreign := filter(items, func(it *item) bool { return it.keys == nil && it.doubtful && it.claimed != "" })
	for partition, items := range byPartition(foreign, to) {
		keys, err := m.keysOf(ctx, partition, items)
		if err != nil {
			return errors.Join(failed, err)
		}
		for _, it := range items {
			it.keys = keys[it.tag]
		}
	}
	tryEach(items, m.withdraw)
	return failed
}

// thaw makes sure that a tag has arrived, or that it cannot and that its writers go on.
func (m *Mover) thaw(ctx context.Context, it *item) error {
	if it.doubtful {
		text, r, err := m.read(ctx, it.to, it.tag)
		switch {
		case err != nil:
			return err // it may have arrived: writers must wait
		case text != "" && r.Home == it.to:
			it.arrived = true
			return nil
		case r.Mark != members.Unmarked && (it.claimed == "" || it.claimedBy(text)):
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
	return ignoreTaken(m.exchange(ctx, "thaw", it.from, it.tag, it.moving(), it.leaving()))
}

// withdraw takes back the claim with what was copied, and the marks.
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
	err := m.exchange(ctx, "stay", it.from, it.tag, it.leaving(), homeText(it.from))
	if errors.Is(err, ErrTaken) { // a freeze may have been in flight
		err = ignoreTaken(m.exchange(ctx, "stay", it.from, it.tag, it.moving(), homeText(it.from)))
	}
	it.begun = err != nil
	return err
}

// depart sends clients from the old places of tags that have arrived to the new ones.
func (m *Mover) depart(ctx context.Context, items []*item) error {
	if err := m.secureAll(ctx, "secure arrival", items, to); err != nil {
		return err
	}
	return eachItem(ctx, items, func(it *item) error { return m.flip(ctx, it) })
}

func (m *Mover) flip(ctx context.Context, it *item) error {
	text, r, err := m.read(ctx, it.from, it.tag)
	if err != nil {
		return err
	}
	going, _, ok := r.to()
	switch {
	case text == "" || r.Home != it.from && (!ok || going != r.Home):
		return nil // nothing is left to do there
	case r.Home != it.from:
		it.goneText = text
		return nil
	case r.Mark == members.Moving && going == it.to:
		it.goneText = markedText(it.to, members.Leaving, r.Token)
		err := m.exchange(ctx, "flip", it.from, it.tag, text, it.goneText)
		if err != nil {
			it.goneText = ""
		}
		it.pause = time.Since(it.frozen)
		return err
	}
	return ErrTaken.Errorf("%q has arrived in partition %d, and the record in partition %d is %q", it.tag, it.to, it.from, text)
}

// tidy cleans up behind tags that have arrived: it deletes their keys at the old places,
// and removes the marks. It can be repeated, also by several calls at once.
func (m *Mover) tidy(ctx context.Context, items []*item) error {
	if len(items) == 0 {
		return nil
	}
	if err := m.depart(ctx, filter(items, func(it *item) bool { return it.goneText == "" })); err != nil {
		return err
	}
	if err := m.secureAll(ctx, "secure flip", items, from); err != nil {
		return err
	}
	// Clients that looked the place up before the flip may be reading there.
	if err := m.wait(ctx, "until read", m.times().inFlight); err != nil {
		return err
	}
	unknown := filter(items, func(it *item) bool { return it.keys == nil && it.goneText != "" })
	for partition, items := range byPartition(unknown, from) {
		keys, err := m.keysOf(ctx, partition, items)
		if err != nil {
			return err
		}
		for _, it := range items {
			it.keys = keys[it.tag]
		}
	}
	err := eachItem(ctx, items, func(it *item) error { return m.settle(ctx, it) })
	for _, it := range items {
		if it.err != nil {
			m.cfg.Logger.WarnContext(ctx, "cannot clean up behind a moved tag", "tag", it.tag, "partition", it.from, "error", it.err)
		}
	}
	return err
}

// settle deletes what is left at the old place, and removes the marks: at the new place
// last, so that the tag's own record shows that there is work left.
func (m *Mover) settle(ctx context.Context, it *item) error {
	if it.err != nil {
		return it.err
	}
	if it.goneText != "" {
		if err := m.clear(ctx, "clear", it.from, it.tag, it.goneText, it.keys); err != nil {
			return err
		}
		if err := m.shorten(ctx, it); err != nil {
			return err
		}
		if err := m.exchange(ctx, "unmark", it.from, it.tag, it.goneText, homeText(it.to)); err != nil {
			return err
		}
	}
	text, r, err := m.read(ctx, it.to, it.tag)
	if err != nil {
		return err
	}
	if from, _, ok := r.from(); ok && from == it.from && r.Home == it.to {
		return m.exchange(ctx, "settle", it.to, it.tag, text, homeText(it.to))
	}
	return nil
}

// shorten makes the record by which the tag is found name its new place, so that records
// do not form a chain.
func (m *Mover) shorten(ctx context.Context, it *item) error {
	if it.via == unknown {
		l, err := m.place(ctx, it.tag)
		if err != nil {
			return err
		}
		it.via = l.Record
	}
	if !it.forwarded() {
		return nil
	}
	text, r, err := m.read(ctx, it.via, it.tag)
	if to, _, ok := r.to(); err != nil || !ok || to != it.to || r.Home != it.from {
		return err
	}
	return m.exchange(ctx, "shorten", it.via, it.tag, text, homeText(it.to))
}

// secureAll secures the partitions at one end of some moves.
func (m *Mover) secureAll(ctx context.Context, step string, items []*item, end func(*item) int) error {
	for partition := range byPartition(items, end) {
		if err := m.secure(ctx, step, partition); err != nil {
			return err
		}
	}
	return nil
}
