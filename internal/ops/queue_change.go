package ops

import (
	"context"
	"net/http"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
)

// DeleteQueue deletes a queue.
var DeleteQueue = operation(Row{
	ID: "deleteQueue", Words: "queue rm", Method: http.MethodDelete, Path: queuePath,
	Class: Change, Action: "queue.delete", Form: "queues/delete",
	Summary:  "Delete a queue with all its messages",
	Detail:   "All messages are lost: waiting, delayed, in flight and dead. Stop writers and readers first; the next write creates the queue again. The answer counts the queue's keys; it is 0 if there is no such queue.",
	Examples: []string{"queue rm orders", "queue rm orders --yes"},
}, func(ctx context.Context, q *fairqueue.Queue, _ Queue) (Deleted, error) {
	n, err := q.Delete(ctx)
	return Deleted{Deleted: n}, err
})

// ResizeQueue changes the flows of a queue.
var ResizeQueue = operation(Row{
	ID: "resizeQueue", Words: "queue resize", Method: http.MethodPost, Path: queuePath + "/resize",
	Statuses: []int{http.StatusNotFound, http.StatusInsufficientStorage},
	Class:    Change, Action: "queue.resize", Form: "queues/resize",
	Summary:  "Change the flows of a queue",
	Detail:   "Flows take turns. With 0 streams each tenant is a flow. With more streams, each stream is a flow, and each tenant uses some of them. It applies to new messages; older messages stay in their flows and still take turns. Writers need no restart.",
	Examples: []string{"queue resize orders 128", "queue resize orders 32 --per-tenant 2", "queue resize orders 0"},
}, func(ctx context.Context, q *fairqueue.Queue, in Resize) (doc Resized, err error) {
	before, err := q.Stats(ctx)
	if err != nil {
		return doc, err
	}
	if err := q.Resize(ctx, in.Streams, in.PerTenant); err != nil {
		return doc, err
	}
	after, err := q.Stats(ctx)
	return Resized{Shape: OfShape(after), Before: OfShape(before)}, err
})

// Resize is the In of [ResizeQueue].
type Resize struct {
	Streams   int `json:"streams" arg:"" name:"n" minimum:"0" maximum:"1024" doc:"How many streams; 0 for one flow for each tenant." example:"64"`
	PerTenant int `json:"per_tenant,omitempty" placeholder:"K" minimum:"0" maximum:"1024" doc:"How many of them each tenant uses. Defaults to 4, or to all streams if there are fewer." example:"4"`
}

// CancelMessages removes messages that are not done yet.
var CancelMessages = operation(Row{
	ID: "cancelMessages", Words: "queue cancel", Method: http.MethodPost, Path: queuePath + "/cancel", Statuses: []int{http.StatusNotFound},
	Class: Withdraw, Action: "queue.cancel", Form: "queues/cancel",
	Summary:  "Remove messages that are not done yet",
	Detail:   "By their ids. The receipt of a message in flight becomes stale: its reader learns it when it next extends its time. It is an error if none of the messages exists.",
	Examples: []string{"queue cancel orders 1795226400123456"},
}, func(ctx context.Context, q *fairqueue.Queue, in Cancel) (doc Cancelled, err error) {
	states, err := q.Cancel(ctx, in.IDs...)
	if err != nil {
		return doc, err
	}
	if doc = OfCancelled(in.IDs, states); doc.Cancelled == 0 {
		return doc, millrace.ErrNotFound.Errorf("no such message waits, is delayed or in flight").WithHint("It is done, or dead: look among the dead messages.")
	}
	return doc, nil
})

// Cancel is the In of [CancelMessages].
type Cancel struct {
	IDs []string `json:"ids" arg:"" name:"id" minItems:"1" maxItems:"1000" doc:"Ids of messages, as write and read return them." example:"[\"1795226400100321\"]"`
}

// Nowhere is the place of a message that could not be cancelled: it is done or dead.
const Nowhere = "nowhere"

// CancelledMessage is the result for one message.
type CancelledMessage struct {
	ID  string `json:"id" example:"1795226400100321"`
	Was string `json:"was" doc:"Its state before; nowhere if it is done, dead or unknown." enum:"waiting,delayed,in_flight,nowhere"`
}

// Cancelled is the result of a cancellation.
type Cancelled struct {
	Cancelled int                `json:"cancelled" doc:"How many were removed." example:"1"`
	Messages  []CancelledMessage `json:"messages" doc:"All messages of the request, in order."`
}

// OfCancelled converts the result of a cancellation.
func OfCancelled(ids []string, states []fairqueue.State) Cancelled {
	doc := Cancelled{Messages: make([]CancelledMessage, len(states))}
	for i, state := range states {
		doc.Messages[i] = CancelledMessage{ids[i], Nowhere}
		if state != fairqueue.Gone {
			doc.Messages[i].Was = string(state)
			doc.Cancelled++
		}
	}
	return doc
}

// Resized is the shape of a queue after and before a change.
type Resized struct {
	Shape

	Before Shape `json:"before"`
}
