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
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/redis/script"
	"github.com/millrace/millrace/ring"
)

// view is a map, and the data derived from it. Only its field confirmed changes.
type view struct {
	m          *directory.Map
	ring       *ring.Ring
	partitions []*partition

	viewTTL, replyTimeout, placementTTL int64 // in nanoseconds

	confirmed atomic.Int64 // when the last request was sent that confirmed the map
}

// fresh reports whether a client may write by the view at that time. This is half of the
// fence; the other half is in target.write.
func (v *view) fresh(now int64) bool { return now-v.confirmed.Load() < v.viewTTL }

// counts returns until when replies of the view's masters count: an agent that replaces
// one waits for ViewTTL and ReplyTimeout after the last confirmation.
func (v *view) counts() int64 { return v.confirmed.Load() + v.viewTTL + v.replyTimeout }

// never is a time of confirmation that makes no view fresh.
const never = -1 << 62

// confirmed returns a view by which the caller may write, and the time of that
// permission, from which ReplyTimeout counts. If the present view is not fresh, it asks
// the directory.
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
		return nil, 0, ErrReadOnly.Errorf("the directory did not confirm the fleet's map").Wrap(err)
	}
}

// maxAsksPerTTL is how often the directory is asked within ViewTTL at most.
const maxAsksPerTTL = 20

// jittered returns a time from 0.5 d to 1.5 d, so that a thousand processes do not ask
// at the same time.
func jittered(d time.Duration) time.Duration { return d/2 + rand.N(max(d, 1)) }

// follow asks the directory three times within ViewTTL, so that the fence stays open when
// two confirmations fail, and more often if it does not answer.
func (f *Fleet) follow() {
	var err error
	writable := true // when that was last logged
	for {
		ttl := time.Duration(f.view.Load().viewTTL)
		pause := ttl*7/25 + rand.N(ttl/10) // 0.28 to 0.38
		if err != nil {
			pause = jittered(ttl / maxAsksPerTTL)
		}
		if !retry.Sleep(f.ended, pause) {
			return
		}
		err = f.refresh(f.ended)
		if now := f.view.Load().fresh(f.now()); now != writable && f.ended.Err() == nil {
			if writable = now; writable {
				f.cfg.Logger.Info("the fleet takes writes again: its directory confirms the map")
			} else {
				f.cfg.Logger.Warn("the fleet is read-only: its directory does not confirm the map", "error", err)
			}
		}
	}
}

// flight is a request to the directory that several callers share.
type flight struct {
	done chan struct{}
	err  error
}

// refresh asks the directory to confirm the view, or for a newer map. Callers at the
// same time share one request.
func (f *Fleet) refresh(ctx context.Context) error {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return ErrClosed
	}
	flying := f.flight
	if flying == nil {
		flying = &flight{done: make(chan struct{})}
		f.flight = flying
		f.following.Go(func() {
			f.pace()
			flying.err = f.ask()
			f.mu.Lock()
			f.flight = nil
			f.mu.Unlock()
			close(flying.done)
		})
	}
	f.mu.Unlock()
	select {
	case <-flying.done:
		return flying.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// pace limits the rate of requests. While a partition is down each call has a reason
// to ask, and a thousand processes could overload the directory.
func (f *Fleet) pace() {
	if v := f.view.Load(); v != nil {
		retry.Sleep(f.ended, time.Duration(f.mayAsk.Load()-f.now()))
		f.mayAsk.Store(f.now() + int64(jittered(time.Duration(v.viewTTL)/maxAsksPerTTL)))
	}
}

// refreshSoon starts a refresh, and does not wait for it.
func (f *Fleet) refreshSoon() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = f.refresh(ctx)
}

// ask asks the directory to confirm the map. If it cannot, it may still have a newer map to
// read, which is good for reads.
func (f *Fleet) ask() error {
	ttl, epoch := directory.DefaultViewTTL, int64(0)
	old := f.view.Load()
	if old != nil {
		ttl, epoch = time.Duration(old.viewTTL), old.m.Epoch
	}
	// The error must not look like the end of a caller's context: callers may retry.
	silent := fmt.Errorf("it did not answer within %v", ttl)
	asked := f.now()
	ctx, cancel := context.WithTimeoutCause(f.ended, ttl, silent)
	defer cancel()
	m, err := f.dir.Confirm(ctx, epoch)
	if err == nil && m == nil {
		old.confirmed.Store(asked)
		return nil
	}
	if err != nil {
		asked = never
		ctx, cancel := context.WithTimeoutCause(f.ended, ttl, silent)
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
		return directory.ErrMap.Errorf("the directory has another fleet now")
	}
	if failed := f.adopt(m, asked); failed != nil {
		return failed
	}
	return err
}

// adopt replaces the view by one of m.
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
	for i := range m.Partitions {
		v.partitions = append(v.partitions, f.newPartition(v, &m.Partitions[i], kept))
	}
	for addr := range maps.Keys(f.members) {
		if kept[addr] == nil {
			// Closing waits for the calls in flight.
			f.following.Go(f.members[addr].close)
		}
	}
	f.members = kept
	old := f.view.Load()
	if old != nil {
		for _, p := range old.partitions {
			if !p.in(v) {
				until := old.counts()
				p.term.until.Store(until)
				time.AfterFunc(time.Duration(until-f.now()), p.term.end)
			}
		}
	}
	f.view.Store(v)
	return nil
}

// ringOf returns the ring of a map. Most changes leave the ring as it is.
func (f *Fleet) ringOf(m *directory.Map) (*ring.Ring, error) {
	if old := f.view.Load(); old != nil && slices.Equal(old.m.Points, m.Points) {
		return old.ring, nil
	}
	return m.Ring()
}

// newPartition returns a partition with the members of a view, known and new ones.
func (f *Fleet) newPartition(v *view, p *directory.Partition, kept map[string]*member) *partition {
	made := &partition{Partition: p, f: f, v: v}
	if old := f.view.Load(); old != nil && p.ID < len(old.partitions) {
		if was := old.partitions[p.ID]; was.Epoch == p.Epoch && was.ReadOnly == p.ReadOnly {
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
		m.run.Store(&d.Run)
		kept[d.Addr] = m
		made.members = append(made.members, m)
	}
	made.runner = &script.Runner{
		Client:  &client{f: f, partition: p.ID, spread: slices.ContainsFunc(p.Replicas, func(r directory.Member) bool { return !r.Down })},
		Scripts: f.scripts,
		Retry:   retry.Policy{Timeout: time.Duration(v.viewTTL)},
	}
	return made
}
