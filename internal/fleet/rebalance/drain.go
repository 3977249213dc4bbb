package rebalance

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"slices"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/ring"
)

// Close stops a partition from taking new tags: they are forwarded to others. It keeps its
// tags. It is not opened again.
func Close(ctx context.Context, dir *directory.Directory, partition int) error {
	_, err := directory.Edit(ctx, dir, func(next *directory.Map) (bool, error) {
		if err := checkID(next, partition); err != nil {
			return false, err
		}
		p := &next.Partitions[partition]
		if p.Phase == directory.Closed {
			return false, nil
		}
		if p.Phase == directory.LookUp {
			return false, millrace.ErrBadArgument.Errorf("the adding of partition %d is not finished", partition).
				WithHint("Repeat the command that began it, for the same servers.")
		}
		p.Phase = directory.Closed
		return true, nil
	})
	return err
}

// DrainConfig says which tags of a partition are moved, and where. The zero value moves
// all of them to the other partitions.
type DrainConfig struct {
	// Share is the part of the tags to move, above 0 and at most 1. The choice depends on
	// the tags alone: the same call again continues with them and moves no others.
	// Defaults to 1.
	Share float64

	// To are the partitions that take the tags. A tag goes to its owner on the ring, if that
	// is one of them, else to the one with the most room. Defaults to all others that take
	// new tags.
	To []int
}

// Drain moves tags of a partition as Move does. It also finishes the moves that earlier calls have
// left there. A tag that another call moves or forgets meanwhile is in Report.Kept, and is
// no error.
//
// To retire a partition, Close it first. It stays in the fleet: its records say where the
// tags are that belong to it.
func (m *Mover) Drain(ctx context.Context, from int, cfg DrainConfig) (Report, error) {
	share := cmp.Or(cfg.Share, 1)
	if !(share > 0 && share <= 1) {
		return Report{}, millrace.ErrBadArgument.Errorf("invalid Share %v: it must be above 0 and at most 1", cfg.Share)
	}
	here, err := m.list(ctx, from)
	if err != nil {
		return Report{}, err
	}
	tags := slices.DeleteFunc(here.tags, func(tag string) bool { return fraction(tag) >= share })
	items, err := m.assign(ctx, from, cfg.To, tags)
	if err != nil {
		return Report{}, err
	}
	return m.registered(ctx, func() (Report, error) { return m.carry(ctx, items, here.left) })
}

// resume finishes cut-off moves in a partition, of tags that were to leave it and of tags that
// were to come.
func (m *Mover) resume(ctx context.Context, partition int) (Report, error) {
	here, err := m.list(ctx, partition)
	if err != nil {
		return Report{}, err
	}
	var strays []*item // another call has taken the tag over
	for _, c := range here.claims {
		text, r, err := m.read(ctx, c.from, c.tag)
		if err != nil {
			return Report{}, err
		}
		if going, _, ok := r.to(); text != "" && ok && going == partition {
			here.marked = append(here.marked, &item{tag: c.tag, trip: trip{to: partition}})
		} else {
			strays = append(strays, c)
		}
	}
	if err := m.giveUp(ctx, strays); err != nil {
		return Report{}, err
	}
	return m.carry(ctx, here.marked, here.left)
}

// listed is the result of reading a partition's records.
type listed struct {
	tags   []string // that are there
	marked []*item  // tags that are being moved from there, or have just come
	left   []*item  // tags that were moved away, and left keys or marks there
	claims []*item  // tags that were to come
}

func (m *Mover) list(ctx context.Context, partition int) (here listed, err error) {
	seen := map[string]bool{} // a scan may return a key twice
	err = m.pages(ctx, partition, func(page []tagRecord) error {
		for _, r := range page {
			if r.text != "" && !seen[r.tag] {
				seen[r.tag] = true
				here.add(partition, r.tag, r.record)
			}
		}
		return nil
	})
	return here, err
}

func (l *listed) add(partition int, tag string, r record) {
	if r.Home == partition {
		l.tags = append(l.tags, tag)
	}
	to, run, going := r.to()
	_, _, came := r.from()
	switch {
	case going && r.Home == to:
		l.left = append(l.left, &item{tag: tag, trip: trip{partition, to, run}, via: unknown, arrived: true})
	case going && to == partition:
		l.claims = append(l.claims, &item{tag: tag, trip: trip{r.Home, to, run}, via: unknown, found: homeText(r.Home), begun: true, doubtful: true})
	case going:
		l.marked = append(l.marked, &item{tag: tag, trip: trip{to: to}})
	case came:
		l.marked = append(l.marked, &item{tag: tag, trip: trip{to: partition}})
	}
}

// fraction maps a tag to a number from 0 up to 1, always the same one.
func fraction(tag string) float64 {
	sum := sha256.Sum256([]byte(tag))
	return float64(binary.BigEndian.Uint64(sum[:])>>11) / (1 << 53)
}

// assign chooses the partition to which each tag goes.
func (m *Mover) assign(ctx context.Context, from int, to []int, tags []string) ([]*item, error) {
	current := m.fleetMap()
	if len(to) == 0 {
		for _, p := range current.Partitions {
			if p.ID != from && p.Phase == directory.Open && !p.ReadOnly {
				to = append(to, p.ID)
			}
		}
	}
	if len(to) == 0 {
		return nil, millrace.ErrBadArgument.Errorf("no other partition takes tags")
	}
	for _, id := range to {
		if id == from {
			return nil, millrace.ErrBadArgument.Errorf("partition %d cannot take the tags that leave it", id)
		}
		if err := m.mayTake(id); err != nil {
			return nil, err
		}
	}
	points, err := current.Ring()
	if err != nil {
		return nil, err
	}
	status, err := m.f.Status(ctx)
	if err != nil {
		return nil, err
	}
	here := status.Partitions[from]
	size := here.Memory / max(1, here.Tags) // of an average tag
	room := map[int]int64{}
	for _, id := range to {
		p := status.Partitions[id]
		room[id] = cmp.Or(p.MaxMemory, math.MaxInt64/2) - p.Memory
	}
	items := make([]*item, len(tags))
	for i, tag := range tags {
		target := points.Owner(ring.Position(tag))
		if _, takes := room[target]; !takes {
			target = slices.MaxFunc(to, func(a, b int) int { return cmp.Compare(room[a], room[b]) })
		}
		room[target] -= size
		items[i] = &item{tag: tag, trip: trip{to: target}}
	}
	return items, nil
}
