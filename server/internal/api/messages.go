package api

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/document"
	"github.com/millrace/millrace/internal/ops"
)

func (a *API) routeMessages() {
	tellQueue(a, ops.WriteMessage)
	onQueue(a, op(http.MethodPost, queuePath+"/messages/batch", "writeMessages", "Write several messages",
		"All of them or none; but a message that the queue refuses (position_gap, tenant_full) stops no other.", http.StatusCreated, http.StatusTooManyRequests, http.StatusInsufficientStorage), writeMessages)
	onQueue(a, op(http.MethodPost, queuePath+"/receive", "receiveMessages", "Take messages to work on",
		"One from each tenant in turn. They are invisible to other readers for the visibility timeout; then they are redelivered with new receipts, unless they were settled or extended. With block the request waits for the first message. An empty, a paused or a missing queue is no error. If the client disconnects while it waits, it takes nothing. With an Idempotency-Key, a repeat gets the same messages with the same receipts, for as long as they stay invisible."),
		a.receiveMessages)
	onQueue(a, op(http.MethodPost, queuePath+"/ack", "ackMessages", "Acknowledge messages",
		"They are removed. It is an error if all receipts are stale."), ackMessages)
	onQueue(a, op(http.MethodPost, queuePath+"/nack", "nackMessages", "Return messages that failed",
		"They are redelivered in their old order, unless they were delivered too often: then they are dead. It is an error if all receipts are stale."), nackMessages)
	onQueue(a, op(http.MethodPost, queuePath+"/extend", "extendMessages", "Keep messages invisible for longer",
		"The new time counts from now, so it may also be shorter. It is an error if all receipts are stale."), extendMessages)
	tellQueue(a, ops.CancelMessages)
}

type batchRequest struct {
	Messages []document.Draft `json:"messages" minItems:"1" maxItems:"1000"`
	ops.Flows
}

type writtenBatch struct {
	Messages []document.Written `json:"messages" doc:"In the order of the request."`
}

func writeMessages(ctx context.Context, q *fairqueue.Queue, in *namedWith[batchRequest]) (doc writtenBatch, err error) {
	messages := make([]fairqueue.Draft, len(in.Body.Messages))
	for i, d := range in.Body.Messages {
		messages[i] = d.Message()
	}
	written, err := q.WriteBatch(ctx, messages...)
	for _, w := range written {
		doc.Messages = append(doc.Messages, document.Written(w))
	}
	return doc, err
}

type receiveRequest struct {
	Max        int               `json:"max,omitempty" default:"1" minimum:"1" maximum:"1000" doc:"The largest number of messages." example:"10"`
	Block      document.Duration `json:"block,omitzero" doc:"How long to wait for the first message. Defaults to 0s, no waiting." example:"30s"`
	Visibility document.Duration `json:"visibility,omitzero" doc:"How long the messages stay invisible unless they are settled or extended, from 10ms to 12h. Defaults to 30s." example:"5m"`
}

// receive is a request for messages. The body may be left out.
type receive struct {
	Named

	Body *receiveRequest
}

// defaultVisibility is how long messages stay invisible if the request does not say.
const defaultVisibility = 30 * time.Second

func (r *receive) of() (wanted receiveRequest) {
	if r.Body != nil {
		wanted = *r.Body
	}
	wanted.Visibility.Duration = cmp.Or(wanted.Visibility.Duration, defaultVisibility)
	return wanted
}

func (r *receive) wait() (field string, d time.Duration) { return "block", r.of().Block.Duration }

func (a *API) receiveMessages(ctx context.Context, q *fairqueue.Queue, in *receive) (document.Messages, error) {
	ctx, done := a.whileServing(ctx)
	defer done()
	wanted := in.of()
	messages, err := q.Read(ctx, fairqueue.ReadConfig{
		Max: wanted.Max, Block: wanted.Block.Duration, Visibility: wanted.Visibility.Duration,
	})
	trueFor(ctx, wanted.Visibility.Duration)
	paused := errors.Is(err, fairqueue.ErrPaused)
	if paused || errors.Is(err, fairqueue.ErrEmpty) || errors.Is(err, errDraining) {
		err = nil
	}
	return document.OfMessages(messages, paused), err
}

// Deliveries are given by their receipts.
type Deliveries struct {
	Receipts []string `json:"receipts" minItems:"1" maxItems:"1000" doc:"Of the deliveries." example:"[\"cjE3OTUyMjY0MDAxMDAzMjExNzk1MjI2NDAwMTYxSzdRMk1aWEQxOj1hY21lATQxNzk1MjI2NDAwMTAwMzIx\"]"`
}

type ackRequest struct{ Deliveries }

type acked struct {
	Acked int `json:"acked" doc:"Messages that were removed." example:"1"`
	Stale int `json:"stale" doc:"Receipts that are stale." example:"0"`
}

func ackMessages(ctx context.Context, q *fairqueue.Queue, in *namedWith[ackRequest]) (acked, error) {
	n, err := q.Ack(ctx, in.Body.Receipts...)
	return acked{n, len(in.Body.Receipts) - n}, ignoreStale(err, n)
}

// ignoreStale ignores stale receipts if other receipts were valid.
func ignoreStale(err error, valid int) error {
	if errors.Is(err, millrace.ErrStale) && valid > 0 {
		return nil
	}
	return err
}

type nackRequest struct {
	Deliveries

	Delay  document.Duration `json:"delay,omitzero" doc:"When to redeliver them. Defaults to 0s, at once." example:"1m"`
	Reason document.Text     `json:"reason,omitempty" doc:"Why they failed, for people; 512 bytes of it are kept." example:"\"no such article\""`
	Dead   bool              `json:"dead,omitempty" doc:"Make them dead messages instead of redelivering them."`
}

type nacked struct {
	Nacked int `json:"nacked" doc:"Messages that were returned, or are dead." example:"1"`
	Stale  int `json:"stale" doc:"Receipts that are stale." example:"0"`
}

func nackMessages(ctx context.Context, q *fairqueue.Queue, in *namedWith[nackRequest]) (doc nacked, err error) {
	how := fairqueue.NackConfig{Delay: in.Body.Delay.Duration, Reason: string(in.Body.Reason), Dead: in.Body.Dead}
	if how.Dead && how.Delay > 0 {
		return doc, errRequest.Errorf("dead and delay exclude each other")
	}
	n, err := q.Nack(ctx, how, in.Body.Receipts...)
	return nacked{n, len(in.Body.Receipts) - n}, ignoreStale(err, n)
}

type extendRequest struct {
	Deliveries

	Visibility document.Duration `json:"visibility" doc:"How long from now on, from 10ms to 12h." example:"5m"`
}

type extended struct {
	Extended int      `json:"extended" doc:"Messages that stay invisible." example:"1"`
	Stale    int      `json:"stale" doc:"Receipts that are stale." example:"0"`
	Receipts []string `json:"stale_receipts" doc:"The stale receipts: stop work on their messages." example:"[]"`
}

func extendMessages(ctx context.Context, q *fairqueue.Queue, in *namedWith[extendRequest]) (doc extended, err error) {
	ends := time.Now().Add(in.Body.Visibility.Duration)
	valid, err := q.Extend(ctx, in.Body.Visibility.Duration, in.Body.Receipts...)
	trueFor(ctx, time.Until(ends))
	if err != nil {
		return doc, err
	}
	doc.Receipts = []string{}
	for i, receipt := range in.Body.Receipts {
		if valid[i] {
			doc.Extended++
		} else {
			doc.Receipts = append(doc.Receipts, receipt)
		}
	}
	if doc.Stale = len(doc.Receipts); doc.Extended == 0 {
		return doc, millrace.ErrStale
	}
	return doc, nil
}
