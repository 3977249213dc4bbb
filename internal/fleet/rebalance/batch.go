package rebalance

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/retry"
)

// batch moves tags of one partition. Writers for them wait from freeze until they
// have arrived.
func (j *job) batch(ctx context.Context, items []*item) error {
	from, places := items[0].from, map[int]bool{}
	for _, it := range items {
		places[it.to] = true
	}
	for to := range places {
		if err := j.room(ctx, to); err != nil {
			return err
		}
	}
	if j.copied.IsZero() {
		j.copied = time.Now()
	}
	epoch := j.epoch(from)
	err := j.freeze(ctx, from, items)
	if err == nil {
		err = j.bring(ctx, from, items)
	}
	// Writers wait, so what is whole is brought to an end whatever went wrong with the
	// rest, and that is undone; if the caller has gone, all of it.
	late, cancel := j.late(ctx)
	defer cancel()
	if ctx.Err() == nil {
		for to := range places {
			err = errors.Join(err, j.arrive(late, epoch, to, items))
		}
	}
	j.release(late, items)
	j.done(ctx, inState(items, arrived))
	if err == nil {
		err = j.rest(ctx)
	}
	return err
}

// freeze has writers wait, and returns when no write that was under way can be a
// success any more.
func (j *job) freeze(ctx context.Context, from int, items []*item) error {
	err := eachItem(ctx, items, func(it *item) error {
		it.since, it.state = time.Now(), frozen
		return j.exchange(ctx, "freeze", from, it.tag, it.leaving(), it.moving())
	})
	if err != nil {
		return err
	}
	if err := j.wait(ctx, "until written", j.times().underWay); err != nil {
		return err
	}
	// A master that takes over from here on knows that writers wait.
	return j.secure(ctx, "secure freeze", from)
}

// bring copies all that the tags have.
func (j *job) bring(ctx context.Context, from int, items []*item) error {
	items = inState(items, frozen)
	keys, err := j.keysOf(ctx, from, tags(items))
	if err != nil {
		return err
	}
	return eachItem(ctx, items, func(it *item) error {
		it.keys = keys[it.tag]
		err := j.copy(ctx, it)
		it.whole = err == nil
		return err
	})
}

// arrive has the tags that were copied to a place be there, and sends everybody to
// it.
func (j *job) arrive(ctx context.Context, epoch int64, to int, items []*item) error {
	whole := slices.DeleteFunc(inState(items, frozen), func(it *item) bool { return it.to != to || !it.whole })
	if len(whole) == 0 {
		return nil
	}
	if err := j.secure(ctx, "secure copy", to); err != nil {
		return err
	}
	err := eachItem(ctx, whole, func(it *item) error {
		if err := j.verify(ctx, it, epoch); err != nil {
			return err
		}
		it.state = doubtful
		if err := j.exchange(ctx, "arrive", it.to, it.tag, it.claimed, it.arrived()); err != nil {
			return err
		}
		it.state = arrived
		return nil
	})
	there := inState(whole, arrived)
	if len(there) == 0 {
		return err
	}
	if failed := j.secure(ctx, "secure arrival", to); failed != nil {
		return errors.Join(err, failed)
	}
	return errors.Join(err, eachItem(ctx, there, func(it *item) error { return j.flip(ctx, it) }))
}

// verify makes sure that all of a tag was read from a master that knew that writers
// wait, and that it still does.
func (j *job) verify(ctx context.Context, it *item, epoch int64) error {
	return j.step("verify", it.tag, func() error {
		text, _, err := j.read(ctx, it.from, it.tag)
		switch {
		case err != nil:
			return err
		case text != it.moving():
			return ErrTaken.Errorf("the record of %q in partition %d is %q by now", it.tag, it.from, text)
		case j.epoch(it.from) != epoch:
			return replaced(it.from)
		default:
			return nil
		}
	})
}

// flip sends everybody from the old place to the new one.
func (j *job) flip(ctx context.Context, it *item) error {
	err := j.exchange(ctx, "flip", it.from, it.tag, it.moving(), it.gone())
	it.pause = time.Since(it.since)
	return err
}

// done reports tags that have arrived, and puts in order what they leave behind,
// while the next batch is under way.
func (j *job) done(ctx context.Context, items []*item) {
	j.tidying.Wait()
	if len(items) == 0 {
		return
	}
	r := &j.report
	for _, it := range items {
		r.Tags++
		r.Keys += it.copies
		r.Bytes += it.bytes
		r.LongestPause = max(r.LongestPause, it.pause)
		j.pauses = append(j.pauses, it.pause)
	}
	j.cfg.Progress(Progress{Tags: r.Tags, Of: len(j.items), Keys: r.Keys, Bytes: r.Bytes, LongestPause: r.LongestPause})
	j.tidying.Go(func() {
		late, cancel := j.late(ctx)
		defer cancel()
		j.untidy = errors.Join(j.untidy, j.tidy(late, items))
	})
}

// rest waits until what was copied is no more than Config.Rate allows.
func (j *job) rest(ctx context.Context) error {
	if j.cfg.Rate == 0 {
		return context.Cause(ctx)
	}
	due := time.Duration(float64(j.report.Bytes) / float64(j.cfg.Rate) * float64(time.Second))
	if !retry.Sleep(ctx, time.Until(j.copied.Add(due))) {
		return context.Cause(ctx)
	}
	return nil
}
