package fleet

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/redis/retry"
)

const (
	// maxFinds is how often one call searches for a tag. Once is enough unless the map
	// changes meanwhile, or the fleet is very slow.
	maxFinds = 4
	// locateParallel is how many tags one call searches for at the same time.
	locateParallel = 16
)

// Outcomes of a search for a tag.
var (
	errFinding = ErrUnavailable.Errorf("the search for the tag took longer than its result is valid")
	errMoving  = ErrUnavailable.Errorf("the tag is being moved, which takes longer than usual")
	errOld     = errors.New("the map is too old to place a tag by")
)

func errUnsure(id int) error {
	return ErrUnavailable.Errorf("the master of partition %d may have been replaced when it answered", id)
}

// permitted returns the view, and for a write one by which the caller may write.
func (f *Fleet) permitted(ctx context.Context, write bool) (v *view, began int64, err error) {
	if write {
		return f.confirmed(ctx)
	}
	return f.view.Load(), f.now(), nil
}

// cached returns the target of a tag if its place is cached and valid.
func (f *Fleet) cached(v *view, began int64, tag string) (target, bool) {
	if place := f.places.get(tag); place != nil && place.holds(v, began) {
		return target{v.partitions[place.home], began, place}, true
	}
	return target{}, false
}

// locate returns the target of a command with a tag. A write places a tag that has no
// place yet; a read of such a tag goes to the partition that would own it.
func (f *Fleet) locate(ctx context.Context, tag string, write bool) (target, error) {
	v, began, err := f.permitted(ctx, write)
	if err != nil {
		return target{}, err
	}
	if t, ok := f.cached(v, began, tag); ok {
		return t, nil
	}
	targets, err := f.locateAll(ctx, []string{tag}, []bool{write})
	if err != nil {
		return target{}, err
	}
	return targets[0], nil
}

// locateAll returns the targets of several commands. It searches for unknown tags in
// parallel, for each once. Only then it reads the clock for all of them: ReplyTimeout
// begins when the commands are sent.
func (f *Fleet) locateAll(ctx context.Context, tags []string, writes []bool) ([]target, error) {
	targets := make([]target, len(tags))
	write := slices.Contains(writes, true)
	var found map[string]target // by this call; not all results are cached
	for range maxFinds {
		v, began, err := f.permitted(ctx, write)
		if err != nil {
			return nil, err
		}
		var unknown map[string]bool // whether the tag is written
		for i, tag := range tags {
			t, known := f.cached(v, began, tag)
			if !known {
				if t, known = found[tag]; known && writes[i] {
					t, known = t.renewed(v, began, len(tags) == 1)
				}
			}
			if targets[i] = t; known {
				continue
			}
			if unknown == nil {
				unknown = map[string]bool{}
			}
			unknown[tag] = unknown[tag] || writes[i]
		}
		if len(unknown) == 0 {
			return targets, nil
		}
		if found == nil {
			found = map[string]target{}
		}
		if err := f.searchEach(ctx, unknown, found); err != nil {
			return nil, err
		}
	}
	return nil, errFinding
}

// searchEach adds the targets of tags to found, or returns the first error.
func (f *Fleet) searchEach(ctx context.Context, tags map[string]bool, found map[string]target) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var mu sync.Mutex
	var searches sync.WaitGroup
	slots := make(chan struct{}, locateParallel)
	for tag, write := range tags {
		slots <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		searches.Go(func() {
			defer func() { <-slots }()
			t, err := f.search(ctx, tag, write)
			if err != nil {
				cancel(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			found[tag] = t
		})
	}
	searches.Wait()
	return context.Cause(ctx)
}

// search finds a tag, or places it for a write. It repeats that while the tag is being moved,
// or while the map is too old to place it: adding partitions delays new tags.
func (f *Fleet) search(ctx context.Context, tag string, write bool) (t target, err error) {
	waited := retry.Policy{Max: 20 * time.Millisecond}.Do(ctx, func(int) error {
		var v *view
		var began int64
		var found Location
		if v, began, err = f.permitted(ctx, write); err != nil {
			return nil //nolint:nilerr // it is returned below, and not tried again
		}
		found, err = f.find(ctx, v, tag, write)
		switch {
		case errors.Is(err, errMoving):
			return err
		case errors.Is(err, errOld):
			return ErrUnavailable.Errorf("partitions are being added, and new tags cannot be placed yet").Wrap(f.refresh(ctx))
		case err != nil:
		case found.How == Nowhere:
			t = target{p: v.partitions[found.Partition]}
		default:
			place := found.placement(v, began)
			if !found.once {
				f.places.put(tag, place)
			}
			t = target{v.partitions[place.home], began, place}
		}
		return nil //nolint:nilerr // as above
	})
	if waited != nil {
		err = waited
	}
	return t, err
}

// renewed returns a target that was found earlier with a new permission to write, if it is
// still valid. A tag that is about to be moved must be looked up shortly before each write:
// the time of the search counts, and searches for others may leave too little for the write.
func (t target) renewed(v *view, began int64, alone bool) (target, bool) {
	longest := v.replyTimeout
	if !alone {
		longest /= 4
	}
	switch {
	case t.place == nil:
		return t, t.p.v == v
	case t.place.leaving:
		return t, t.place.holds(v, began) && began-t.began <= longest
	case t.place.holds(v, began):
		return target{v.partitions[t.place.home], began, t.place}, true
	}
	return target{}, false
}
