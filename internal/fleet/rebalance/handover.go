package rebalance

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/millrace/millrace/fleet"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/script"
	"github.com/millrace/millrace/ring"
)

// HandOver empties a partition that is being removed, in phase Yielded, of its records. It
// returns how many could not be handed over yet, because calls move their tags: repeat it.
//
// First the records of other partitions that name the partition get the home that its own
// record names. Then each record of its own is handed over:
//
//	step     record at N     record at O, the owner without N
//
//	         H               - or an old one
//	lock     H !yield        the same              writers wait
//	adopt    H !yield        H
//	drop     -               H                     writers go on
//
// A record of a tag that N does not own, but once had, is dropped. The lock keeps the tag from being forgotten, and written again, meanwhile. H is where the
// tag is; if that is O, it has the record already.
func (m *Mover) HandOver(ctx context.Context, from int) (left int, err error) {
	current := m.fleetMap()
	if p := current.Removing(); p == nil || p.ID != from || p.Phase != directory.Yielded {
		return 0, fleet.ErrUnavailable.Errorf("partition %d does not hand over its records", from)
	}
	all, err := current.Ring()
	if err != nil {
		return 0, err
	}
	rest, err := ring.Of(current.Points.Without(from))
	if err != nil {
		return 0, err
	}
	h := &handover{Mover: m, from: from, all: all, rest: rest}
	for _, p := range current.Partitions[:from] {
		if err == nil {
			err = h.pass(ctx, p.ID, h.redirect)
		}
	}
	if err == nil {
		err = h.pass(ctx, from, h.yield)
	}
	return int(h.left.Load()), err
}

// handover is one call of HandOver.
type handover struct {
	*Mover
	from      int
	all, rest *ring.Ring // with it and without
	left      atomic.Int64
}

// handChunk is how many records are handed over together. Their writers wait.
const handChunk = 200

// pass does something with all records of a partition, as one master has them.
func (h *handover) pass(ctx context.Context, partition int, do func(ctx context.Context, partition int, some []stored) error) error {
	epoch := h.epoch(partition)
	var keys []string
	flush := func() error {
		some, err := h.stored(ctx, partition, keys)
		if keys = keys[:0]; err != nil {
			return err
		}
		return do(ctx, partition, some)
	}
	for key, err := range script.Scan(ctx, h.client(partition), members.RecordKey("*")) {
		if err != nil {
			return err
		}
		if keys = append(keys, key); len(keys) == handChunk {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if len(keys) > 0 {
		if err := flush(); err != nil {
			return err
		}
	}
	// It takes a write, so it was the master all the time.
	if _, _, err := h.read(ctx, partition, ""); err != nil {
		return err
	}
	if h.epoch(partition) != epoch {
		return replaced(partition)
	}
	return nil
}

// moved reports whether a call moves the tag of a record.
func (s stored) moved() bool {
	return s.Mark == members.Leaving || s.Mark == members.Moving && s.Token != yieldToken
}

// yieldToken is the token of the lock.
const yieldToken = "yield"

// redirect makes records that name the partition name the homes that its own records do.
func (h *handover) redirect(ctx context.Context, partition int, some []stored) error {
	return each(ctx, some, func(s stored) error {
		if to, _, ok := s.to(); ok && to == partition && s.Home != partition {
			h.left.Add(1) // a claim, behind which the record may return that was there before
			return nil
		}
		if s.Home != h.from {
			return nil
		}
		text, own, err := h.read(ctx, h.from, s.tag)
		if err != nil {
			return err
		}
		after := ""
		switch {
		case s.moved(), text != "" && (own.Home == h.from || own.Home == partition || stored{record: own}.moved()):
			h.left.Add(1)
			return nil
		case text != "":
			after = homeText(own.Home)
		}
		_, err = h.swap(ctx, "redirect", partition, s.tag, s.text, after)
		return err
	})
}

// swap exchanges a record and reports whether it could, or leaves it for the next call.
func (h *handover) swap(ctx context.Context, step string, partition int, tag, before, after string) (bool, error) {
	err := h.exchange(ctx, step, partition, tag, before, after)
	if err != nil && ignoreTaken(err) == nil {
		h.left.Add(1)
		return false, nil
	}
	return err == nil, err
}

// yielded is a record that is being handed over.
type yielded struct {
	stored
	position uint64
	owner    int    // the next one
	adopted  bool   // the record can be dropped
	now      string // the record
}

// yield hands records of the partition over.
func (h *handover) yield(ctx context.Context, _ int, some []stored) error {
	var all []*yielded
	for _, s := range some {
		if s.Home == h.from || s.moved() {
			h.left.Add(1)
			continue
		}
		position := ring.Position(s.tag)
		all = append(all, &yielded{stored: s, position: position, owner: h.rest.Owner(position), now: s.text})
	}
	if err := each(ctx, all, func(y *yielded) error { return h.adopt(ctx, y) }); err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(y *yielded) bool { return !y.adopted })
	owners := map[int]bool{}
	for _, y := range all {
		owners[y.owner] = true
	}
	for owner := range owners {
		if err := h.secure(ctx, "secure adoption", owner); err != nil {
			return err
		}
	}
	return each(ctx, all, func(y *yielded) error {
		_, err := h.swap(ctx, "drop", h.from, y.tag, y.now, "")
		return err
	})
}

// adopt locks a record, and writes its home into the owner's. If the tag is being moved after
// all, it takes the lock back.
func (h *handover) adopt(ctx context.Context, y *yielded) error {
	if h.all.Owner(y.position) != h.from {
		y.adopted = true
		return nil
	}
	lock := markedText(y.Home, members.Moving, yieldToken)
	locked, err := h.swap(ctx, "lock", h.from, y.tag, y.text, lock)
	if err != nil || !locked {
		return err
	}
	y.now = lock
	l, err := h.place(ctx, y.tag)
	if err != nil {
		return err
	}
	text, r, err := h.read(ctx, y.owner, y.tag)
	switch {
	case err != nil:
		return err
	case l.Record != h.from, text != "" && (stored{record: r}.moved() || r.Home == y.owner && l.Partition != y.owner):
		h.left.Add(1)
	case text != "" && r.Home == l.Partition:
		y.adopted = true
	default:
		y.adopted, err = h.swap(ctx, "adopt", y.owner, y.tag, text, homeText(l.Partition))
	}
	if err == nil && !y.adopted {
		err = ignoreTaken(h.exchange(ctx, "unlock", h.from, y.tag, lock, homeText(y.Home)))
	}
	return err
}
