package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/retry"
	"github.com/millrace/millrace/internal/screen"
)

const (
	// importer is the tenant who floods, and keeps floodAhead messages waiting, written
	// floodAtOnce at a time.
	importer    = "importer"
	floodAhead  = 2000
	floodAtOnce = 25

	// dawdler is the tenant whose messages are slow.
	dawdler      = "slow"
	slowMessages = 36

	// quietTenants is how many others there are. Each writes again when its last message
	// was handled, and quietPause has gone by, on average.
	quietTenants = 50
	quietPause   = 250 * time.Millisecond

	// queueWorkers is how many children work at a time.
	queueWorkers = 2
)

// An act is a part of the scene.
type act int

const (
	dawdles act = iota // one tenant is slow
	floods             // one tenant floods
)

// queueScene shows that a tenant with much work is not in the way of those with little,
// and neither is one with slow work. All that is written goes to a queue in which all are
// one tenant as well, which the same workers serve in the same way.
func queueScene() scene {
	return scene{
		name:  "queue",
		shows: "one tenant is slow, one floods, fifty wait for neither, and killed workers strand nothing",
		load:  3 * time.Second,
		play:  playQueue,
		child: workOnQueues,
	}
}

// queuePlay is one performance of the scene.
type queuePlay struct {
	*stage
	queues map[side]*fairqueue.Queue
	ledger *ledger

	kills    int
	loading  time.Duration
	draining time.Duration
	last     map[side]fairqueue.Stats
}

func playQueue(ctx context.Context, st *stage) (seen Scene, err error) {
	if st.mimic {
		seen.Skipped = "it floods a queue, and an imitation of Redis is too slow for that"
		return seen, nil
	}
	p := &queuePlay{stage: st, ledger: newLedger(), queues: map[side]*fairqueue.Queue{}, last: map[side]fairqueue.Stats{}}
	for _, s := range []side{fair, line} {
		if p.queues[s], err = s.open(part{client: st.client, name: st.name}); err != nil {
			return seen, err
		}
	}
	defer func() { err = errors.Join(err, p.cleanUp(ctx, p.remove)) }()
	if err := p.perform(ctx); err != nil {
		return seen, err
	}
	return p.judge(), nil
}

// perform makes the load and has it worked off.
func (p *queuePlay) perform(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	crew := p.crew(p.ledger.hear, cancel)
	defer crew.dismiss(ctx)
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel(nil)
	defer func() {
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
	}()

	start := time.Now()
	if _, err := p.write(ctx, dawdles, quietName(0), 1, quickWork); err != nil { // readers of no queue are not counted
		return err
	}
	for range queueWorkers {
		if err := crew.hire(); err != nil {
			return err
		}
	}
	if err := p.until(ctx, start, func() bool {
		return p.last[fair].Capacity == queueWorkers*hands && p.last[line].Capacity == queueWorkers*hands
	}); err != nil {
		return err
	}
	if err := p.beSlow(ctx); err != nil {
		return err
	}
	if err := p.watch(ctx, crew, start, p.flood(ctx, &work, cancel)); err != nil {
		return err
	}
	p.loading = time.Since(start)
	begin := time.Now()
	var stalled stall[[2]int]
	if err := p.until(ctx, start, func() bool {
		left := [2]int{held(p.last[fair]), held(p.last[line])}
		return left == [2]int{} || stalled.lasts(left) // the checks tell what is left
	}); err != nil {
		return err
	}
	p.draining = time.Since(begin)
	crew.dismiss(ctx)
	return nil
}

// beSlow has one tenant write what is slow, and others when that has its share of the
// handlers. It ends when all was handled, so that no worker is killed meanwhile: one that
// was counts as one that may work for 15 seconds.
func (p *queuePlay) beSlow(ctx context.Context) error {
	slow, err := p.write(ctx, dawdles, dawdler, slowMessages, slowWork)
	if err != nil {
		return err
	}
	if err := handled(ctx, slow[:1]); err != nil {
		return err
	}
	for i := range quietTenants {
		one, err := p.write(ctx, dawdles, quietName(i), 1, quickWork)
		if err != nil {
			return err
		}
		slow = append(slow, one...)
	}
	return handled(ctx, slow)
}

func quietName(i int) string { return fmt.Sprintf("quiet %d", i) }

// handled waits until messages were handled.
func handled(ctx context.Context, notes []*note) error {
	for _, m := range notes {
		select {
		case <-m.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// flood starts the tenants, and returns a channel that is closed when all have ended.
func (p *queuePlay) flood(ctx context.Context, work *sync.WaitGroup, failed func(error)) <-chan struct{} {
	loading, stop := context.WithTimeout(ctx, p.duration)
	var all sync.WaitGroup
	tenant := func(do func() error) {
		all.Go(func() {
			if err := do(); err != nil && loading.Err() == nil {
				failed(err)
			}
		})
	}
	tenant(func() error {
		for retry.Sleep(loading, 10*time.Millisecond) {
			written, onFair, inLine := p.ledger.counts()
			if written-min(onFair, inLine) >= floodAhead {
				continue
			}
			if _, err := p.write(ctx, floods, importer, floodAtOnce, quickWork); err != nil {
				return err
			}
		}
		return nil
	})
	for i := range quietTenants {
		tenant(func() error {
			for retry.Sleep(loading, time.Duration(rand.ExpFloat64()*float64(quietPause))) {
				one, err := p.write(ctx, floods, quietName(i), 1, quickWork)
				if err != nil {
					return err
				}
				if err := handled(loading, one); err != nil {
					return err
				}
			}
			return nil
		})
	}
	done := make(chan struct{})
	work.Go(func() {
		all.Wait()
		stop()
		close(done)
	})
	return done
}

// write writes n messages of a tenant to the queue, and to the line.
func (p *queuePlay) write(ctx context.Context, in act, tenant string, n int, work time.Duration) ([]*note, error) {
	numbers, notes := p.ledger.begin(tenant, in, n)
	drafts := make([]fairqueue.Draft, n)
	for _, s := range []side{line, fair} {
		for i, number := range numbers {
			drafts[i] = fairqueue.Draft{Tenant: tenant, Body: noteOf(number, work)}
			if s == line {
				drafts[i].Tenant = "everybody"
			}
		}
		written, err := p.queues[s].WriteBatch(ctx, drafts...)
		if err != nil {
			return nil, fmt.Errorf("write to the queue: %w", err)
		}
		if s == fair {
			p.ledger.wrote(notes, written)
		}
	}
	return notes, nil
}

// watch shows progress and kills workers until the tenants have ended.
func (p *queuePlay) watch(ctx context.Context, crew *crew, start time.Time, loaded <-chan struct{}) error {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	kill := time.NewTimer(untilKill())
	defer kill.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-loaded:
			if p.duration < killBefore || p.kills > 0 {
				return nil
			}
			loaded = nil // a kill is due
		case <-kill.C:
			crew.killOne()
			p.kills++
			if err := crew.hire(); err != nil {
				return err
			}
			if loaded == nil {
				return nil
			}
			kill.Reset(untilKill())
		case <-tick.C:
			if err := p.look(ctx, start); err != nil {
				return err
			}
		}
	}
}

// until shows progress until the queues are as wanted.
func (p *queuePlay) until(ctx context.Context, start time.Time, reached func() bool) error {
	for {
		if err := p.look(ctx, start); err != nil {
			return err
		}
		if reached() {
			return nil
		}
		if !retry.Sleep(ctx, watchEvery/4) {
			return context.Cause(ctx)
		}
	}
}

// look asks the queues how they are and shows it.
func (p *queuePlay) look(ctx context.Context, start time.Time) error {
	for s, q := range p.queues {
		now, err := q.Stats(ctx)
		if err != nil {
			return err
		}
		p.last[s] = now
	}
	written, onFair, inLine := p.ledger.counts()
	p.screen.Show(screen.Frame{
		Title: "queue",
		Done:  min(time.Since(start), p.duration),
		Whole: p.duration,
		Rows: [][]string{
			{grouped(written) + " messages", grouped(onFair) + " handled", grouped(inLine) + " out of one line"},
			{grouped(p.last[fair].FlowCount) + " tenants wait", grouped(p.last[fair].Waiting) + " messages wait", "workers killed: " + grouped(p.kills)},
		},
	})
	return nil
}

// remove deletes what the scene wrote.
func (p *queuePlay) remove(ctx context.Context) (int64, error) {
	a, err := p.queues[fair].Delete(ctx)
	if err != nil {
		return 0, err
	}
	b, err := p.queues[line].Delete(ctx)
	return int64(a + b), err
}
