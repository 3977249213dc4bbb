package ops

import (
	"context"
	"net/http"

	"github.com/millrace/millrace/fairqueue"
)

// WriteMessage writes one message.
var WriteMessage = operation(Row{
	ID: "writeMessage", Words: "queue write", Method: http.MethodPost, Path: queuePath + "/messages",
	Statuses: []int{http.StatusCreated, http.StatusTooManyRequests, http.StatusInsufficientStorage},
	Class:    Work, Form: "queues/write",
	Summary: "Write a message",
	Detail:  "The first write creates the queue; only then streams and per_tenant have an effect. A write under a dedupe id that its tenant used in the last 5 minutes writes nothing, and returns the id of the first message. A write with a position of a source is written once, however late it is repeated.",
	Examples: []string{
		"queue write orders --tenant acme --body hello",
		"queue write orders --tenant acme --delay 10m --dedupe order-17 < order.json",
		"queue write orders --batch < orders.jsonl",
	},
}, func(ctx context.Context, q *fairqueue.Queue, in Write) (doc Written, err error) {
	if err := in.Check(); err != nil {
		return doc, err
	}
	written, err := q.WriteBatch(ctx, in.Message())
	if err != nil {
		return doc, err
	}
	return Written(written[0]), nil
})

// Write is the In of [WriteMessage].
type Write struct {
	Draft
	Flows
}

// WriteMessages writes several messages.
var WriteMessages = operation(Row{
	ID: "writeMessages", Method: http.MethodPost, Path: queuePath + "/messages/batch",
	Statuses: []int{http.StatusCreated, http.StatusTooManyRequests, http.StatusInsufficientStorage},
	Only:     "queue write --batch reads lines",
	Class:    Work,
	Summary:  "Write several messages",
	Detail:   "All of them or none; but a message that the queue refuses (position_gap, tenant_full, batch_over) stops no other.",
}, func(ctx context.Context, q *fairqueue.Queue, in WriteBatch) (doc WrittenBatch, err error) {
	messages := make([]fairqueue.Draft, len(in.Messages))
	for i, d := range in.Messages {
		if err := d.Check(); err != nil {
			return doc, err
		}
		messages[i] = d.Message()
	}
	written, err := q.WriteBatch(ctx, messages...)
	for _, w := range written {
		doc.Messages = append(doc.Messages, Written(w))
	}
	return doc, err
})

// WriteBatch is the In of [WriteMessages].
type WriteBatch struct {
	Messages []Draft `json:"messages" minItems:"1" maxItems:"1000"`
	Flows
}

// WrittenBatch is the Out of [WriteMessages].
type WrittenBatch struct {
	Messages []Written `json:"messages" doc:"In the order of the request."`
}
