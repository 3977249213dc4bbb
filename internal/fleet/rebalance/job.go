package rebalance

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"sync"
	"time"
)

// state is how far the move of a tag is, by the records that there are.
type state int

const (
	untouched state = iota
	leaving         // from: leaving
	claimed         // from: leaving; to: claim
	frozen          // from: moving; to: claim
	doubtful        // from: moving; to: claim or arrived
	arrived         // from: moving or gone; to: arrived
)

// item is one tag to be moved.
type item struct {
	tag string
	trip
	state state
	via   int    // the partition whose record says where the tag is
	err   error  // why it was kept
	other *item  // an earlier move of the tag, which is to be finished first
	stale *claim // of an earlier move, which is to be undone first

	found   string // the record at to before the claim
	claimed string // the claim
	chunks  int    // that are there
	whole   bool   // whether all are
	keys    []string
	copies  int64 // keys that were copied
	bytes   int64
	since   time.Time // when it was frozen
	pause   time.Duration

	goneText string // the record at from after it has arrived
}

// sentOn reports whether the tag is found by the record of a third partition.
func (it *item) sentOn() bool { return it.via != it.from && it.via != it.to }

// waveSize is how many tags are made ready together, which takes ten seconds.
const waveSize = 10_000

// job is what one call does.
type job struct {
	*Mover
	run    string
	items  []*item
	began  time.Time
	copied time.Time // since when data is copied

	report Report
	pauses []time.Duration

	tidying sync.WaitGroup // after the batch before
	untidy  error
}

// carry moves all items, after what earlier calls have left of others is finished.
func (m *Mover) carry(ctx context.Context, items, unfinished []*item) (Report, error) {
	j := &job{Mover: m, run: rand.Text(), items: items, began: time.Now()}
	err := m.tidy(ctx, unfinished)
	for wave := range slices.Chunk(items, max(waveSize, m.cfg.Batch)) {
		if err == nil {
			err = j.wave(ctx, wave)
		}
	}
	j.tidying.Wait()
	for _, it := range items {
		if it.err != nil && it.state != arrived {
			j.report.Kept = append(j.report.Kept, Kept{it.tag, it.err})
		}
	}
	if slices.Sort(j.pauses); len(j.pauses) > 0 {
		j.report.MedianPause = j.pauses[len(j.pauses)/2]
	}
	j.report.Took = time.Since(j.began)
	return j.report, errors.Join(err, j.untidy)
}

// wave makes tags ready, and then moves them in batches.
func (j *job) wave(ctx context.Context, items []*item) error {
	items, err := j.find(ctx, items)
	if err != nil || len(items) == 0 {
		return err
	}
	defer func() { j.release(ctx, items) }()
	if err := eachItem(ctx, items, func(it *item) error { return j.leave(ctx, it) }); err != nil {
		return err
	}
	ready := time.Now().Add(j.times().remembered)
	coming := inState(items, leaving)
	if err := eachItem(ctx, coming, func(it *item) error { return j.claim(ctx, it) }); err != nil {
		return err
	}
	if err := j.sweep(ctx, inState(coming, claimed)); err != nil {
		return err
	}
	if err := j.wait(ctx, "until forgotten", time.Until(ready)); err != nil {
		return err
	}
	coming = inState(coming, claimed)
	slices.SortStableFunc(coming, func(a, b *item) int { return cmp.Compare(a.from, b.from) })
	for len(coming) > 0 {
		n := 1
		for n < min(len(coming), j.cfg.Batch) && coming[n].from == coming[0].from {
			n++
		}
		if err := j.batch(ctx, coming[:n]); err != nil {
			return err
		}
		coming = coming[n:]
	}
	return nil
}

// inState returns those of the items that are so far, and not to be kept.
func inState(items []*item, s state) []*item {
	return slices.DeleteFunc(slices.Clone(items), func(it *item) bool { return it.state != s || it.err != nil })
}

// eachItem does something for each item, several at the same time. An item that is
// refused is kept; any other error ends it.
func eachItem(ctx context.Context, items []*item, do func(*item) error) error {
	return each(ctx, items, func(it *item) error {
		err := do(it)
		if errors.Is(err, ErrTaken) || errors.Is(err, ErrUnknown) {
			it.err, err = err, nil
		}
		return err
	})
}

// each does something for each of several, some at the same time. An error ends it,
// when what is under way has ended.
func each[T any](ctx context.Context, all []T, do func(T) error) error {
	next := make(chan T)
	failed, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var working sync.WaitGroup
	for range min(atOnce, len(all)) {
		working.Go(func() {
			for one := range next {
				if err := do(one); err != nil {
					fail(err)
				}
			}
		})
	}
	for _, one := range all {
		if failed.Err() != nil {
			break
		}
		next <- one
	}
	close(next)
	working.Wait()
	return context.Cause(failed)
}

// atOnce is how many tags are worked on at the same time.
const atOnce = 16
