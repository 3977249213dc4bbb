package conformance

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/tracker"
)

// office is a tracker under load: work is queued and finished, and two processes
// keep the tracker in step. Identifiers that no failover could lose are known all
// the time, and all others when a pass is over.
type office struct {
	t       *testing.T
	now     *storm
	one     *tracker.Tracker
	two     *tracker.Tracker
	source  table
	lasting []string // have work all the time
}

func newOffice(t *testing.T, on running, now *storm, name string) *office {
	t.Helper()
	o := &office{t: t, now: now, lasting: members(30)}
	o.one, o.two = openTracker(t, on.client(t), name, &o.source), openTracker(t, on.client(t), name, &o.source)
	o.source.start(o.lasting...)
	must(t, "Fill", o.one.Fill(t.Context(), nil))
	return o
}

func (o *office) begin(ctx context.Context, working *sync.WaitGroup) {
	working.Go(func() { o.queue(ctx) })
	working.Go(func() { o.ask(ctx) })
	for _, tr := range []*tracker.Tracker{o.one, o.two} {
		for _, job := range tr.Jobs() {
			working.Go(func() {
				for retry.Sleep(ctx, 3*time.Millisecond) {
					_, _ = job.Slice(ctx) // one that fails is left to the next
				}
			})
		}
	}
}

// goesOn wants passes to be made and finished identifiers to be removed.
func (o *office) goesOn() func() bool {
	before := o.stats()
	return func() bool {
		s := o.stats()
		return s.Passes > before.Passes+1 && s.Counters.Removed > before.Counters.Removed+20
	}
}

func (o *office) stats() tracker.Stats {
	s, err := o.one.Stats(o.t.Context())
	must(o.t, "Stats", err)
	return s
}

// check has the jobs catch up.
func (o *office) check() {
	o.t.Helper()
	awaitPasses(o.t, o.two, o.stats().Passes+2)
	pending := o.source.ids()
	wantState(o.t, o.one, tracker.Queued, pending...)
	runUntil(o.t, o.two.Jobs()[1], "only what has work is tracked", func() bool {
		s, err := o.one.Stats(o.t.Context())
		must(o.t, "Stats", err)
		return s.Tracked == len(pending)
	})
	wantState(o.t, o.one, tracker.Queued, pending...)
}

// queue queues work for new identifiers, and ends it some time later, until ctx
// ends.
func (o *office) queue(ctx context.Context) {
	for i := 0; retry.Sleep(ctx, pace); i++ {
		id, asked := fmt.Sprint("task", i), o.now.Load()
		o.source.start(id)
		o.source.finish(fmt.Sprint("task", i-20))
		began := time.Now()
		if err := o.two.Add(ctx, id); err != nil {
			if ctx.Err() == nil {
				wantPatient(o.t, "Add", began, err)
			}
			continue
		}
		began = time.Now()
		a, err := o.two.Queued(ctx, id)
		switch shaken := asked == inStorm || asked != o.now.Load(); {
		case ctx.Err() != nil:
		case err != nil:
			wantPatient(o.t, "Queued", began, err)
		case !shaken && a[0].State != tracker.Queued:
			o.t.Errorf("%s is %v, and was added just now", id, a[0].State)
		}
	}
}

// ask asks until ctx ends about identifiers whose answer does not change.
func (o *office) ask(ctx context.Context) {
	for retry.Sleep(ctx, pace) {
		began := time.Now()
		answers, err := o.two.Queued(ctx, append(o.lasting, "idle")...)
		if err != nil {
			if ctx.Err() == nil {
				wantPatient(o.t, "Queued", began, err)
			}
			continue
		}
		for i, id := range o.lasting {
			if answers[i].State != tracker.Queued {
				o.t.Errorf("%s is %v, and has work all the time", id, answers[i].State)
			}
		}
		if idle := answers[len(o.lasting)]; idle.State != tracker.NotQueued {
			o.t.Errorf("what never had work is %v", idle.State)
		}
	}
}
