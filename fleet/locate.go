package fleet

import (
	"context"
	"slices"
	"sync"
)

// locateParallel is how many tags one call searches for at the same time.
const locateParallel = 16

// locateAll returns the targets of several commands. Unknown tags are searched for in
// parallel, each once. Only then is the clock read for all of them: ReplyTimeout begins
// when the commands are sent.
func (f *Fleet) locateAll(ctx context.Context, tags []string, writes []bool) ([]target, error) {
	targets := make([]target, len(tags))
	write := slices.Contains(writes, true)
	var found map[string]target // by this call; the cache may be too small for all
	for range maxFinds {
		v, began := f.view.Load(), f.now()
		if write {
			var err error
			if v, began, err = f.confirmed(ctx); err != nil {
				return nil, err
			}
		}
		var unknown map[string]bool // whether the tag is written
		for i, tag := range tags {
			if place := f.places.get(tag); place != nil && place.holds(v, began) {
				targets[i] = target{v.partitions[place.home], began, place}
			} else if t, ok := found[tag]; ok && t.holds(v, began) {
				targets[i] = t.at(v, began)
			} else {
				if unknown == nil {
					unknown = map[string]bool{}
				}
				unknown[tag] = unknown[tag] || writes[i]
			}
		}
		if len(unknown) == 0 {
			return targets, nil
		}
		if found == nil {
			found = make(map[string]target, len(unknown))
		}
		if err := f.locateEach(ctx, unknown, found); err != nil {
			return nil, err
		}
	}
	return nil, errFinding
}

// locateEach adds the targets of tags to found, or returns the first error.
func (f *Fleet) locateEach(ctx context.Context, tags map[string]bool, found map[string]target) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var mu sync.Mutex
	var finding sync.WaitGroup
	slots := make(chan struct{}, locateParallel)
	for tag, write := range tags {
		slots <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		finding.Go(func() {
			defer func() { <-slots }()
			t, err := f.locate(ctx, tag, write)
			if err != nil {
				cancel(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			found[tag] = t
		})
	}
	finding.Wait()
	return context.Cause(ctx)
}

// holds reports whether a target that was found earlier is still valid. A tag that is
// about to be moved must be looked up shortly before each write.
func (t target) holds(v *view, now int64) bool {
	switch {
	case t.place == nil:
		return t.p.v == v
	case t.place.leaving && now-t.began > v.replyTimeout/4:
		return false
	default:
		return t.place.holds(v, now)
	}
}

// at returns the target with a new permission to write.
func (t target) at(v *view, began int64) target {
	if t.place == nil || t.place.leaving {
		return t
	}
	return target{v.partitions[t.place.home], began, t.place}
}
