package rebalance

import (
	"context"
	"errors"
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
	going, run, ok := r.to()
	switch {
	case text == "" || r.Home != it.from && (!ok || going != r.Home):
		return nil // nothing is left to do there
	case r.Home != it.from:
		it.goneText = text
		return nil
	case r.Mark == members.Moving && going == it.to && run == it.run:
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
	unsure := m.believe(ctx, filter(items, func(it *item) bool { return it.goneText != "" }))
	items = filter(items, func(it *item) bool { return !it.back })
	unknown := filter(items, func(it *item) bool { return it.keys == nil && it.goneText != "" && it.err == nil })
	if err := m.findKeys(ctx, unknown, from); err != nil {
		return err
	}
	err := errors.Join(unsure, eachItem(ctx, items, func(it *item) error { return m.settle(ctx, it) }))
	for _, it := range items {
		if it.err != nil {
			m.cfg.Logger.WarnContext(ctx, "cannot clean up behind a moved tag", "tag", it.tag, "partition", it.from, "error", it.err)
		}
	}
	return err
}

// believe makes sure that tags are where they went, or have gone on from there, before anything of
// them is deleted where they were. The word of a partition that went back in time does not count: it
// may have lost an arrival, and got the tag again from a client. Tags that went there wait until
// it is compared with the others.
func (m *Mover) believe(ctx context.Context, items []*item) (unsure error) {
	for partition, items := range byPartition(items, to) {
		tags := make([]string, len(items))
		for i, it := range items {
			tags[i] = it.tag
		}
		there, back, err := m.ask(ctx, partition, tags...)
		for i, it := range items {
			failed, back, home := err, back, partition
			if failed == nil && !there[i].isIn(partition) {
				home, back, failed = m.wentOn(ctx, it.tag)
			}
			if failed == nil && back {
				failed = wentBack(home)
			}
			if it.back = failed != nil && !errors.Is(failed, ErrTaken) && !errors.Is(failed, ErrUnknown); it.back {
				unsure = failed
			} else {
				it.err = failed
			}
		}
	}
	return unsure
}

// wentOn returns the partition where clients find a tag, and whether that went back.
func (m *Mover) wentOn(ctx context.Context, tag string) (home int, back bool, err error) {
	l, err := m.place(ctx, tag)
	if err != nil {
		return 0, false, err
	}
	at, back, err := m.ask(ctx, l.Partition, tag)
	if err == nil && !at[0].isIn(l.Partition) {
		err = ErrTaken.Errorf("%q is in no partition by its own record: partition %d has %q", tag, l.Partition, at[0].text)
	}
	return l.Partition, back, err
}

// settle deletes the rest at the old place, and removes the marks: at the new place
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
