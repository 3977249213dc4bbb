package ops

import (
	"context"
	"net/http"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/jsontype"
)

// ShowMessage finds a message by its id, in whichever state it is.
var ShowMessage = operation(Row{
	ID: "getMessage", Words: "queue show", Method: http.MethodGet, Path: queuePath + "/messages/{id}", Statuses: []int{http.StatusNotFound},
	Class:    Look,
	Summary:  "Show a message, and where it is",
	Detail:   "Its state, what it waits for, how often it was delivered, until when it is delayed or in flight, and why it was given back last or died. A message that was acknowledged, cancelled or purged, or has expired, is not there any more. Of the messages in flight, 100,000 are examined.",
	Examples: []string{"queue show orders 1795226400100321", "queue show orders 1795226400100321 --json | jq -r .state"},
}, func(ctx context.Context, q *fairqueue.Queue, in MessageID) (doc ShownMessage, err error) {
	for range 2 { // it may move from a state that comes later to one that was examined
		for _, state := range []fairqueue.State{fairqueue.Waiting, fairqueue.InFlight, fairqueue.Delayed, fairqueue.Dead} {
			found, err := q.Search(ctx, fairqueue.SearchConfig{State: state, ID: in.ID, Look: 100_000})
			if err != nil {
				return doc, err
			}
			if len(found.Messages) > 0 {
				doc = ShownMessage{State: string(state), BrowsedMessage: BrowsedMessages(found.Messages)[0]}
				if state == fairqueue.Waiting {
					doc.WaitsFor, err = waitsFor(ctx, q, found.Messages[0])
				}
				return doc, err
			}
		}
	}
	return doc, millrace.ErrNotFound.Errorf("the queue has no message %s", in.ID).
		WithHint("It was acknowledged, cancelled or purged, has expired, or never was in this queue.")
})

// waitsFor returns what the flow of a message waits for, empty if the stats do not show the flow.
func waitsFor(ctx context.Context, q *fairqueue.Queue, m fairqueue.Message) (string, error) {
	s, err := q.Stats(ctx)
	for _, f := range s.Flows {
		if err == nil && (f.Stream >= 0 && f.Stream == m.Stream || f.Stream < 0 && f.Tenant == m.Tenant) {
			return string(diagnosis.WhyWaits(s)(f)), nil
		}
	}
	return "", err
}

// MessageID names a message of a queue.
type MessageID struct {
	Queue jsontype.Text `arg:"" path:"name" complete:"queue" doc:"The queue's name, 1 to 512 bytes." example:"\"orders\""`
	ID    string        `arg:"" name:"id" path:"id" doc:"The id of the message." example:"1795226400100321"`
}

// Structure returns the name of the queue.
func (m MessageID) Structure() string { return string(m.Queue) }

// ShownMessage is a message and where it is.
type ShownMessage struct {
	State    string `json:"state" enum:"waiting,in_flight,delayed,dead" example:"waiting"`
	WaitsFor string `json:"waits_for,omitempty" enum:"turn,handlers,in_flight,rate,pause,queue,reader,server" doc:"What the messages of its tenant wait for, if it waits: their turn; the tenant's handlers, of which it has its share; its most in flight; its rate; a pause or a throttle of it; the pause of the queue; a reader, of which there is none; the server, which takes no writes. Absent if that is not known."`

	BrowsedMessage
}
