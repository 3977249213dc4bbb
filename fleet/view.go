package fleet

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/internal/fleet/directory"
	"github.com/millrace/millrace/internal/retry"
	"github.com/millrace/millrace/internal/script"
	"github.com/millrace/millrace/ring"
)

// view is a map with what is needed to work by it. Only confirmed changes.
type view struct {
	m          *directory.Map
	ring       *ring.Ring
	partitions []*partition

	viewTTL, replyTimeout, placementTTL int64 // in nanoseconds

	confirmed atomic.Int64 // when the last question was asked that confirmed the map
}

// fresh reports whether who looks at the clock now may write by the view.
func (v *view) fresh(now int64) bool { return now-v.confirmed.Load() < v.viewTTL }

// never is a time that makes no view fresh.
const never = -1 << 62

// confirmed returns a view by which the caller may write, and when that was
// looked up: from then on counts for how long a write may take. If the view at
// hand is not fresh, it asks the directory.
func (f *Fleet) confirmed(ctx context.Context) (v *view, began int64, err error) {
	v, began = f.view.Load(), f.now()
	if v.fresh(began) {
		return v, began, nil
	}
	err = f.refresh(ctx)
	v, began = f.view.Load(), f.now()
	switch {
	case v.fresh(began):
		return v, began, nil
	case ctx.Err() != nil:
		return nil, 0, context.Cause(ctx)
	default:
		return nil, 0, ErrReadOnly.Errorf("the directory did not confirm the fleet's map, so nothing can be written").Wrap(err)
	}
}

// mostAsksInLife is how often the directory is asked in the life of a view at most.
const mostAsksInLife = 20

// jittered returns a time between a half and one and a half of d, so that a thousand
// processes do not ask in step.
func jittered(d time.Duration) time.Duration { return d/2 + rand.N(max(d, 1)) }

// follow asks the directory twice in the life of a view, and more often if it does not
// answer.
func (f *Fleet) follow() {
	var err error
	for {
		life := time.Duration(f.view.Load().viewTTL)
		pause := life*7/20 + rand.N(life/5) // 0.35 to 0.55
		if err != nil {
			pause = jittered(life / mostAsksInLife)
		}
		if !retry.Sleep(f.ended, pause) {
			return
		}
		err = f.refresh(f.ended)
		f.tell(err)
	}
}

// tell logs that writing has become impossible, or possible again.
func (f *Fleet) tell(err error) {
	writable := f.view.Load().fresh(f.now())
	f.mu.Lock()
	changed := writable != f.lastTold
	f.lastTold = writable
	f.mu.Unlock()
	switch {
	case !changed || f.ended.Err() != nil:
	case writable:
		f.cfg.Logger.Info("the fleet takes writes again: its directory confirms the map")
	default:
		f.cfg.Logger.Warn("the fleet is read-only: its directory does not confirm the map", "error", err)
	}
}

// flight is a question to the directory, asked once for all who want to know.
type flight struct {
	done chan struct{}
	err  error
}

// refresh has the directory confirm the view, or replaces it. Callers at the same
// time share one question.
func (f *Fleet) refresh(ctx context.Context) error {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return ErrClosed
	}
	one := f.flight
	if one == nil {
		one = &flight{done: make(chan struct{})}
		f.flight = one
		f.following.Go(func() {
			f.pace()
			one.err = f.ask()
			f.mu.Lock()
			f.flight = nil
			f.mu.Unlock()
			close(one.done)
		})
	}
	f.mu.Unlock()
	select {
	case <-one.done:
		return one.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// pace waits until the last question was long enough ago. While a partition is away
// each call has a reason to ask; a directory that a thousand processes ask without a
// rest confirms nothing to anybody in time.
func (f *Fleet) pace() {
	if v := f.view.Load(); v != nil {
		retry.Sleep(f.ended, time.Duration(f.mayAsk.Load()-f.now()))
		f.mayAsk.Store(f.now() + int64(jittered(time.Duration(v.viewTTL)/mostAsksInLife)))
	}
}

// refreshSoon is refresh for who will not wait.
func (f *Fleet) refreshSoon() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = f.refresh(ctx)
}

// ask asks the directory's master, and if that does not answer any server for a
// newer map to read by.
func (f *Fleet) ask() error {
	life, epoch := directory.DefaultViewTTL, int64(0)
	old := f.view.Load()
	if old != nil {
		life, epoch = time.Duration(old.viewTTL), old.m.Epoch
	}
	// That the directory is silent is not the end of anybody's context: whoever waits
	// for the answer may ask again.
	silent := fmt.Errorf("it did not answer within %v", life)
	asked := f.now()
	ctx, cancel := context.WithTimeoutCause(f.ended, life, silent)
	defer cancel()
	m, err := f.dir.Confirm(ctx, epoch)
	if err == nil && m == nil {
		old.confirmed.Store(asked)
		return nil
	}
	if err != nil {
		asked = never
		ctx, cancel := context.WithTimeoutCause(f.ended, life, silent)
		defer cancel()
		var failed error
		if m, failed = f.dir.Load(ctx); failed != nil {
			return err
		}
		if m.Epoch <= epoch {
			return err
		}
	}
	if m.Epoch <= epoch {
		return directory.ErrMap.Errorf("the directory's map has epoch %d, and this process has seen %d", m.Epoch, epoch)
	}
	if old != nil && m.Fleet != old.m.Fleet {
		return directory.ErrMap.Errorf("the directory has another fleet by now")
	}
	if failed := f.adopt(m, asked); failed != nil {
		return failed
	}
	return err
}

// adopt makes m the map to work by.
func (f *Fleet) adopt(m *directory.Map, confirmed int64) error {
	points, err := f.ringOf(m)
	if err != nil {
		return err
	}
	set := m.Settings.Effective()
	v := &view{
		m: m, ring: points,
		viewTTL: int64(set.ViewTTL), replyTimeout: int64(set.ReplyTimeout), placementTTL: int64(set.PlacementTTL),
	}
	v.confirmed.Store(confirmed)

	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return ErrClosed
	}
	kept := map[string]*member{}
	for _, p := range m.Partitions {
		v.partitions = append(v.partitions, f.newPartition(v, p, kept))
	}
	for addr := range maps.Keys(f.members) {
		if kept[addr] == nil {
			// Closing waits for the calls under way.
			f.following.Go(f.members[addr].close)
		}
	}
	f.members = kept
	old := f.view.Load()
	if old != nil {
		for _, p := range old.partitions {
			if !p.in(v) {
				last := old.confirmed.Load()
				p.term.confirmed.Store(last)
				time.AfterFunc(time.Duration(last+old.viewTTL+old.replyTimeout-f.now()), p.term.end)
			}
		}
	}
	f.view.Store(v)
	return nil
}

// ringOf returns the ring of a map, that at hand if the map has the same points: most
// changes are of a master.
func (f *Fleet) ringOf(m *directory.Map) (*ring.Ring, error) {
	if old := f.view.Load(); old != nil && slices.Equal(old.m.Points, m.Points) {
		return old.ring, nil
	}
	return m.Ring()
}

// newPartition returns a partition with connections to its members, those that
// there are and new ones.
func (f *Fleet) newPartition(v *view, p directory.Partition, kept map[string]*member) *partition {
	made := &partition{f: f, v: v, id: p.ID, epoch: p.Epoch, phase: p.Phase, readOnly: p.ReadOnly}
	if old := f.view.Load(); old != nil && p.ID < len(old.partitions) {
		if was := old.partitions[p.ID]; was.epoch == p.Epoch && was.readOnly == p.ReadOnly {
			made.term = was.term
		}
	}
	if made.term == nil {
		made.term = newTerm()
	}
	for _, d := range p.Members() {
		m := f.members[d.Addr]
		if m == nil {
			m = newMember(f, d.Addr)
		}
		kept[d.Addr] = m
		made.members = append(made.members, m)
		made.down = append(made.down, d.Down)
	}
	made.runner = &script.Runner{
		Client:  &client{f: f, by: byPartition{f, p.ID}, close: func() {}, spread: slices.Contains(made.down[1:], false)},
		Scripts: f.scripts,
		Retry:   retry.Policy{Patience: time.Duration(v.viewTTL)},
	}
	return made
}
