package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/document"
)

func (a *API) routeMessages() {
	register(a, op(http.MethodPost, queuePath+"/messages", "writeMessage", "Write a message",
		"A queue begins with its first write; only then streams and per_tenant count. A write under a dedupe id that its tenant used in the last 5 minutes writes nothing, and answers with the first one's id.",
		http.StatusCreated, http.StatusInsufficientStorage), a.writeMessage)
	register(a, op(http.MethodPost, queuePath+"/messages/batch", "writeMessages", "Write several messages",
		"All of them or none, and all are checked before.",
		http.StatusCreated, http.StatusInsufficientStorage), a.writeMessages)
	register(a, op(http.MethodGet, queuePath+"/messages", "readMessages", "Take messages to work on",
		"One from each tenant in turn. They are invisible to others for the visibility, and come again, with other receipts, unless they are settled or extended by then. With block the request waits for the first one, for as long as the service lets it, which is a minute unless it was told otherwise. No messages, a paused queue and one that does not exist are no errors. If the client goes while it waits, nothing is taken."),
		a.readMessages)
	register(a, op(http.MethodPost, queuePath+"/ack", "ackMessages", "Say that messages were handled",
		"They are gone. If all receipts are stale it is an error."), a.ackMessages)
	register(a, op(http.MethodPost, queuePath+"/nack", "nackMessages", "Give messages back that could not be handled",
		"They come again in their old places, unless they were delivered too often and are dead. If all receipts are stale it is an error."),
		a.nackMessages)
	register(a, op(http.MethodPost, queuePath+"/extend", "extendMessages", "Keep messages invisible for longer",
		"Counted from now on, so that they may also come sooner. If all receipts are stale it is an error."), a.extendMessages)
	register(a, op(http.MethodPost, queuePath+"/cancel", "cancelMessages", "Remove messages that are not done yet",
		"By their ids. The receipt of one in flight is stale from then on. If none of them is there any more it is an error.",
		http.StatusNotFound), a.cancelMessages)
}

// writeRequest is a message that is to be written.
type writeRequest struct {
	document.Draft

	Streams   int `json:"streams,omitempty" minimum:"0" maximum:"1024" doc:"How many streams the flows of the queue are if it is new. Defaults to 0, a flow for each tenant." example:"64"`
	PerTenant int `json:"per_tenant,omitempty" minimum:"0" maximum:"1024" doc:"How many of them a tenant has, if the queue is new and has streams. Defaults to 4." example:"4"`
}

func (a *API) writeMessage(ctx context.Context, in *namedWith[writeRequest]) (doc document.Written, err error) {
	written, err := a.write(ctx, queueUse{in.Name, in.Body.Streams, in.Body.PerTenant}, in.Body.Draft)
	if err != nil {
		return doc, err
	}
	return document.OfWritten(written[0]), nil
}

// batchRequest is several messages that are to be written.
type batchRequest struct {
	Messages  []document.Draft `json:"messages" minItems:"1" maxItems:"1000"`
	Streams   int              `json:"streams,omitempty" minimum:"0" maximum:"1024" doc:"How many streams the flows of the queue are if it is new. Defaults to 0, a flow for each tenant." example:"64"`
	PerTenant int              `json:"per_tenant,omitempty" minimum:"0" maximum:"1024" doc:"How many of them a tenant has, if the queue is new and has streams. Defaults to 4." example:"4"`
}

// writtenBatch is what became of them.
type writtenBatch struct {
	Messages []document.Written `json:"messages" doc:"In the order of the request."`
}

func (a *API) writeMessages(ctx context.Context, in *namedWith[batchRequest]) (doc writtenBatch, err error) {
	written, err := a.write(ctx, queueUse{in.Name, in.Body.Streams, in.Body.PerTenant}, in.Body.Messages...)
	for _, one := range written {
		doc.Messages = append(doc.Messages, document.OfWritten(one))
	}
	return doc, err
}

func (a *API) write(ctx context.Context, use queueUse, drafts ...document.Draft) ([]fairqueue.Written, error) {
	q, err := a.queueOf(use)
	if err != nil {
		return nil, err
	}
	messages := make([]fairqueue.Draft, len(drafts))
	for i, d := range drafts {
		messages[i] = d.Message()
	}
	return q.WriteBatch(ctx, messages...)
}

// readRequest asks for messages.
type readRequest struct {
	Name       string            `path:"name" doc:"The queue's name, percent-encoded." example:"orders"`
	Max        int               `query:"max" default:"1" minimum:"1" maximum:"1000" doc:"How many messages at most."`
	Block      document.Duration `query:"block" doc:"For how long to wait for the first one. Defaults to 0s, not at all." example:"30s"`
	Visibility document.Duration `query:"visibility" doc:"After how long they come again unless they are settled or extended, from 10ms to 12h. Defaults to 30s." example:"5m"`
}

func (r *readRequest) wait() time.Duration { return r.Block.Duration }

func (a *API) readMessages(ctx context.Context, in *readRequest) (doc document.Messages, err error) {
	q, err := a.queue(in.Name)
	if err != nil {
		return doc, err
	}
	ctx, done := a.whileServing(ctx)
	defer done()
	messages, err := q.Read(ctx, fairqueue.ReadConfig{
		Max: in.Max, Block: min(in.wait(), a.cfg.MaxBlock), Visibility: in.Visibility.Duration,
	})
	paused := errors.Is(err, fairqueue.ErrPaused)
	if paused || errors.Is(err, fairqueue.ErrEmpty) || errors.Is(err, errDraining) {
		err = nil
	}
	return document.OfMessages(messages, paused), err
}

// ackRequest says what was handled.
type ackRequest struct {
	Receipts []string `json:"receipts" minItems:"1" maxItems:"1000" doc:"Of the deliveries." example:"[\"cjE3OTUyMjY0MDAxMDAzMjExNzk1MjI2NDAwMTYxSzdRMk1aWEQxOj1hY21lATQxNzk1MjI2NDAwMTAwMzIx\"]"`
}

// acked is what was acknowledged.
type acked struct {
	Acked int `json:"acked" doc:"Messages that are gone by this." example:"1"`
	Stale int `json:"stale" doc:"Receipts that are not good any more." example:"0"`
}

func (a *API) ackMessages(ctx context.Context, in *namedWith[ackRequest]) (doc acked, err error) {
	q, err := a.queue(in.Name)
	if err != nil {
		return doc, err
	}
	n, err := q.Ack(ctx, in.Body.Receipts...)
	return acked{n, len(in.Body.Receipts) - n}, unlessAll(err, n)
}

// unlessAll passes over stale receipts if others were good.
func unlessAll(err error, good int) error {
	if errors.Is(err, millrace.ErrStale) && good > 0 {
		return nil
	}
	return err
}

// nackRequest gives messages back.
type nackRequest struct {
	Receipts []string          `json:"receipts" minItems:"1" maxItems:"1000" doc:"Of the deliveries." example:"[\"cjE3OTUyMjY0MDAxMDAzMjExNzk1MjI2NDAwMTYxSzdRMk1aWEQxOj1hY21lATQxNzk1MjI2NDAwMTAwMzIx\"]"`
	Delay    document.Duration `json:"delay,omitzero" doc:"After how long they come again. Defaults to 0s, at once." example:"1m"`
	Reason   document.Text     `json:"reason,omitempty" doc:"Why, for people who find them dead; 512 bytes of it are kept." example:"\"no such article\""`
	Dead     bool              `json:"dead,omitempty" doc:"They are not worth another try: let them be dead."`
}

// nacked is what was given back.
type nacked struct {
	Nacked int `json:"nacked" doc:"Messages that were given back, or are dead." example:"1"`
	Stale  int `json:"stale" doc:"Receipts that are not good any more." example:"0"`
}

func (a *API) nackMessages(ctx context.Context, in *namedWith[nackRequest]) (doc nacked, err error) {
	q, err := a.queue(in.Name)
	if err != nil {
		return doc, err
	}
	how := fairqueue.NackConfig{Delay: in.Body.Delay.Duration, Reason: string(in.Body.Reason), Dead: in.Body.Dead}
	if how.Dead && how.Delay > 0 {
		return doc, errRequest.Errorf("a message that is dead does not come again after a delay: dead or delay")
	}
	n, err := q.Nack(ctx, how, in.Body.Receipts...)
	return nacked{n, len(in.Body.Receipts) - n}, unlessAll(err, n)
}

// extendRequest keeps messages invisible.
type extendRequest struct {
	Receipts   []string          `json:"receipts" minItems:"1" maxItems:"1000" doc:"Of the deliveries." example:"[\"cjE3OTUyMjY0MDAxMDAzMjExNzk1MjI2NDAwMTYxSzdRMk1aWEQxOj1hY21lATQxNzk1MjI2NDAwMTAwMzIx\"]"`
	Visibility document.Duration `json:"visibility" doc:"For how long from now on, from 10ms to 12h." example:"5m"`
}

// extended is what was extended.
type extended struct {
	Extended int      `json:"extended" doc:"Messages that stay invisible." example:"1"`
	Stale    int      `json:"stale" doc:"Receipts that are not good any more." example:"0"`
	Receipts []string `json:"stale_receipts" doc:"Those: stop work on their messages." example:"[]"`
}

func (a *API) extendMessages(ctx context.Context, in *namedWith[extendRequest]) (doc extended, err error) {
	q, err := a.queue(in.Name)
	if err != nil {
		return doc, err
	}
	good, err := q.Extend(ctx, in.Body.Visibility.Duration, in.Body.Receipts...)
	if err != nil {
		return doc, err
	}
	doc.Receipts = []string{}
	for i, receipt := range in.Body.Receipts {
		if good[i] {
			doc.Extended++
		} else {
			doc.Receipts = append(doc.Receipts, receipt)
		}
	}
	if doc.Stale = len(doc.Receipts); doc.Extended == 0 {
		return doc, millrace.ErrStale.Errorf("the receipt is stale")
	}
	return doc, nil
}

// idsRequest names messages.
type idsRequest struct {
	IDs []string `json:"ids" minItems:"1" maxItems:"1000" doc:"Ids of messages, which a write and a read answer with." example:"[\"1795226400100321\"]"`
}

func (a *API) cancelMessages(ctx context.Context, in *namedWith[idsRequest]) (doc document.Cancelled, err error) {
	q, err := a.queue(in.Name)
	if err != nil {
		return doc, err
	}
	places, err := q.Cancel(ctx, in.Body.IDs...)
	if err != nil {
		return doc, err
	}
	if doc = document.OfCancelled(in.Body.IDs, places); doc.Cancelled == 0 {
		return doc, errNoMessage
	}
	return doc, nil
}

var errNoMessage = &millrace.Error{
	Code:    "not_found",
	Message: "no such message waits, is delayed or in flight",
	Hint:    "It is done, or dead; see the dead ones with GET /v1/queues/{name}/dead.",
}
