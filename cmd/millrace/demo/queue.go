package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/cmd/millrace/screen"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/retry"
)

const (
	// importer is the tenant who floods. When the queue grows, some of its
	// streams are new; when it shrinks, all of them are given up.
	importer = "importer"

	// floodAhead is how many of its messages the importer keeps waiting, written
	// floodAtOnce at a time.
	floodAhead  = 2000
	floodAtOnce = 25

	// quietTenants is how many others there are, and quietEvery is how often
	// each writes, on average.
	quietTenants = 50
	quietEvery   = 250 * time.Millisecond

	// queueWorkers is how many children work at a time.
	queueWorkers = 2
)

// queueStreams is how many streams the queue has in each third of the load.
var queueStreams = [...]int{64, 80, 48}

// queueScene shows that a tenant with much work is not in the way of those with
// little. One tenant floods a queue and fifty write now and then, while workers
// are killed and the queue is resized. All that is written goes to a plain stream
// as well, which the same workers serve in the same way.
func queueScene() scene {
	return scene{
		name:  "queue",
		shows: "one tenant floods, fifty do not wait behind it, and killed workers and resizing strand nothing",
		load:  4 * time.Second,
		play:  playQueue,
		child: workOnQueues,
	}
}

func fifoKey(name string) string { return "{" + name + "}:fifo" }

// queuePlay is one performance of the scene.
type queuePlay struct {
	*stage
	queue  *fairqueue.Queue
	ledger *ledger

	kills    int
	dropped  int // messages that waited in streams that were given up
	loading  time.Duration
	draining time.Duration
	last     fairqueue.Stats
}

func playQueue(ctx context.Context, st *stage) (seen Scene, err error) {
	if st.mimic {
		seen.Skipped = "it compares waits in a flood, and an imitation of Redis is too slow to be flooded"
		return seen, nil
	}
	p := &queuePlay{stage: st, ledger: newLedger()}
	p.queue, err = fairqueue.New(st.client, st.name, fairqueue.Config{Streams: queueStreams[0]})
	if err != nil {
		return seen, err
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
	defer crew.dismiss()
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel(nil)
	defer func() {
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
	}()

	if err := p.begin(ctx); err != nil {
		return err
	}
	for range queueWorkers {
		if err := crew.hire(); err != nil {
			return err
		}
	}
	start := time.Now()
	if err := p.watch(ctx, crew, start, p.load(ctx, &work, cancel)); err != nil {
		return err
	}
	p.loading = time.Since(start)
	return p.drain(ctx, start)
}

// begin creates the queue and the plain stream, so that there is something to
// look at.
func (p *queuePlay) begin(ctx context.Context) error {
	if err := p.queue.Resize(ctx, queueStreams[0], 0); err != nil {
		return err
	}
	return p.client.Do(ctx, p.client.B().XgroupCreate().Key(fifoKey(p.name)).Group(fifoGroup).Id("0").Mkstream().Build()).Error()
}

// load starts the tenants, and who resizes their queue, and returns a channel that
// is closed when all have ended.
func (p *queuePlay) load(ctx context.Context, work *sync.WaitGroup, failed func(error)) <-chan struct{} {
	end := time.Now().Add(p.duration)
	var all sync.WaitGroup
	tenant := func(name string, pause func() time.Duration, due func() int) {
		all.Go(func() {
			for retry.Sleep(ctx, min(pause(), time.Until(end))) && time.Now().Before(end) {
				if err := p.write(ctx, name, due()); err != nil {
					failed(err)
				}
			}
		})
	}
	tenant(importer, func() time.Duration { return 10 * time.Millisecond }, p.ledger.floodDue)
	for i := range quietTenants {
		tenant(fmt.Sprintf("quiet %d", i),
			func() time.Duration { return time.Duration(rand.ExpFloat64() * float64(quietEvery)) },
			func() int { return 1 })
	}
	all.Go(func() {
		if err := p.resize(ctx); err != nil {
			failed(err)
		}
	})
	done := make(chan struct{})
	work.Go(func() {
		all.Wait()
		close(done)
	})
	return done
}

// write writes n messages of a tenant to the queue, and to the stream.
func (p *queuePlay) write(ctx context.Context, tenant string, n int) error {
	if n == 0 {
		return nil
	}
	numbers := p.ledger.begin(n, tenant != importer)
	drafts := make([]fairqueue.Draft, n)
	for i, number := range numbers {
		drafts[i] = fairqueue.Draft{Tenant: tenant, Body: []byte(noteNow(number))}
	}
	written, err := p.queue.WriteBatch(ctx, drafts...)
	if err != nil {
		return fmt.Errorf("write to the queue: %w", err)
	}
	p.ledger.wrote(numbers, written)

	return retry.Policy{}.Do(ctx, func(int) error {
		adds := make(rueidis.Commands, n)
		for i, number := range numbers {
			adds[i] = p.client.B().Xadd().Key(fifoKey(p.name)).Id("*").FieldValue().FieldValue(noteField, noteNow(number)).Build()
		}
		for _, reply := range p.client.DoMulti(ctx, adds...) {
			if err := reply.Error(); err != nil {
				return fmt.Errorf("write to the stream: %w", err)
			}
		}
		return nil
	})
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
			return nil
		case <-kill.C:
			p.ledger.bury(crew.killOne())
			p.kills++
			if err := crew.hire(); err != nil {
				return err
			}
			kill.Reset(untilKill())
		case <-tick.C:
			if err := p.look(ctx, start); err != nil {
				return err
			}
		}
	}
}

// resize changes the number of streams after each third of the load, as an
// operator would: not through the writers' own Queue, which so learns of it from
// Redis.
func (p *queuePlay) resize(ctx context.Context) error {
	operator, err := fairqueue.New(p.client, p.name, fairqueue.Config{})
	if err != nil {
		return err
	}
	for _, streams := range queueStreams[1:] {
		if !retry.Sleep(ctx, p.duration/time.Duration(len(queueStreams))) {
			return context.Cause(ctx)
		}
		before, err := operator.Stats(ctx)
		if err != nil {
			return err
		}
		for _, s := range before.Streams {
			if s.Index >= streams {
				p.dropped += s.Waiting
			}
		}
		if err := operator.Resize(ctx, streams, 0); err != nil {
			return err
		}
		// A write that knows of the change, on however slow a server.
		if err := p.write(ctx, importer, floodAtOnce); err != nil {
			return err
		}
	}
	return nil
}

// drain waits until nothing is left in the queue, and all out of the stream was
// handled, too.
func (p *queuePlay) drain(ctx context.Context, start time.Time) error {
	patience := time.NewTimer(drainPatience)
	defer patience.Stop()
	tick := time.NewTicker(watchEvery / 4)
	defer tick.Stop()
	defer func(begin time.Time) { p.draining = time.Since(begin) }(time.Now())
	for {
		if err := p.look(ctx, start); err != nil {
			return err
		}
		if p.left() == 0 && p.ledger.fifoHandled() {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-patience.C:
			return nil // the checks tell what is left
		case <-tick.C:
		}
	}
}

// left is how many messages the queue held when last looked, in whatever state.
func (p *queuePlay) left() int {
	return p.last.Waiting + p.last.InFlight + p.last.Delayed + p.last.Dead
}

// look asks the queue how it is and shows it.
func (p *queuePlay) look(ctx context.Context, start time.Time) (err error) {
	if p.last, err = p.queue.Stats(ctx); err != nil {
		return err
	}
	elapsed := time.Since(start)
	written, handled := p.ledger.counts()
	p.screen.Show(screen.Frame{
		Title: "queue",
		Done:  min(elapsed, p.duration),
		Whole: p.duration,
		Rows: [][]string{
			{
				grouped(written) + " messages",
				grouped(handled) + " handled",
				fmt.Sprintf("%d streams", p.last.StreamCount),
			},
			{
				"quiet wait " + briefly(p.ledger.pickups(fair, true, 0.99)) + " (p99)",
				"in one stream " + briefly(p.ledger.pickups(fifo, true, 0.99)),
				"workers killed: " + grouped(p.kills),
			},
		},
	})
	return nil
}

// remove deletes what the scene wrote.
func (p *queuePlay) remove(ctx context.Context) (int64, error) {
	other, err := p.unlink(ctx, fifoKey(p.name))
	if err != nil {
		return 0, err
	}
	own, err := p.queue.Delete(ctx)
	return other + int64(own), err
}
