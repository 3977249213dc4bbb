package api

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/ops"
	"github.com/millrace/millrace/internal/redis/reqid"
)

func (a *API) routeQueues() {
	register(a, ops.ListQueues, func(ctx context.Context, _ *ops.Nothing) (ops.Queues, error) {
		names, missing, err := a.namesOf(ctx, fairqueue.List)
		return ops.Queues{Queues: names, Incomplete: missing}, err
	})
	askQueue(a, ops.DeleteQueue)
	askQueue(a, ops.GetQueueStats)
	tellQueue(a, ops.ResizeQueue)
	askQueue(a, ops.GetPosition)
	askQueue(a, ops.ListSources)
	tellQueue(a, ops.SetPosition)
	tellQueue(a, ops.PauseQueue)
	tellQueue(a, ops.ResumeQueue)

	tellQueue(a, ops.WriteMessage)
	tellQueue(a, ops.WriteMessages)
	onQueue(a, ops.WorkRound.Row, a.work)
	onQueue(a, ops.ReceiveMessages.Row, a.receiveMessages)
	tellQueue(a, someStale(ops.AckMessages))
	tellQueue(a, someStale(ops.NackMessages))
	onQueue(a, ops.ExtendMessages.Row, extendMessages)
	tellQueue(a, ops.CancelMessages)

	askQueue(a, ops.BrowseMessages)
	askQueue(a, ops.SearchMessages)
	askQueue(a, ops.ShowMessage)
	askQueue(a, ops.GetFailures)
	tellQueue(a, ops.RetryMessages)
	askQueue(a, ops.ListDead)
	askQueue(a, ops.GroupDead)
	tellQueue(a, ops.RedriveDead)
	tellQueue(a, ops.PurgeDead)
	tellQueue(a, ops.KeepDead)
	tellQueue(a, ops.DeadAfter)

	askQueue(a, ops.ListTenants)
	tellQueue(a, ops.PauseTenant)
	tellQueue(a, ops.ResumeTenant)
	tellQueue(a, ops.PurgeTenant)
	askQueue(a, ops.GetLimits)
	tellQueue(a, ops.ChangeLimits)
	tellQueue(a, ops.ClearLimits)
	askQueue(a, ops.ListLimits)

	tellQueue(a, ops.CreateBatch)
	askQueue(a, ops.ListBatches)
	askQueue(a, ops.GetBatch)
	tellBatch(a, ops.CloseBatch)
	tellBatch(a, ops.CancelBatch)
}

// tellBatch registers an operation on a batch whose body is empty, or left out.
func tellBatch(a *API, o ops.Operation[*fairqueue.Queue, ops.BatchID, ops.Batch]) {
	onQueue(a, o.Row, func(ctx context.Context, q *fairqueue.Queue, in *struct {
		ops.BatchID

		Body *ops.Nothing
	},
	) (ops.Batch, error) {
		return o.Do(ctx, q, in.BatchID)
	})
}

// routeSchedules adds schedules: messages that a queue writes by the clock.
func (a *API) routeSchedules() {
	askQueue(a, ops.ListSchedules)
	askQueue(a, ops.GetSchedule)
	onQueue(a, ops.SetSchedule.Row, func(ctx context.Context, q *fairqueue.Queue, in *scheduleWith[ops.ScheduleDraft]) (ops.Schedule, error) {
		return ops.SetSchedule.Do(ctx, q, ops.ScheduleToSet{ScheduleName: in.ScheduleName, ScheduleDraft: in.Body})
	})
	askQueue(a, ops.RemoveSchedule)
	tellSchedule(a, ops.PauseSchedule)
	tellSchedule(a, ops.ResumeSchedule)
	tellSchedule(a, ops.RunSchedule)
	askQueue(a, ops.NextTicks)
	register(a, ops.PreviewTicks.Row, func(ctx context.Context, in *ops.TicksPreview) (ops.Ticks, error) {
		return ops.PreviewTicks.Do(ctx, ops.Nothing{}, *in)
	})
}

type scheduleWith[B any] struct {
	ops.ScheduleName

	Body B
}

// tellSchedule registers an operation on a schedule whose body is empty, or left out.
func tellSchedule[Out any](a *API, o ops.Operation[*fairqueue.Queue, ops.ScheduleName, Out]) {
	onQueue(a, o.Row, func(ctx context.Context, q *fairqueue.Queue, in *scheduleWith[*ops.Nothing]) (Out, error) {
		return o.Do(ctx, q, in.ScheduleName)
	})
}

// someStale returns an operation that ignores stale receipts if other receipts were good.
func someStale[In any, Out interface{ Settled() int }](o ops.Operation[*fairqueue.Queue, In, Out]) ops.Operation[*fairqueue.Queue, In, Out] {
	do := o.Do
	o.Do = func(ctx context.Context, q *fairqueue.Queue, in In) (Out, error) {
		out, err := do(ctx, q, in)
		if errors.Is(err, millrace.ErrStale) && out.Settled() > 0 {
			err = nil
		}
		return out, err
	}
	return o
}

// receive is a request for messages. The body may be left out.
type receive struct {
	Named

	Body *ops.Receive
}

func (r *receive) of() ops.Receive {
	if r.Body == nil {
		return ops.Receive{}
	}
	return *r.Body
}

func (r *receive) wait() (field string, d time.Duration) { return "block", r.of().Block.Duration }

func (a *API) receiveMessages(ctx context.Context, q *fairqueue.Queue, in *receive) (ops.Messages, error) {
	return take(ctx, a, q, ops.ReceiveMessages, in.of(), in.of().Invisible(), false)
}

// take does an operation that takes messages or marks, until the service drains, and says for how long its answer is true. One
// that settles others fails then: it may have ended before that, and is to be repeated.
func take[S, In, Out any](ctx context.Context, a *API, structure S, o ops.Operation[S, In, Out], in In, holds time.Duration, settles bool) (Out, error) {
	ctx, done := a.whileServing(ctx)
	defer done()
	out, err := o.Do(ctx, structure, in)
	trueFor(ctx, holds)
	if errors.Is(err, errDraining) && !settles {
		err = nil
	}
	return out, err
}

// round is a request of a worker.
type round struct {
	Named

	Body ops.Round
}

func (r *round) wait() (field string, d time.Duration) { return "block", r.Body.Block.Duration }

// work settles a round with an Idempotency-Key before it takes, which needs a call of its own anyway: so the end of a wait
// cannot keep it from that.
func (a *API) work(ctx context.Context, q *fairqueue.Queue, in *round) (taken ops.Taken, err error) {
	worker := [2]string{q.Name(), string(in.Body.Worker)}
	if in.Body.Leave {
		a.rounds.end(worker)
	}
	asked, stale := in.Body, []string{}
	if asked.Settles() && reqid.Seeded(ctx) {
		var settles ops.Round
		settles, asked = asked.Parts()
		if taken, err = ops.WorkRound.Do(ctx, q, settles); err != nil || !asked.Takes() {
			return taken, err
		}
		stale = taken.Stale
	}
	if asked.Takes() && asked.Worker != "" {
		var done func()
		ctx, done = a.rounds.begin(ctx, worker)
		defer done()
	}
	taken, err = take(ctx, a, q, ops.WorkRound, asked, asked.Invisible(), asked.Settles())
	taken.Stale = append(stale, taken.Stale...)
	return taken, err
}

// rounds are those that may wait, by queue and worker. The zero value has none.
type rounds struct {
	mu sync.Mutex
	of map[[2]string]map[*context.CancelCauseFunc]bool
}

// begin returns a context that also ends when the worker leaves.
func (r *rounds) begin(ctx context.Context, worker [2]string) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of == nil {
		r.of = map[[2]string]map[*context.CancelCauseFunc]bool{}
	}
	if r.of[worker] == nil {
		r.of[worker] = map[*context.CancelCauseFunc]bool{}
	}
	r.of[worker][&cancel] = true
	return ctx, func() {
		cancel(nil)
		r.mu.Lock()
		defer r.mu.Unlock()
		if delete(r.of[worker], &cancel); len(r.of[worker]) == 0 {
			delete(r.of, worker)
		}
	}
}

// end has the rounds of a worker return.
func (r *rounds) end(worker [2]string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for cancel := range r.of[worker] {
		(*cancel)(errDraining)
	}
}

// extendMessages also says for how long its answer is true.
func extendMessages(ctx context.Context, q *fairqueue.Queue, in *namedWith[ops.Extend]) (ops.Extended, error) {
	ends := time.Now().Add(in.Body.Visibility.Duration)
	defer func() { trueFor(ctx, time.Until(ends)) }()
	return ops.ExtendMessages.Do(ctx, q, in.Body)
}

// queueUse is a queue, and its shape if it does not exist yet.
type queueUse struct {
	name               string
	streams, perTenant int
}

// useOf returns the queue that a request is about.
func useOf(in hasName) queueUse {
	use := queueUse{name: in.Structure()}
	if with, ok := in.(hasBody); ok {
		if shaped, ok := with.body().(interface {
			NewQueue() (streams, perTenant int)
		}); ok {
			use.streams, use.perTenant = shaped.NewQueue()
		}
	}
	return use
}

// openQueue returns the queue that a request is about.
func (a *API) openQueue(_ context.Context, in hasName) (*fairqueue.Queue, error) {
	use := useOf(in)
	return a.queues.get(use, func() (*fairqueue.Queue, error) {
		return fairqueue.New(a.cfg.Client, use.name, fairqueue.Config{
			Streams: use.streams, PerTenant: use.perTenant,
			Logger: a.cfg.Logger, Enlister: a.cfg.Enlister, Hooks: a.cfg.Hooks,
		})
	})
}

// onQueue registers an operation on one queue.
func onQueue[I hasName, O any](a *API, row ops.Row, do func(context.Context, *fairqueue.Queue, *I) (O, error)) {
	on(a, row, a.openQueue, do)
}
