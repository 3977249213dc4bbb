package rebalance

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/redis/retry"
)

// item is one tag to be moved, or one that an earlier call has not finished.
type item struct {
	tag string
	trip
	via   int   // the partition whose record says where the tag is, or unknown
	err   error // why the tag is kept
	other *item // an earlier move of the tag, to be taken over, finished or dropped
	back  bool  // the partition where the tag is went back in time

	begun    bool // there may be marks of it
	doubtful bool // it may have arrived
	arrived  bool

	found   string   // the record at to before the claim
	claimed string   // the claim
	chunks  int      // that the claim counts
	keys    []string // nil if they are not known
	whole   bool     // all keys are copied
	copies  int64    // keys that were copied
	bytes   int64
	frozen  time.Time
	pause   time.Duration

	goneText string // the record at from after the flip
}

// unknown is the partition whose record says where a tag is, before it is looked up.
const unknown = -1

// forwarded reports whether the tag is found by the record of a third partition.
func (it *item) forwarded() bool { return it.via != unknown && it.via != it.from && it.via != it.to }

func (it *item) coming() bool { return it.err == nil && !it.arrived }
func (it *item) stuck() bool  { return it.begun && !it.arrived }

func filter(items []*item, keep func(*item) bool) []*item {
	return slices.DeleteFunc(slices.Clone(items), func(it *item) bool { return !keep(it) })
}

// byPartition groups items by one end of their trips.
func byPartition(items []*item, end func(*item) int) map[int][]*item {
	groups := map[int][]*item{}
	for _, it := range items {
		groups[end(it)] = append(groups[end(it)], it)
	}
	return groups
}

func from(it *item) int { return it.from }
func to(it *item) int   { return it.to }

// waveSize is how many tags are prepared together, which takes ten seconds.
const waveSize = 10_000

// job is one call.
type job struct {
	*Mover
	run    string
	items  []*item
	began  time.Time
	copied time.Time // when copying began

	report Report
	pauses []time.Duration

	tidying sync.WaitGroup // behind the previous batch
	untidy  error
}

// carry moves all items, after the moves that earlier calls have not finished. If these cannot
// be finished, it moves the items all the same: writers of some may wait.
func (m *Mover) carry(ctx context.Context, items, unfinished []*item) (Report, error) {
	j := &job{Mover: m, run: rand.Text(), items: items, began: time.Now()}
	j.untidy = m.tidy(ctx, unfinished)
	var err error
	for wave := range slices.Chunk(items, max(waveSize, m.cfg.Batch)) {
		if err == nil {
			err = j.wave(ctx, wave)
		}
	}
	j.tidying.Wait()
	for _, it := range items {
		if it.err != nil && !it.arrived {
			j.report.Kept = append(j.report.Kept, Kept{it.tag, it.err})
		}
	}
	if slices.Sort(j.pauses); len(j.pauses) > 0 {
		j.report.MedianPause = j.pauses[len(j.pauses)/2]
	}
	j.report.Took = time.Since(j.began)
	return j.report, errors.Join(err, j.untidy)
}

// wave prepares tags, and then moves them in batches.
func (j *job) wave(ctx context.Context, items []*item) (err error) {
	items, err = j.find(ctx, items)
	if err != nil || len(items) == 0 {
		return err
	}
	defer func() { j.release(ctx, items, err) }()
	if err := eachItem(ctx, items, func(it *item) error { return j.leave(ctx, it) }); err != nil {
		return err
	}
	ready := time.Now().Add(j.times().remembered)
	if err := eachItem(ctx, filter(items, (*item).coming), func(it *item) error { return j.claim(ctx, it) }); err != nil {
		return err
	}
	if err := j.sweep(ctx, filter(items, (*item).coming)); err != nil {
		return err
	}
	if err := j.wait(ctx, "until forgotten", time.Until(ready)); err != nil {
		return err
	}
	coming := filter(items, (*item).coming)
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

// batch moves tags of one partition. Their writers wait from freeze to flip.
func (j *job) batch(ctx context.Context, items []*item) error {
	source, groups := items[0].from, byPartition(items, to)
	for partition := range groups {
		if err := j.room(ctx, partition); err != nil {
			return err
		}
	}
	if j.copied.IsZero() {
		j.copied = time.Now()
	}
	epoch := j.epoch(source)
	err := j.freeze(ctx, source, items)
	if err == nil {
		err = j.copyAll(ctx, source, items)
	}
	// Writers wait. So tags that are copied whole arrive even if others failed, unless the
	// caller's context has ended.
	late, cancel := j.late(ctx)
	defer cancel()
	if ctx.Err() == nil {
		for partition, items := range groups {
			err = errors.Join(err, j.arrive(late, epoch, partition, items))
		}
	}
	j.release(late, items, err)
	j.done(ctx, filter(items, func(it *item) bool { return it.arrived }))
	if err == nil {
		err = j.rest(ctx)
	}
	return err
}

// freeze makes writers wait, and returns when no write in flight can succeed.
func (j *job) freeze(ctx context.Context, partition int, items []*item) error {
	err := eachItem(ctx, items, func(it *item) error {
		it.frozen = time.Now()
		return j.exchange(ctx, "freeze", partition, it.tag, it.leaving(), it.moving())
	})
	if err != nil {
		return err
	}
	if err := j.wait(ctx, "until written", j.times().inFlight); err != nil {
		return err
	}
	// A master that takes over from here on has the mark.
	return j.secure(ctx, "secure freeze", partition)
}

// copyAll copies the keys of the tags.
func (j *job) copyAll(ctx context.Context, partition int, items []*item) error {
	items = filter(items, (*item).coming)
	keys, err := j.keysOf(ctx, partition, items)
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

// arrive lets tags that were copied to a partition be there, and sends clients to it.
func (j *job) arrive(ctx context.Context, epoch int64, partition int, items []*item) error {
	items = filter(items, func(it *item) bool { return it.coming() && it.whole })
	if len(items) == 0 {
		return nil
	}
	if err := j.secure(ctx, "secure copy", partition); err != nil {
		return err
	}
	err := eachItem(ctx, items, func(it *item) error {
		if err := j.verify(ctx, it, epoch); err != nil {
			return err
		}
		it.doubtful = true
		if err := j.exchange(ctx, "arrive", it.to, it.tag, it.claimed, it.trip.arrived()); err != nil {
			return err
		}
		it.arrived = true
		return nil
	})
	return errors.Join(err, j.depart(ctx, filter(items, func(it *item) bool { return it.arrived })))
}

// verify makes sure that all of a tag was read from a master that made writers wait, and
// that still does.
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
		}
		return nil
	})
}

// done reports tags that have arrived, and cleans up behind them while the next batch
// moves.
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

// rest waits until the bytes copied so far are within Config.Rate.
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

// eachItem does something for each item. An item that is refused is kept; any other error
// ends it.
func eachItem(ctx context.Context, items []*item, do func(*item) error) error {
	return each(ctx, items, func(it *item) error {
		err := do(it)
		if errors.Is(err, ErrTaken) || errors.Is(err, ErrUnknown) {
			it.err, err = err, nil
		}
		return err
	})
}

// each does something for each value, for 16 at a time. After an error it begins no other.
func each[T any](ctx context.Context, values []T, do func(T) error) error {
	failed, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var working sync.WaitGroup
	slots := make(chan struct{}, 16)
	for _, v := range values {
		slots <- struct{}{}
		if failed.Err() != nil {
			break
		}
		working.Go(func() {
			defer func() { <-slots }()
			if err := do(v); err != nil {
				fail(err)
			}
		})
	}
	working.Wait()
	return context.Cause(failed)
}

func ignoreTaken(err error) error {
	if errors.Is(err, ErrTaken) {
		return nil
	}
	return err
}
