package api

import (
	"context"
	"iter"
	"net/http"
	"slices"

	"github.com/redis/rueidis"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/document"
)

// named is a request about something that has a name.
type named struct {
	Name string `path:"name" doc:"Its name: 1 to 512 bytes, percent-encoded." example:"orders"`
}

// namedWith is such a request with a body.
type namedWith[B any] struct {
	Name string `path:"name" doc:"Its name: 1 to 512 bytes, percent-encoded." example:"orders"`
	Body B
}

// nothing is a request of which no more has to be said, and a body that may be
// left out.
type nothing struct{}

const queuePath = "/v1/queues/{name}"

func (a *API) routeQueues() {
	register(a, op(http.MethodGet, "/v1/queues", "listQueues", "List the queues by name",
		"Those that are registered, as each is by those who write to it and read from it."), a.listQueues)
	register(a, op(http.MethodDelete, queuePath, "deleteQueue", "Delete a queue with all its messages",
		"Those that wait, are delayed, in flight or dead. The count is that of its keys; a queue that is not there counts 0."), a.deleteQueue)
	register(a, op(http.MethodGet, queuePath+"/stats", "getQueueStats", "Show sizes, ages, flows, readers and counters",
		"The counters count since the queue began, over all processes.", http.StatusNotFound), a.queueStats)
	register(a, op(http.MethodPost, queuePath+"/resize", "resizeQueue", "Change what the flows of a queue are",
		"So many streams, of which each tenant has some, or a flow for each tenant. It holds for what is written from then on; what waits in other flows stays there and has its turns.",
		http.StatusNotFound, http.StatusInsufficientStorage), a.resizeQueue)
	register(a, op(http.MethodPost, queuePath+"/weight", "weighTenant", "Give a tenant more turns, or fewer",
		"So many for each one of a tenant of weight 1, from its next message on. In a queue with streams it changes nothing.",
		http.StatusNotFound), a.weighTenant)
	register(a, op(http.MethodPost, queuePath+"/pause", "pauseQueue", "Switch reading off",
		"For all readers. Messages in flight may be finished, and writing goes on.", http.StatusNotFound), a.pauseQueue)
	register(a, op(http.MethodPost, queuePath+"/resume", "resumeQueue", "Switch reading on again",
		"Readers that wait are woken.", http.StatusNotFound), a.resumeQueue)
}

// queueUse is a queue, and how it is created if it does not exist yet.
type queueUse struct {
	name               string
	streams, perTenant int
}

// queue returns the queue of that name.
func (a *API) queue(name string) (*fairqueue.Queue, error) { return a.queueOf(queueUse{name: name}) }

func (a *API) queueOf(use queueUse) (*fairqueue.Queue, error) {
	return a.queues.get(use, func() (*fairqueue.Queue, error) {
		return fairqueue.New(a.cfg.Client, use.name, fairqueue.Config{
			Streams: use.streams, PerTenant: use.perTenant,
			Logger: a.cfg.Logger, Enlister: a.cfg.Enlister, Hooks: a.cfg.Hooks,
		})
	})
}

// namesOf returns what a package lists, sorted, and what is missing.
func (a *API) namesOf(ctx context.Context, list func(context.Context, rueidis.Client) iter.Seq2[string, error],
) ([]document.Text, document.Incomplete, error) {
	var names []string
	var failed error
	for name, err := range list(ctx, a.cfg.Client) {
		if err != nil {
			failed = err
			continue
		}
		names = append(names, name)
	}
	part, err := a.whole(ctx, failed)
	slices.Sort(names)
	return document.Texts(names), part, err
}

// whole returns what is missing from a list that ended with an error. A list of which
// something is there is no error; the log has the cause.
func (a *API) whole(ctx context.Context, failed error) (document.Incomplete, error) {
	part, ok := document.OfList(failed)
	if !ok {
		return part, failed
	}
	if failed != nil {
		a.cfg.Logger.WarnContext(ctx, "a list is not whole", "error", failed)
	}
	return part, nil
}

func (a *API) listQueues(ctx context.Context, _ *nothing) (document.Queues, error) {
	names, part, err := a.namesOf(ctx, fairqueue.List)
	return document.Queues{Queues: names, Incomplete: part}, err
}

func (a *API) deleteQueue(ctx context.Context, in *named) (document.Deleted, error) {
	q, err := a.queue(in.Name)
	if err != nil {
		return document.Deleted{}, err
	}
	n, err := q.Delete(ctx)
	return document.Deleted{Deleted: n}, err
}

func (a *API) queueStats(ctx context.Context, in *named) (document.QueueStats, error) {
	q, err := a.queue(in.Name)
	if err != nil {
		return document.QueueStats{}, err
	}
	s, err := q.Stats(ctx)
	return document.OfQueueStats(s), err
}

// resizeRequest is the shape that a queue is to have.
type resizeRequest struct {
	Streams   int `json:"streams" minimum:"0" maximum:"1024" doc:"How many streams; 0 for a flow for each tenant." example:"64"`
	PerTenant int `json:"per_tenant,omitempty" minimum:"0" maximum:"1024" doc:"How many of them a tenant has. Defaults to 4, or as many as there are." example:"4"`
}

func (a *API) resizeQueue(ctx context.Context, in *namedWith[resizeRequest]) (doc document.Resized, err error) {
	q, err := a.queue(in.Name)
	if err != nil {
		return doc, err
	}
	before, err := q.Stats(ctx)
	if err != nil {
		return doc, err
	}
	if err := q.Resize(ctx, in.Body.Streams, in.Body.PerTenant); err != nil {
		return doc, err
	}
	after, err := q.Stats(ctx)
	return document.Resized{Shape: document.OfShape(after), Before: document.OfShape(before)}, err
}

// weightRequest is the weight that a tenant is to have.
type weightRequest struct {
	Tenant document.Text `json:"tenant" doc:"Whose turns; 1 to 512 bytes." example:"\"acme\""`
	Weight float64       `json:"weight" minimum:"0.01" maximum:"100" doc:"How many turns for each one of others." example:"2.5"`
}

func (a *API) weighTenant(ctx context.Context, in *namedWith[weightRequest]) (doc document.Weight, err error) {
	q, err := a.queue(in.Name)
	if err != nil {
		return doc, err
	}
	return document.Weight(in.Body), q.SetWeight(ctx, string(in.Body.Tenant), in.Body.Weight)
}

func (a *API) pauseQueue(ctx context.Context, in *namedWith[*nothing]) (document.Paused, error) {
	return a.switchReading(ctx, in.Name, true)
}

func (a *API) resumeQueue(ctx context.Context, in *namedWith[*nothing]) (document.Paused, error) {
	return a.switchReading(ctx, in.Name, false)
}

func (a *API) switchReading(ctx context.Context, name string, off bool) (doc document.Paused, err error) {
	q, err := a.queue(name)
	if err != nil {
		return doc, err
	}
	change := q.Resume
	if off {
		change = q.Pause
	}
	return document.Paused{Paused: off}, change(ctx)
}
