package fleet

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/fleet/members"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/redis/script"
)

// ErrInUse means that tags were not forgotten because they have keys, or were written
// meanwhile.
var ErrInUse = &millrace.Error{
	Code:    "in_use",
	Message: "tags are in use and were not forgotten",
	Hint:    "Delete what they have first, and forget them again.",
}

// stillUsed returns ErrInUse, which names a few of the tags.
func stillUsed(tags []string) error {
	const most = 5
	if len(tags) > most {
		return ErrInUse.Wrap(fmt.Errorf("%q and %d more", tags[:most], len(tags)-most))
	}
	return ErrInUse.Wrap(fmt.Errorf("%q", tags))
}

// Forget removes the places of tags that have no keys any more. A tag that is used
// again is new, and gets a new place.
//
// It takes a little longer than the fleet's PlacementTTL, 10 seconds, and scans all keys
// of the partitions concerned once: pass all tags in one call. Tags that have keys, or
// are written meanwhile, keep their places: they are returned, sorted, with ErrInUse.
func (f *Fleet) Forget(ctx context.Context, tags ...string) (inUse []string, err error) {
	// First every tag is marked. A writer from now on removes the mark, unless it has the
	// place cached, for PlacementTTL at most. After that and ReplyTimeout all keys of such
	// writers are visible.
	token := rand.Text()
	marked := map[string]Location{}
	for _, tag := range tags {
		l, err := f.mark(ctx, tag, token)
		if err != nil {
			return nil, err
		}
		if l.How != Nowhere {
			marked[tag] = l
		}
	}
	if len(marked) == 0 {
		return nil, nil
	}
	set := f.view.Load().m.Settings.Effective()
	if !retry.Sleep(ctx, (set.PlacementTTL+set.ReplyTimeout)*11/10) {
		return nil, context.Cause(ctx)
	}
	used, err := f.used(ctx, marked)
	if err != nil {
		return nil, err
	}
	for tag, l := range marked {
		if slices.Contains(used, tag) {
			continue
		}
		kept, err := f.unplace(ctx, tag, l, token)
		if err != nil {
			return nil, err
		}
		if kept {
			used = append(used, tag)
		}
	}
	if len(used) > 0 {
		slices.Sort(used)
		return used, stillUsed(used)
	}
	return nil, nil
}

// mark marks the records of a tag: first the one that leads to it, then the one on its
// partition.
func (f *Fleet) mark(ctx context.Context, tag, token string) (Location, error) {
	v, _, err := f.confirmed(ctx)
	if err != nil {
		return Location{}, err
	}
	l, err := f.find(ctx, v, tag, false)
	if err != nil || l.How == Nowhere {
		return l, err
	}
	f.places.drop(tag)
	for _, id := range slices.Compact([]int{l.Record, l.Partition}) {
		p := v.partitions[id]
		r, found, sure, err := p.lookUp(ctx, tag)
		switch {
		case err != nil:
			return l, err
		case !sure:
			return l, errUnsure(id)
		case !found:
			continue
		case r.Mark == members.Leaving || r.Mark == members.Moving:
			return l, ErrUnavailable.Errorf("the tag is being moved")
		}
		// If the record has changed meanwhile, the tag is in use.
		if _, err := p.exchange(ctx, tag, r.String(), members.Record{Home: r.Home, Mark: members.Forgetting, Token: token}.String()); err != nil {
			return l, err
		}
	}
	return l, nil
}

// unplace removes the records of a tag in the same order, unless it is in use again.
func (f *Fleet) unplace(ctx context.Context, tag string, l Location, token string) (kept bool, err error) {
	v, _, err := f.confirmed(ctx)
	if err != nil {
		return false, err
	}
	for _, id := range slices.Compact([]int{l.Record, l.Partition}) {
		gone, err := v.partitions[id].exchange(ctx, tag, members.Record{Home: l.Partition, Mark: members.Forgetting, Token: token}.String(), "")
		if err != nil || !gone {
			return true, err
		}
	}
	return false, nil
}

// exchange replaces the record of a tag if it is before; an empty text means no
// record. It reports whether the record is after by now.
func (p *partition) exchange(ctx context.Context, tag, before, after string) (bool, error) {
	outcome, _, err := p.run(ctx, "exchange", tag, before, after)
	return outcome == "exchanged", err
}

// used returns the tags that have keys.
func (f *Fleet) used(ctx context.Context, marked map[string]Location) ([]string, error) {
	before, _, err := f.confirmed(ctx)
	if err != nil {
		return nil, err
	}
	on := map[int]bool{}
	for _, l := range marked {
		on[l.Partition] = true
	}
	var mu sync.Mutex
	found := map[string]bool{}
	var failed error
	var scanning sync.WaitGroup
	for id := range on {
		scanning.Go(func() {
			for key, err := range script.Scan(ctx, f.partition(id), "*") {
				mu.Lock()
				failed = errors.Join(failed, err)
				if _, isRecord := members.RecordedTag(key); !isRecord && err == nil {
					if _, ok := marked[Tag(key)]; ok {
						found[Tag(key)] = true
					}
				}
				mu.Unlock()
			}
		})
	}
	scanning.Wait()
	if failed != nil {
		return nil, failed
	}
	// A master that was replaced meanwhile may not have returned all keys.
	after, _, err := f.confirmed(ctx)
	if err != nil {
		return nil, err
	}
	for id := range on {
		if before.partitions[id].Epoch != after.partitions[id].Epoch {
			return nil, ErrUnavailable.Errorf("partition %d got another master during the scan of its keys", id)
		}
	}
	return slices.Collect(maps.Keys(found)), nil
}
