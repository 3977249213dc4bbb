package rebalance

import (
	"context"
	"time"

	"github.com/millrace/millrace/internal/fleet/members"
)

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
	if err := m.findKeys(ctx, unknown, from); err != nil {
		return err
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
