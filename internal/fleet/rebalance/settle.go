package rebalance

import (
	"context"

	"github.com/millrace/millrace/internal/fleet/members"
)

// tidy puts in order what tags that have arrived leave behind: it deletes their keys
// at the old place, and takes the marks off. It may be done by several at once, and
// again.
func (m *Mover) tidy(ctx context.Context, items []*item) error {
	if len(items) == 0 {
		return nil
	}
	if err := m.secureAll(ctx, "secure arrival", items, func(it *item) int { return it.to }); err != nil {
		return err
	}
	if err := eachItem(ctx, items, func(it *item) error { return m.depart(ctx, it) }); err != nil {
		return err
	}
	if err := m.secureAll(ctx, "secure flip", items, func(it *item) int { return it.from }); err != nil {
		return err
	}
	// Who asked for the place before it was another one may be reading there.
	if err := m.wait(ctx, "until read", m.times().underWay); err != nil {
		return err
	}
	scans := map[int][]*item{}
	for _, it := range items {
		if it.keys == nil && it.goneText != "" {
			scans[it.from] = append(scans[it.from], it)
		}
	}
	for from, items := range scans {
		keys, err := m.keysOf(ctx, from, tags(items))
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
			m.cfg.Logger.WarnContext(ctx, "what a tag has left behind was not put in order by this call", "tag", it.tag, "partition", it.from, "error", it.err)
		}
	}
	return err
}

// secureAll secures the partitions that are one end of some moves.
func (m *Mover) secureAll(ctx context.Context, step string, items []*item, end func(*item) int) error {
	partitions := map[int]bool{}
	for _, it := range items {
		partitions[end(it)] = true
	}
	for partition := range partitions {
		if err := m.secure(ctx, step, partition); err != nil {
			return err
		}
	}
	return nil
}

// depart makes sure that everybody is sent from the old place to the new one.
func (m *Mover) depart(ctx context.Context, it *item) error {
	text, r, err := m.read(ctx, it.from, it.tag)
	if err != nil {
		return err
	}
	to, going := r.to()
	switch {
	case text == "" || r.Home != it.from && (!going || to != r.Home):
		return nil // that was done
	case r.Home != it.from:
		it.goneText = text
		return nil
	case r.Mark == members.Moving && to == it.to:
		it.goneText = leavingText(it.to, r.Token)
		return m.exchange(ctx, "flip", it.from, it.tag, text, it.goneText)
	default:
		return ErrTaken.Errorf("%q has arrived in partition %d, and the record in partition %d is %q", it.tag, it.to, it.from, text)
	}
}

// settle deletes what is left at the old place, and takes the marks off: at the new
// one last, so that as long as anything is to be done the tag itself says so.
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
	if from, ok := r.from(); ok && from == it.from && r.Home == it.to {
		return m.exchange(ctx, "settle", it.to, it.tag, text, homeText(it.to))
	}
	return nil
}

// shorten has the record by which the tag is found name its new place itself, so
// that records do not become a chain.
func (m *Mover) shorten(ctx context.Context, it *item) error {
	if it.via == unknown {
		l, err := m.place(ctx, it.tag)
		if err != nil {
			return err
		}
		it.via = l.Record
	}
	if !it.sentOn() {
		return nil
	}
	text, r, err := m.read(ctx, it.via, it.tag)
	if to, going := r.to(); err != nil || !going || to != it.to || r.Home != it.from {
		return err
	}
	return m.exchange(ctx, "shorten", it.via, it.tag, text, homeText(it.to))
}
