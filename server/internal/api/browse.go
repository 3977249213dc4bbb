package api

import (
	"context"
	"net/http"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/document"
	"github.com/millrace/millrace/internal/reqid"
)

func (a *API) routeBrowse() {
	register(a, op(http.MethodGet, queuePath+"/browse", "browseMessages", "Look at messages without taking them",
		"Those that wait come flow by flow, in their order; others by the time until which they are in flight or set aside. A call looks at 1,000 messages at most, so for a tenant in a crowd there may be fewer than max, or none, and next all the same.",
		http.StatusNotFound), a.browseMessages)
	register(a, op(http.MethodGet, queuePath+"/dead", "listDead", "List dead messages, the oldest death first",
		"Those that were delivered too often, or that their reader gave up. With after, those before it are gone through, too.",
		http.StatusNotFound), a.listDead)
	register(a, op(http.MethodPost, queuePath+"/dead/redrive", "redriveDead", "Have dead messages tried again",
		"They wait again, as if they had never been delivered, and without their deadline. Messages that are not dead are passed over.",
		http.StatusNotFound, http.StatusInsufficientStorage), a.redriveDead)
	register(a, op(http.MethodPost, queuePath+"/dead/purge", "purgeDead", "Forget dead messages for good",
		"Messages that are not dead are passed over.", http.StatusNotFound), a.purgeDead)
	register(a, op(http.MethodPost, queuePath+"/dead/keep", "keepDead", "Bound how many dead messages are kept, and for how long",
		"The oldest are dropped when another dies, and counted.", http.StatusNotFound), a.keepDead)
}

// browseRequest asks to look at messages.
type browseRequest struct {
	Name   string `path:"name" doc:"The queue's name, percent-encoded." example:"orders"`
	Place  string `query:"place" default:"waiting" enum:"waiting,in_flight,delayed" doc:"Where the messages are."`
	Tenant string `query:"tenant" doc:"Leaves out the messages of all others. Defaults to everybody's." example:"acme"`
	Max    int    `query:"max" default:"100" minimum:"1" maximum:"1000" doc:"How many messages at most."`
	After  string `query:"after" doc:"Where to go on: next of the page before. Defaults to the beginning."`
}

// browsedMessages is a page of messages.
type browsedMessages struct {
	Messages []browsedMessage `json:"messages"`
	Next     string           `json:"next" doc:"Where to go on; empty at the end."`
}

// browsedMessage is a message that somebody looks at.
type browsedMessage struct {
	ID        string                   `json:"id" example:"1795226400100321"`
	Tenant    document.Text            `json:"tenant" example:"\"acme\""`
	Body      document.Text            `json:"body" example:"\"{\\\"order\\\":17}\""`
	Headers   map[string]document.Text `json:"headers" doc:"Empty when there are none."`
	Stream    int                      `json:"stream" doc:"The index of the stream that is its flow; -1 if its tenant is." example:"-1"`
	Priority  int                      `json:"priority,omitempty" doc:"Its place among the messages of its tenant. Absent if it is 0." example:"1"`
	Attempts  int                      `json:"attempts" doc:"How often it was delivered so far."`
	WrittenAt time.Time                `json:"written_at" doc:"By the server's clock, in UTC."`
	Deadline  *time.Time               `json:"deadline,omitempty" doc:"When it is worth nothing any more. Absent for never."`
	Until     *time.Time               `json:"until,omitempty" doc:"Until when it is in flight or set aside."`
	Since     *time.Time               `json:"since,omitempty" doc:"When it was delivered, if it is in flight."`
	Consumed  bool                     `json:"consumed,omitempty" doc:"It is in flight with a handler of a program that consumes. Absent if it is not."`
	Garbled   string                   `json:"garbled,omitempty" doc:"Why no reader could make sense of it."`
}

func (a *API) browseMessages(ctx context.Context, in *browseRequest) (doc browsedMessages, err error) {
	q, err := a.queue(in.Name)
	if err != nil {
		return doc, err
	}
	messages, next, err := q.Browse(ctx, fairqueue.BrowseConfig{
		State: fairqueue.State(in.Place), Tenant: in.Tenant, Max: in.Max, After: in.After,
	})
	doc = browsedMessages{make([]browsedMessage, len(messages)), next}
	for i, m := range messages {
		doc.Messages[i] = browsedMessage{
			ID: m.ID, Tenant: document.Text(m.Tenant), Body: document.Text(m.Body), Headers: document.OfHeaders(m.Headers),
			Stream: m.Stream, Priority: m.Priority, Attempts: m.Attempt, WrittenAt: m.Written.UTC(),
			Deadline: moment(m.Deadline), Until: moment(m.Until), Since: moment(m.Since), Consumed: m.Consumed, Garbled: m.DecodeError,
		}
	}
	return doc, err
}

// moment is a time in a document, if it is one.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// deadRequest asks for dead messages.
type deadRequest struct {
	Name  string `path:"name" doc:"The queue's name, percent-encoded." example:"orders"`
	Max   int    `query:"max" default:"100" minimum:"1" maximum:"1000" doc:"How many messages at most."`
	After string `query:"after" doc:"Where to go on: next of the page before. Defaults to the beginning."`
}

// deadMessages is a page of dead messages.
type deadMessages struct {
	Dead []document.DeadMessage `json:"dead"`
	Next string                 `json:"next" doc:"Where to go on; empty at the end."`
}

func (a *API) listDead(ctx context.Context, in *deadRequest) (doc deadMessages, err error) {
	q, err := a.queue(in.Name)
	if err != nil {
		return doc, err
	}
	doc.Dead = []document.DeadMessage{}
	found := in.After == ""
	err = eachDead(ctx, q, func(m fairqueue.Message) (more bool) {
		if !found {
			found = m.ID == in.After
			return true
		}
		if len(doc.Dead) == in.Max {
			doc.Next = doc.Dead[in.Max-1].ID
			return false
		}
		doc.Dead = append(doc.Dead, document.OfDead(m))
		return true
	})
	if err == nil && !found {
		err = errNotDead
	}
	return doc, err
}

var errNotDead = &millrace.Error{
	Code:    "not_found",
	Message: "the message to go on after is not dead any more",
	Hint:    "Begin again without after.",
}

// eachDead calls do with the dead messages of a queue, which must exist, until it
// wants no more.
func eachDead(ctx context.Context, q *fairqueue.Queue, do func(fairqueue.Message) (more bool)) error {
	if _, err := q.Stats(ctx); err != nil {
		return err
	}
	for m, err := range q.Dead(ctx) {
		if err != nil || !do(m) {
			return err
		}
	}
	return nil
}

// deadChoice names dead messages.
type deadChoice struct {
	IDs []string `json:"ids,omitempty" minItems:"1" maxItems:"1000" doc:"Ids of dead messages." example:"[\"1795226400110405\"]"`
	All bool     `json:"all,omitempty" doc:"All that are dead, instead of ids."`
}

// of returns the queue and the ids of the messages that are chosen.
func (c deadChoice) of(ctx context.Context, a *API, name string) (*fairqueue.Queue, []string, error) {
	if c.All == (len(c.IDs) > 0) {
		return nil, nil, errRequest.Errorf("name messages by their ids, or say that you mean all")
	}
	q, err := a.queue(name)
	if err != nil || !c.All {
		return q, c.IDs, err
	}
	var ids []string
	err = eachDead(ctx, q, func(m fairqueue.Message) bool {
		ids = append(ids, m.ID)
		return true
	})
	return q, ids, err
}

func (a *API) redriveDead(ctx context.Context, in *namedWith[deadChoice]) (doc document.Redriven, err error) {
	q, ids, err := in.Body.of(ctx, a, in.Name)
	if err != nil {
		return doc, err
	}
	if in.Body.All {
		// A repeat finds fewer that are dead. Under the ids of the first time, a call
		// with others would be taken for one that was done.
		ctx = reqid.With(ctx, "")
	}
	doc.Redriven, err = q.Redrive(ctx, ids...)
	return doc, err
}

func (a *API) purgeDead(ctx context.Context, in *namedWith[deadChoice]) (doc document.Purged, err error) {
	q, ids, err := in.Body.of(ctx, a, in.Name)
	if err != nil {
		return doc, err
	}
	doc.Purged, err = q.Purge(ctx, ids...)
	return doc, err
}

// keepRequest is which dead messages are to be kept.
type keepRequest struct {
	Max int               `json:"max,omitempty" minimum:"0" doc:"How many. Defaults to 0, all." example:"10000"`
	Age document.Duration `json:"age,omitzero" doc:"For how long. Defaults to 0s, for ever." example:"720h"`
}

func (a *API) keepDead(ctx context.Context, in *namedWith[keepRequest]) (doc document.KeptDead, err error) {
	q, err := a.queue(in.Name)
	if err != nil {
		return doc, err
	}
	return document.KeptDead{Max: in.Body.Max, Age: in.Body.Age.Milliseconds()}, q.KeepDead(ctx, in.Body.Max, in.Body.Age.Duration)
}
