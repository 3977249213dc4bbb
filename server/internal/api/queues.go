package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/document"
	"github.com/millrace/millrace/internal/ops"
)

const queuePath = "/v1/queues/{name}"

func (a *API) routeQueues() {
	register(a, op(http.MethodGet, "/v1/queues", "listQueues", "List the queues by name",
		"All registered queues. Every program that writes to a queue or reads from it registers it."),
		func(ctx context.Context, _ *ops.Nothing) (document.Queues, error) {
			names, missing, err := a.namesOf(ctx, fairqueue.List)
			return document.Queues{Queues: names, Incomplete: missing}, err
		})
	askQueue(a, ops.DeleteQueue)
	onQueue(a, op(http.MethodGet, queuePath+"/stats", "getQueueStats", "Show sizes, ages, flows, readers and counters",
		"The counters count since the queue began, over all processes.", http.StatusNotFound),
		func(ctx context.Context, q *fairqueue.Queue, _ *Named) (document.QueueStats, error) {
			s, err := q.Stats(ctx)
			return document.OfQueueStats(s), err
		})
	tellQueue(a, ops.ResizeQueue)
	onQueue(a, op(http.MethodGet, queuePath+"/position", "getPosition", "Show how far a source is",
		"The number of its last message that is or was in the queue: the next write of the source continues behind it. If Redis lost its last writes, the number went back with the messages."),
		func(ctx context.Context, q *fairqueue.Queue, in *positionRequest) (document.Position, error) {
			at, err := q.Sources().Position(ctx, in.Source)
			return document.Position{Source: document.Text(in.Source), Position: at}, err
		})
	onQueue(a, op(http.MethodGet, queuePath+"/sources", "listSources", "Show how far all sources are",
		"At most 1,000, by their names."),
		func(ctx context.Context, q *fairqueue.Queue, _ *Named) (document.Sources, error) {
			positions, err := q.Sources().All(ctx)
			return document.OfSources(positions), err
		})
	onQueue(a, op(http.MethodPost, queuePath+"/position", "setPosition", "Set how far a source is",
		"To begin in the middle, or to leave out what is lost. With 0 the queue forgets the source. It creates the queue if there is none.",
		http.StatusInsufficientStorage),
		func(ctx context.Context, q *fairqueue.Queue, in *namedWith[document.Position]) (document.Position, error) {
			return in.Body, q.Sources().SetPosition(ctx, string(in.Body.Source), in.Body.Position)
		})
	tellQueue(a, ops.PauseQueue)
	tellQueue(a, ops.ResumeQueue)
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

func (a *API) queue(use queueUse) (*fairqueue.Queue, error) {
	return a.queues.get(use, func() (*fairqueue.Queue, error) {
		return fairqueue.New(a.cfg.Client, use.name, fairqueue.Config{
			Streams: use.streams, PerTenant: use.perTenant,
			Logger: a.cfg.Logger, Enlister: a.cfg.Enlister, Hooks: a.cfg.Hooks,
		})
	})
}

// onQueue registers an operation on one queue.
func onQueue[I hasName, O any](a *API, o huma.Operation, do func(context.Context, *fairqueue.Queue, *I) (O, error)) {
	on(a, o, func(_ context.Context, in *I) (*fairqueue.Queue, error) { return a.queue(useOf(*in)) }, do)
}

type positionRequest struct {
	Named

	Source string `query:"source" required:"true" minLength:"1" maxLength:"512" doc:"The name of the source."`
}
