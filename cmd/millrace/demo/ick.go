package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/ick"
	"github.com/millrace/millrace/internal/screen"
)

const (
	// producers is how many goroutines change documents. Each makes its next
	// change when the one before is marked, so they are as quick as the server
	// and no quicker.
	producers = 16

	// consumers is how many children work at a time. One would do; the second
	// is there for the accidents that two have.
	consumers = 2

	// A consumer is killed after a random time between these two.
	killAfter  = 250 * time.Millisecond
	killBefore = 500 * time.Millisecond

	// watchEvery is how often the scene looks at the Ick and shows progress.
	watchEvery = 100 * time.Millisecond
)

// ickScene shows that an Ick forgets no mark. Documents change in a database,
// each change is marked in an Ick, and consumers bring a second store in line
// with the database while they are killed one after the other.
func ickScene() scene {
	return scene{
		name:  "ick",
		shows: "documents keep changing, their consumers are killed, and no change is forgotten",
		load:  4 * time.Second,
		play:  playIck,
		child: consumeDocuments,
	}
}

func databaseKey(name string) string  { return "{" + name + "}:database" }
func processedKey(name string) string { return "{" + name + "}:processed" }

// ickPlay is one performance of the scene.
type ickPlay struct {
	*stage
	ick       *ick.Ick
	documents *documents

	// What the producers did.
	marks   atomic.Int64 // made, each for one change
	fresh   atomic.Int64 // of these, said to be new by the Ick
	repeats atomic.Int64 // calls that were sent again because a reply was lost

	// What the consumers told.
	batches   atomic.Int64
	handed    atomic.Int64
	processed atomic.Int64
	oldest    atomic.Int64 // nanoseconds

	kills     int
	producing time.Duration
	draining  time.Duration
	last      ick.Stats
}

func playIck(ctx context.Context, st *stage) (seen Scene, err error) {
	p := &ickPlay{stage: st, documents: newDocuments(st.client, databaseKey(st.name))}
	p.ick, err = ick.New(st.client, st.name, ick.Config{Hooks: []millrace.Hook{p}})
	if err != nil {
		return seen, err
	}
	defer func() { err = errors.Join(err, p.cleanUp(ctx, p.remove)) }()
	if err := p.perform(ctx); err != nil {
		return seen, err
	}
	return p.judge(ctx)
}

// OnCall counts calls that are sent again: an add may then count twice in the
// Ick.
func (p *ickPlay) OnCall(ctx context.Context, call millrace.Call) (context.Context, func(error)) {
	if call.Try > 1 {
		p.repeats.Add(1)
	}
	return ctx, nil
}

// perform makes the load and has it worked off.
func (p *ickPlay) perform(ctx context.Context) error {
	// An Ick begins with its first add. One without marks lets Stats find it.
	if _, err := p.ick.AddNow(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	crew := p.crew(p.hear, cancel)
	defer crew.dismiss(ctx)
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel(nil)

	for range consumers {
		if err := crew.hire(); err != nil {
			return err
		}
	}
	start := time.Now()
	produced := p.produce(ctx, &work, cancel)
	if err := p.watch(ctx, crew, start, produced); err != nil {
		return err
	}
	p.producing = time.Since(start)
	if err := p.drain(ctx, start); err != nil {
		return err
	}
	crew.dismiss(ctx)
	return nil
}

// produce starts the producers and returns a channel that is closed when all
// have ended.
func (p *ickPlay) produce(ctx context.Context, work *sync.WaitGroup, failed func(error)) <-chan struct{} {
	end := time.Now().Add(p.duration)
	var all sync.WaitGroup
	for range producers {
		all.Go(func() {
			rank := ranks()
			for ctx.Err() == nil && time.Now().Before(end) {
				if err := p.change(ctx, rank.Uint64()); err != nil {
					failed(err)
				}
			}
		})
	}
	done := make(chan struct{})
	work.Go(func() {
		all.Wait()
		if _, err := p.ick.AddNow(ctx); err != nil { // folds of the last moments are counted with the next add
			failed(err)
		}
		close(done)
	})
	return done
}

// change changes one document and marks it.
func (p *ickPlay) change(ctx context.Context, rank uint64) error {
	doc := p.documents.pick(rank)
	if err := p.documents.change(ctx, doc); err != nil {
		return fmt.Errorf("change %s: %w", doc.id, err)
	}
	added, err := p.ick.AddNow(ctx, doc.id)
	if err != nil {
		return fmt.Errorf("mark %s: %w", doc.id, err)
	}
	p.marks.Add(1)
	p.fresh.Add(int64(added.New))
	return nil
}

// hear takes in what a consumer told.
func (p *ickPlay) hear(line []byte) {
	var news ickNews
	if json.Unmarshal(line, &news) != nil {
		return // not ours: a runtime may print what it likes
	}
	if news.Handed > 0 {
		p.batches.Add(1)
		p.handed.Add(int64(news.Handed))
	}
	p.processed.Add(int64(news.Processed))
	for age := int64(news.Age); ; {
		before := p.oldest.Load()
		if age <= before || p.oldest.CompareAndSwap(before, age) {
			return
		}
	}
}

// watch shows progress and kills consumers until the producers have ended.
func (p *ickPlay) watch(ctx context.Context, crew *crew, start time.Time, produced <-chan struct{}) error {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	kill := time.NewTimer(untilKill())
	defer kill.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-produced:
			if p.duration < killBefore || p.kills > 0 {
				return nil
			}
			produced = nil // a kill is due
		case <-kill.C:
			crew.killOne()
			p.kills++
			if err := crew.hire(); err != nil {
				return err
			}
			if produced == nil {
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

func untilKill() time.Duration { return killAfter + rand.N(killBefore-killAfter) }

// drain waits until nothing is left in the Ick.
func (p *ickPlay) drain(ctx context.Context, start time.Time) error {
	var stalled stall[[2]int64]
	tick := time.NewTicker(watchEvery / 10)
	defer tick.Stop()
	defer func(begin time.Time) { p.draining = time.Since(begin) }(time.Now())
	for {
		if err := p.look(ctx, start); err != nil {
			return err
		}
		left := p.last.Total + p.last.Parked
		if left == 0 || stalled.lasts([2]int64{int64(left), p.processed.Load()}) { // the checks tell what is left
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// look asks the Ick how it is and shows it.
func (p *ickPlay) look(ctx context.Context, start time.Time) (err error) {
	if p.last, err = p.ick.Stats(ctx); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return err
	}
	elapsed := time.Since(start)
	marks := p.marks.Load()
	p.screen.Show(screen.Frame{
		Title: "ick",
		Done:  min(elapsed, p.duration),
		Whole: p.duration,
		Rows: [][]string{
			{
				grouped(marks) + " changes",
				grouped(perSecond(marks, min(elapsed, p.duration))) + "/s",
				percent(marks-p.fresh.Load(), marks) + " folded",
			},
			{
				grouped(p.processed.Load()) + " processed",
				grouped(p.last.Distinct+p.last.Parked) + " waiting",
				"consumers killed: " + grouped(p.kills),
			},
		},
	})
	return nil
}

// remove deletes what the scene wrote.
func (p *ickPlay) remove(ctx context.Context) (int64, error) {
	others, err := p.unlink(ctx, databaseKey(p.name), processedKey(p.name))
	if err != nil {
		return 0, err
	}
	own, err := p.ick.ForceDelete(ctx)
	return others + int64(own), err
}
