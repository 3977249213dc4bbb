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
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/script"
	"github.com/millrace/millrace/ring"
)

// DrainConfig says what of a partition is moved, and where to. The zero value moves
// all of it to the others.
type DrainConfig struct {
	// Share is the part of the tags to be moved, above 0 and at most 1. Which ones
	// depends on the tags alone, so that the same call again goes on with them, and
	// moves nothing more. Defaults to 1.
	Share float64

	// To are the partitions that take them. A tag goes to the partition to which it
	// belongs, if that is one of them, and to the one with the most room otherwise.
	// Defaults to all others that take new tags.
	To []int
}

// Drain moves the tags of a partition to others, or a share of them, as Move does.
// It also finishes what earlier calls have left unfinished there. A tag that
// somebody else moves or forgets meanwhile is in Report.Kept, and no error.
//
// A partition that is to be empty for good is closed first, see Close. It stays in
// the fleet: its records say where the tags are that belong to it.
func (m *Mover) Drain(ctx context.Context, from int, cfg DrainConfig) (Report, error) {
	share := cfg.Share
	if share == 0 {
		share = 1
	}
	if !(share > 0 && share <= 1) {
		return Report{}, millrace.ErrBadArgument.Errorf("invalid Share %v: it must be above 0 and at most 1", cfg.Share)
	}
	here, err := m.list(ctx, from)
	if err != nil {
		return Report{}, err
	}
	tags := slices.DeleteFunc(here.tags, func(tag string) bool { return lot(tag) >= share })
	items, err := m.assign(ctx, from, cfg.To, tags)
	if err != nil {
		return Report{}, err
	}
	return m.known(ctx, func() (Report, error) { return m.carry(ctx, items, here.left) })
}

// Resume finishes what calls that were cut off have left unfinished in a partition,
// whether tags were to be moved away from there or to come.
func (m *Mover) Resume(ctx context.Context, partition int) (Report, error) {
	return m.known(ctx, func() (Report, error) { return m.resume(ctx, partition) })
}

func (m *Mover) resume(ctx context.Context, partition int) (Report, error) {
	here, err := m.list(ctx, partition)
	if err != nil {
		return Report{}, err
	}
	var strays []*claim
	for _, c := range here.claims {
		text, r, err := m.read(ctx, c.home, c.tag)
		if err != nil {
			return Report{}, err
		}
		if to, going := r.to(); text != "" && going && to == partition {
			here.marked = append(here.marked, &item{tag: c.tag, trip: trip{to: partition}})
			continue
		}
		strays = append(strays, c) // another call has taken the tag over
	}
	if err := m.disown(ctx, strays); err != nil {
		return Report{}, err
	}
	return m.carry(ctx, here.marked, here.left)
}

// listed is what the records of a partition say.
type listed struct {
	tags   []string // that are there
	marked []*item  // tags that are being moved from there, or have just come
	left   []*item  // tags that have been moved, and left keys or marks there
	claims []*claim // tags that were to come
}

func (m *Mover) list(ctx context.Context, partition int) (here listed, err error) {
	if partition < 0 || partition >= len(directory.MapOf(m.f.Client()).Partitions) {
		return here, millrace.ErrBadArgument.Errorf("there is no partition %d", partition)
	}
	var keys []string
	for key, err := range script.Scan(ctx, m.client(partition), members.RecordKey("*")) {
		if err != nil {
			return here, err
		}
		keys = append(keys, key)
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	for some := range slices.Chunk(keys, 1000) {
		c := m.client(partition)
		values, err := c.Do(ctx, c.B().Mget().Key(some...).Build()).ToArray()
		if err != nil {
			return here, err
		}
		for i, value := range values {
			text, _ := value.ToString()
			tag, ok := members.RecordedTag(some[i])
			if r, err := parseRecord(text); ok && err == nil {
				here.add(partition, tag, text, r)
			}
		}
	}
	return here, nil
}

func (l *listed) add(partition int, tag, text string, r record) {
	if r.Home == partition {
		l.tags = append(l.tags, tag)
	}
	to, going := r.to()
	_, came := r.from()
	switch {
	case going && r.Home == to:
		l.left = append(l.left, &item{tag: tag, trip: trip{from: partition, to: to}, via: unknown})
	case going && to == partition:
		l.claims = append(l.claims, &claim{tag: tag, at: partition, home: r.Home, text: text})
	case going:
		l.marked = append(l.marked, &item{tag: tag, trip: trip{to: to}})
	case came:
		l.marked = append(l.marked, &item{tag: tag, trip: trip{to: partition}})
	}
}

// lot draws a number from 0 up to 1 for a tag, always the same one.
func lot(tag string) float64 {
	sum := sha256.Sum256([]byte(tag))
	return float64(binary.BigEndian.Uint64(sum[:])>>11) / (1 << 53)
}

// assign says where each tag goes.
func (m *Mover) assign(ctx context.Context, from int, to []int, tags []string) ([]*item, error) {
	current := directory.MapOf(m.f.Client())
	if len(to) == 0 {
		for _, p := range current.Partitions {
			if p.ID != from && p.Phase == directory.Open && !p.ReadOnly {
				to = append(to, p.ID)
			}
		}
	}
	if len(to) == 0 {
		return nil, millrace.ErrBadArgument.Errorf("there is no other partition that takes tags")
	}
	for _, id := range to {
		if id == from {
			return nil, millrace.ErrBadArgument.Errorf("the tags of partition %d are to leave it, and it is one of those that take them", id)
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
	size := here.Memory / max(1, here.Tags) // of a tag, more or less
	room := map[int]int64{}
	for _, id := range to {
		p := status.Partitions[id]
		room[id] = p.MaxMemory
		if p.MaxMemory == 0 {
			room[id] = math.MaxInt64 / 2
		}
		room[id] -= p.Memory
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
