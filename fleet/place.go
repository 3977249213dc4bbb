package fleet

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/retry"
	"github.com/millrace/millrace/ring"
)

// locate returns where what has a tag is done. A write gives a tag that is nowhere
// its place; a read of such a tag goes where it would belong.
func (f *Fleet) locate(ctx context.Context, tag string, write bool) (target, error) {
	for range maxFinds {
		var v *view
		var began int64
		if write {
			var err error
			if v, began, err = f.confirmed(ctx); err != nil {
				return target{}, err
			}
		} else {
			v, began = f.view.Load(), f.now()
		}
		if place := f.places.get(tag); place != nil && place.holds(v, began) {
			return target{v.partitions[place.home], began, place}, nil
		}
		found, err := f.find(ctx, v, tag, write)
		switch {
		case errors.Is(err, errMoving):
			if err := f.sitOut(ctx, tag); err != nil {
				return target{}, err
			}
			continue
		case errors.Is(err, errOld):
			// The map has changed, or is about to.
			if err := f.await(ctx, v); err != nil {
				return target{}, err
			}
			continue
		case err != nil:
			return target{}, err
		}
		place := found.placement(v, began)
		if found.How == Nowhere {
			return target{p: v.partitions[place.home]}, nil
		}
		if !found.loose {
			f.places.put(tag, place)
		}
		if !write || found.leaving {
			return target{v.partitions[place.home], began, place}, nil
		}
		// Finding it took time: whether the caller may still write is asked anew.
	}
	return target{}, errFinding
}

// errFinding means that what was found was too old each time it was to be used.
var errFinding = ErrUnavailable.Errorf("finding the tag took longer than what was found could be used")

// maxFinds is how often a tag is looked for in one call. Once is enough unless the
// map changes meanwhile, or the fleet is very slow.
const maxFinds = 4

// errMoving means that a tag is being moved, and nobody writes for it.
var errMoving = ErrUnavailable.Errorf("the tag is being moved, which takes longer than usual")

// sitOut waits until a tag is not being moved any more.
func (f *Fleet) sitOut(ctx context.Context, tag string) error {
	return retry.Policy{Max: 20 * time.Millisecond}.Do(ctx, func(int) error {
		v, _, err := f.confirmed(ctx)
		if err != nil {
			return err
		}
		l, err := f.find(ctx, v, tag, false)
		if err == nil && l.moving {
			err = errMoving
		}
		return err
	})
}

// errOld means that a view is too old to place a tag by.
var errOld = errors.New("the map is too old")

// await waits until there is another view than v, as long as adding a partition
// may hold up the placing of tags.
func (f *Fleet) await(ctx context.Context, v *view) error {
	return retry.Policy{Max: 20 * time.Millisecond}.Do(ctx, func(int) error {
		err := f.refresh(ctx)
		if f.view.Load() != v {
			return nil
		}
		return ErrUnavailable.Errorf("partitions are being added, and new tags cannot be placed yet").Wrap(err)
	})
}

// How says how it was found out where a tag is.
type How string

// Ways in which a tag is found.
const (
	Nowhere   How = "nowhere"   // it has no place yet
	Owner     How = "owner"     // the partition to which it belongs has it
	Older     How = "older"     // one to which it belonged before partitions were added has it
	Forwarded How = "forwarded" // the one to which it belonged was full, and says which one has it
)

// Location is where a tag is.
type Location struct {
	Tag       string `json:"-"`
	Position  uint64 `json:"-"`         // on the ring
	Partition int    `json:"partition"` // that has the tag, or to which it would go
	Record    int    `json:"record"`    // the partition whose record says so
	How       How    `json:"how"`
	Asked     []int  `json:"asked"` // the partitions that were asked, in order

	loose   bool // good for this once: whoever comes next has to look again
	leaving bool // about to be moved
	moving  bool // being moved: nobody writes
}

// Locate returns where a tag is. It does not place it.
func (f *Fleet) Locate(ctx context.Context, tag string) (Location, error) {
	return f.find(ctx, f.view.Load(), tag, false)
}

func (l *Location) placement(v *view, began int64) *placement {
	p := &placement{
		home: l.Partition, homeEpoch: v.partitions[l.Partition].epoch,
		via: l.Record, viaEpoch: v.partitions[l.Record].epoch,
		until: began + v.placementLife, position: l.Position, leaving: l.leaving,
	}
	p.wrote.Store(began)
	return p
}

// find asks the partitions to which a tag ever belonged, the newest first. The
// first that has a record of it knows where it is. That none has one is only known
// when all have said so; only then does a write place the tag.
func (f *Fleet) find(ctx context.Context, v *view, tag string, write bool) (Location, error) {
	l := Location{Tag: tag, Position: ring.Position(tag)}
	candidates := v.ring.Candidates(l.Position)
	var silent error
	for i, id := range candidates {
		p := v.partitions[id]
		l.Asked = append(l.Asked, id)
		r, found, sure, err := p.lookUp(ctx, tag)
		if err != nil && !write {
			// A replica knows nothing of what was placed a moment ago, but what it has
			// been told can be read, and so can what a fenced master has.
			r, found, err = p.readAnywhere(ctx, tag, err)
		}
		switch {
		case ctx.Err() != nil:
			return l, context.Cause(ctx)
		case err != nil:
			silent = errors.Join(silent, err)
		case found && (sure || !write):
			l.Record, l.How, l.loose = id, Owner, !sure
			if i > 0 {
				l.How = Older
			}
			return f.arrive(ctx, v, l, r, write)
		case !sure && silent == nil:
			silent = unsure(id)
		}
	}
	if silent != nil {
		return l, ErrUnavailable.Errorf("where the tag is cannot be found out").Wrap(silent)
	}
	owner := v.partitions[candidates[len(candidates)-1]]
	for _, id := range candidates {
		if v.partitions[id].phase != directory.LookUp {
			owner = v.partitions[id]
			break
		}
	}
	l.Record, l.Partition, l.How = owner.id, owner.id, Nowhere
	if !write {
		return l, nil
	}
	home, err := owner.place(ctx, tag, l.Position)
	if err != nil {
		return l, err
	}
	l.How = Owner
	return f.arrive(ctx, v, l, record{home: home}, write)
}

func unsure(id int) error {
	return ErrUnavailable.Errorf("the master of partition %d may have been replaced when it answered", id)
}

// readAnywhere asks all who may have a copy.
func (p *partition) readAnywhere(ctx context.Context, tag string, failed error) (record, bool, error) {
	for _, m := range p.members {
		if r, found, err := p.readAt(ctx, m, tag); err == nil && found {
			return r, true, nil
		}
	}
	return record{}, false, failed
}

// maxHops is how many records in a row may each name the next one. There are two
// while a tag is moved.
const maxHops = 4

// arrive follows a record to the partition that has the tag. A write takes a mark
// off, and makes sure that the partition at the end has a record of its own, which
// it lacks if who sent the tag there went away.
func (f *Fleet) arrive(ctx context.Context, v *view, l Location, r record, write bool) (Location, error) {
	at, found := l.Record, true
	for range maxHops {
		if at >= len(v.partitions) || r.home >= len(v.partitions) {
			return l, errOld
		}
		l.leaving, l.moving = r.mark == leaving, r.mark == moving
		if write && l.moving {
			return l, errMoving
		}
		if write && (r.mark == forgetting || !found) {
			outcome, home, err := v.partitions[at].placed(ctx, "place", v.placeArgs(l.Tag, at != l.Record)...)
			if err != nil {
				return l, err
			}
			if outcome != "at" {
				return l, errOld
			}
			r, found = record{home: home}, true
		}
		l.loose = l.loose || r.mark != unmarked || !found
		if r.home == at || !found {
			l.Partition = at
			return l, nil
		}
		l.How = Forwarded
		at = r.home
		l.Asked = append(l.Asked, at)
		next, has, sure, err := v.partitions[at].lookUp(ctx, l.Tag)
		if err != nil && !write {
			next, has, err = v.partitions[at].readAnywhere(ctx, l.Tag, nil)
		}
		switch {
		case err != nil:
			return l, err
		case write && !sure:
			return l, unsure(at)
		}
		l.loose = l.loose || !sure
		if found = has; has {
			r = next
		} else {
			r = record{home: at}
		}
	}
	return l, fmt.Errorf("more than %d partitions in a row send the tag on", maxHops)
}

// placeArgs are the arguments of the script that places a tag.
func (v *view) placeArgs(tag string, forced bool) []string {
	force := "0"
	if forced {
		force = "1"
	}
	args := append([]string{tag, strconv.FormatInt(v.m.Epoch, 10)}, limits(v.m.Settings)...)
	return append(args, force)
}

// place places a tag that belongs to p, or sends it on clockwise if p is full. It
// returns where the tag is.
func (p *partition) place(ctx context.Context, tag string, position uint64) (home int, err error) {
	epoch := strconv.FormatInt(p.v.m.Epoch, 10)
	outcome := "full"
	if p.phase == directory.Open {
		if outcome, home, err = p.placed(ctx, "place", p.v.placeArgs(tag, false)...); err != nil {
			return 0, err
		}
	}
	if outcome == "full" {
		next, err := p.vacancy(ctx, position)
		if err != nil {
			return 0, err
		}
		if outcome, home, err = p.placed(ctx, "forward", tag, epoch, strconv.Itoa(next)); err != nil {
			return 0, err
		}
	}
	if outcome == "old" {
		return 0, errOld
	}
	return home, nil
}

// vacancy returns the next partition clockwise that takes another tag.
func (p *partition) vacancy(ctx context.Context, position uint64) (int, error) {
	var silent error
	for id := range p.v.ring.Walk(position) {
		q := p.v.partitions[id]
		if q == p || q.phase != directory.Open || q.readOnly {
			continue
		}
		outcome, _, err := q.run(ctx, "vacancy", limits(p.v.m.Settings)...)
		switch {
		case ctx.Err() != nil:
			return 0, context.Cause(ctx)
		case err != nil:
			silent = errors.Join(silent, err)
		case outcome == "room":
			return id, nil
		}
	}
	if silent != nil {
		return 0, ErrUnavailable.Errorf("partition %d is full, and no other one could be asked that has room", p.id).Wrap(silent)
	}
	full := millrace.ErrFull.Errorf("all partitions of the fleet are full")
	full.Hint = "Add a partition with millrace fleet add, or forget tags that are not in use."
	return 0, full
}
