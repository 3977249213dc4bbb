package demo

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/chaos"
	"github.com/millrace/millrace/internal/must"
	"github.com/millrace/millrace/internal/redis/retry"
	"github.com/millrace/millrace/internal/screen"
)

const (
	// flooder is the tenant that floods the queue, and slowpoke the one with slow messages.
	flooder  = "flooder"
	slowpoke = "slow"

	// queueWorkers is how many worker processes there are. Each handles queueHands messages
	// of each queue at a time.
	queueWorkers = 2
	queueHands   = 6
	allHands     = queueWorkers * queueHands

	// quickWork and slowWork are how long a handler takes, such as a call to an endpoint.
	quickWork = 10 * time.Millisecond
	slowWork  = 250 * time.Millisecond

	// quietPause is the mean pause between two messages of a quiet tenant.
	quietPause = 250 * time.Millisecond

	// queueVisibility is after how long a message of a killed worker is delivered again.
	queueVisibility = 3 * time.Second

	// heldAtMost is how many messages a killed worker may hold: one in each handler, and
	// one that was fetched ahead for each.
	heldAtMost = 2 * queueHands
)

// Sabotages in tests.
const (
	oneTenant   = "one tenant for all" // the fair queue does not know the tenants
	skipMessage = "skip a message"     // a worker acknowledges a message that it did not handle
)

func queueScene() chaos.Scene {
	return chaos.Scene{
		Name:  "queue",
		Shows: "neither a flood nor slow messages of one tenant delay the others",
		Load: "2 worker processes with 6 handlers each. One tenant has slow messages, then one floods; all others are quiet. " +
			"Each message also goes to a second queue where all tenants are one: the usual line, first in, first out.",
		Accident: "Worker processes are killed with SIGKILL while they hold messages.",
		Duration: 3 * time.Second,
		Play:     playQueue,
		Work:     workOnQueues,
	}
}

// queuePlay is one performance. Side 0 is the fair queue, side 1 the line.
type queuePlay struct {
	*chaos.Play

	quiet  int // tenants
	flood  int // messages that the flooder keeps waiting
	queues [2]*fairqueue.Queue
	stats  [2]fairqueue.Stats
	ledger queueLedger
}

func playQueue(ctx context.Context, p *chaos.Play) {
	q := &queuePlay{Play: p, quiet: 50, flood: 2000}
	if p.Small {
		q.quiet, q.flood = 15, 200
	}
	for side := range q.queues {
		q.queues[side] = must.Get(openSide(p.Client, p.Name, side))
		p.Delete(q.queues[side].Delete)
	}
	chaos.Hear(p, q.ledger.hear)
	first := must.Get(q.write(ctx, false, quietName(0), 1, quickWork)) // a queue exists from its first message on
	p.Start(queueWorkers)
	p.Drain(ctx, func(ctx context.Context) int {
		q.look(ctx, "starting workers")
		return 2*allHands - q.stats[0].Capacity - q.stats[1].Capacity + q.ledger.open(first)
	})
	q.beSlow(ctx)
	loaded := time.Now()
	q.beFlooded(ctx)
	loading, drained := time.Since(loaded), time.Now()
	p.Drain(ctx, func(ctx context.Context) int {
		q.look(ctx, "waiting for the last messages, also those of killed workers")
		return held(q.stats[0]) + held(q.stats[1])
	})
	p.Dismiss(ctx)
	q.judge(loading, time.Since(drained))
}

// beSlow lets one tenant write slow messages, and the others one each when the slow ones
// are being handled. No worker is killed meanwhile, because the queue counts the handlers of
// a killed worker for some time.
func (q *queuePlay) beSlow(ctx context.Context) {
	all := must.Get(q.write(ctx, false, slowpoke, 3*allHands, slowWork))
	wait := func(messages []*queueMessage) {
		q.Drain(ctx, func(ctx context.Context) int {
			q.look(ctx, "one tenant has slow messages")
			return q.ledger.open(messages)
		})
	}
	wait(all[:1])
	for i := range q.quiet {
		all = append(all, must.Get(q.write(ctx, false, quietName(i), 1, quickWork))...)
	}
	wait(all)
}

func quietName(i int) string { return "quiet " + strconv.Itoa(i) }

// beFlooded lets one tenant keep many messages waiting, and the others write one now and
// then, while workers are killed.
func (q *queuePlay) beFlooded(ctx context.Context) {
	until := time.Now().Add(q.Duration)
	loading, stop := context.WithDeadline(ctx, until)
	defer stop()
	waits := []func(){q.Repeat(loading, 1, chaos.Every(10*time.Millisecond), func(ctx context.Context) error {
		if q.ledger.waiting() >= q.flood {
			return nil
		}
		_, err := q.write(ctx, true, flooder, 25, quickWork)
		return err
	})}
	for i := range q.quiet {
		waits = append(waits, q.Repeat(loading, 1, chaos.About(quietPause), func(ctx context.Context) error {
			m, err := q.write(ctx, true, quietName(i), 1, quickWork)
			if err != nil {
				return err
			}
			select {
			case <-m[0].done:
			case <-loading.Done():
			}
			return nil
		}))
	}
	q.WatchKilling(ctx, until, func(ctx context.Context) { q.look(ctx, "one tenant floods") })
	stop()
	for _, wait := range waits {
		wait()
	}
}

// write writes n messages of a tenant to both queues.
func (q *queuePlay) write(ctx context.Context, flooded bool, tenant string, n int, work time.Duration) ([]*queueMessage, error) {
	messages := q.ledger.begin(tenant, flooded, n)
	for side := range q.queues {
		drafts := make([]fairqueue.Draft, n)
		for i, m := range messages {
			drafts[i] = fairqueue.Draft{Tenant: tenant, Body: fmt.Appendf(nil, "%d %d", m.number, work)}
			if side == 1 || q.Sabotage == oneTenant {
				drafts[i].Tenant = "everybody"
			}
		}
		written, err := q.queues[side].WriteBatch(ctx, drafts...)
		if err != nil {
			return nil, fmt.Errorf("write to the queue: %w", err)
		}
		q.ledger.wrote(side, messages, written)
	}
	return messages, nil
}

// look reads the statistics of the queues and shows progress.
func (q *queuePlay) look(ctx context.Context, doing string) {
	for side := range q.queues {
		q.stats[side] = must.Get(q.queues[side].Stats(ctx))
	}
	written, fair, line := q.ledger.counts()
	var lanes []screen.Lane
	for side, name := range []string{"  fair queue", "  one line"} {
		handled, all, wait := q.ledger.quiet(side)
		lanes = append(lanes, screen.Lane{Name: name, Done: handled, Whole: all, Note: chaos.Text("%v quiet tenants wait %v", q.quiet, wait.Round(time.Millisecond))})
	}
	q.ShowLanes(lanes, doing, written, "written", fair, "handled", line, "handled in the line",
		q.stats[0].FlowCount, "tenants wait", q.stats[0].Waiting, "messages wait", q.Kills, "workers killed")
}

// held is how many messages a queue holds, in whatever state.
func held(s fairqueue.Stats) int { return s.Waiting + s.InFlight + s.Delayed + s.Dead }

// judge compares the queues and the workers' reports with the ledger.
func (q *queuePlay) judge(loading, draining time.Duration) {
	l := &q.ledger
	lost := l.lost(q.Fail)
	written, _, _ := l.counts()
	q.Check("all_handled", lost == 0, "every message was handled, under the id that its writer got: %v of %v", written-lost, written)
	q.Check("nothing_stranded", held(q.stats[0])+held(q.stats[1]) == 0,
		"both queues are empty in the end: %v and %v messages left", held(q.stats[0]), held(q.stats[1]))

	// While a quiet tenant waits, each other tenant may have one turn; twice that, because
	// messages delivered in the same millisecond count, too.
	turns := 2 * (q.quiet + 1)
	var flood, slow [2]queueWaits
	var handlers [2]int
	for side := range q.queues {
		flood[side], slow[side] = l.waits(side, true, ""), l.waits(side, false, slowpoke)
		handlers[side] = l.mostAtOnce(side, slowpoke)
	}
	q.Check("quiet_have_their_turn", len(flood[0].ahead) > 0 && flood[0].most() <= turns,
		"in the flood at most %v messages went ahead of a quiet tenant (allowed: %v); in one line %v",
		flood[0].most(), turns, flood[1].most())
	q.Check("slow_has_its_share", handlers[0] > 0 && handlers[0] <= allHands/2,
		"the slow tenant had at most %v of %v handlers (allowed: half); in one line %v", handlers[0], allHands, handlers[1])
	q.Check("quiet_do_not_wait_for_the_slow", len(slow[0].ahead) > 0 && slow[0].most() <= allHands,
		"at most %v slow messages went ahead of a quiet tenant (allowed: %v); in one line %v", slow[0].most(), allHands, slow[1].most())
	of := q.stats[0].Counters
	q.Check("only_from_the_killed", of.Reclaimed <= int64(q.Kills*heldAtMost),
		"only messages of killed workers were delivered again: %v, of at most %v for each of %v", of.Reclaimed, heldAtMost, q.Kills)
	q.Check("counted", of.Written == int64(written) && of.Acked == of.Written && of.Delivered == of.Acked+of.Reclaimed+of.Returned,
		"the queue counted the same: %v written = %v acknowledged; %v delivered = acknowledged + %v delivered again + %v handed back",
		of.Written, of.Acked, of.Delivered, of.Reclaimed, of.Returned)

	q.Table("fair queue", "one line")
	pair := func(label, key string, cell func(side int, key string) chaos.Cell) {
		q.Figure(label, "", cell(0, key), cell(1, "line_"+key))
	}
	pickups := func(waits [2]queueWaits, share float64) func(int, string) chaos.Cell {
		return func(side int, key string) chaos.Cell {
			return chaos.Ms(key, must.Quantile(waits[side].pickups, share))
		}
	}
	if !q.Small { // an imitation of Redis says nothing about milliseconds
		pair("pickup of quiet tenants beside the flood, median", "quiet_pickup_median_ms", pickups(flood, 0.5))
		pair("    99%", "quiet_pickup_p99_ms", pickups(flood, 0.99))
		pair("pickup of quiet tenants beside the slow tenant, median", "quiet_pickup_slow_median_ms", pickups(slow, 0.5))
		pair("    99%", "quiet_pickup_slow_p99_ms", pickups(slow, 0.99))
	}
	pair("messages ahead of them in the flood, median", "quiet_ahead_median", func(side int, key string) chaos.Cell {
		return chaos.N(key, must.Quantile(flood[side].ahead, 0.5))
	})
	pair("    at most", "quiet_ahead_most", func(side int, key string) chaos.Cell { return chaos.N(key, flood[side].most()) })
	pair(fmt.Sprintf("handlers of the slow tenant at once, of %d", allHands), "slow_handlers", func(side int, key string) chaos.Cell {
		return chaos.N(key, handlers[side])
	})
	q.Table()
	floods := l.count(func(m *queueMessage) bool { return m.tenant == flooder })
	slows := l.count(func(m *queueMessage) bool { return m.tenant == slowpoke })
	twice := l.count(func(m *queueMessage) bool { return m.sides[0].handled > 1 })
	q.Figure("messages written", "to each queue", chaos.N("messages", written))
	q.Figure("  by the tenant that floods", chaos.Text("it keeps %v waiting", q.flood), chaos.N("flood", floods))
	q.Figure("  by the slow tenant", chaos.Text("%v each; others take %v", slowWork, quickWork), chaos.N("slow", slows))
	q.Figure("  by "+strconv.Itoa(q.quiet)+" quiet tenants", "", chaos.N("quiet", written-floods-slows))
	q.Figure("workers killed", "another one started each time", chaos.N("kills", q.Kills))
	q.Figure("messages delivered again", chaos.Text("%v after the kill", queueVisibility), chaos.N("redelivered", of.Reclaimed))
	q.Figure("messages handled twice", "killed before the acknowledgement", chaos.N("handled_twice", twice))
	q.Figure("writing messages", "", chaos.Ms("loading_ms", loading))
	q.Figure("and until all were handled", "", chaos.Ms("draining_ms", draining))
}

// openSide opens the fair queue or the line.
func openSide(client rueidis.Client, name string, side int) (*fairqueue.Queue, error) {
	return fairqueue.New(client, name+[]string{"", ":line"}[side], fairqueue.Config{})
}

// queueReport is a worker's report: a message that was delivered, and then that it is
// handled. Times are in microseconds.
type queueReport struct {
	Side, Number       int
	Now                int64 // by the clock of this machine
	Done               bool
	ID                 string
	Again              bool
	Written, Delivered int64 // by the server's clock
}

// workOnQueues is a worker: it consumes both queues in the same way.
func workOnQueues(ctx context.Context, w *chaos.Worker) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ended := make(chan error, 2)
	for side := range 2 {
		queue := must.Get(openSide(w.Client, w.Name, side))
		cfg := fairqueue.ConsumeConfig{Concurrency: queueHands, Visibility: queueVisibility, Drain: time.Second}
		go func() {
			err := queue.Consume(ctx, cfg, func(ctx context.Context, m fairqueue.Message) error { return handle(ctx, w, side, m) })
			cancel(err)
			ended <- err
		}()
	}
	return cmp.Or(<-ended, <-ended)
}

// handle handles a message, whose body says its number and how long that takes.
func handle(ctx context.Context, w *chaos.Worker, side int, m fairqueue.Message) error {
	r := queueReport{
		Side: side, ID: m.ID, Again: m.Attempt > 1, Now: time.Now().UnixMicro(),
		Written: m.Written.UnixMicro(), Delivered: m.Written.Add(m.PickupDelay).UnixMicro(),
	}
	var work time.Duration
	if _, err := fmt.Sscanf(string(m.Body), "%d %d", &r.Number, &work); err != nil {
		return fairqueue.NoRetry(err)
	}
	if w.Sabotage == skipMessage && r.Number == 100 && side == 0 {
		return nil
	}
	if err := w.Report(r); err != nil {
		return err
	}
	if !retry.Sleep(ctx, work) {
		return context.Cause(ctx)
	}
	return w.Report(queueReport{Side: side, Number: r.Number, Now: time.Now().UnixMicro(), Done: true})
}
