package ops

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/jsontype"
)

// ReceiveMessages takes messages.
var ReceiveMessages = operation(Row{
	ID: "receiveMessages", Words: "queue read", Method: http.MethodPost, Path: queuePath + "/receive",
	Class:   Work,
	Summary: "Take messages to work on",
	Detail: "One from each tenant in turn. They are invisible to other readers for the visibility timeout; then they are redelivered with new receipts, unless they were settled or extended. With block it waits for the first message. An empty, a paused or a missing queue is no error. " +
		"A client of HTTP that disconnects while it waits takes nothing, and a repeat with its Idempotency-Key gets the same messages with the same receipts, for as long as they stay invisible.",
	Examples: []string{"queue read orders", "queue read orders --max 100 --block 30s --visibility 5m --json"},
}, func(ctx context.Context, q *fairqueue.Queue, in Receive) (Messages, error) {
	messages, err := q.Read(ctx, fairqueue.ReadConfig{Max: in.Max, Block: in.Block.Duration, Visibility: in.Invisible()})
	paused := errors.Is(err, fairqueue.ErrPaused)
	if paused || errors.Is(err, fairqueue.ErrEmpty) {
		err = nil
	}
	return OfMessages(messages, paused), err
})

// Receive is the In of [ReceiveMessages].
type Receive struct {
	Max        int               `json:"max,omitempty" placeholder:"N" default:"1" minimum:"1" maximum:"1000" doc:"The largest number of messages." example:"10"`
	Block      jsontype.Duration `json:"block,omitzero" placeholder:"DURATION" doc:"How long to wait for the first message. Defaults to 0s, no waiting." example:"30s"`
	Visibility jsontype.Duration `json:"visibility,omitzero" placeholder:"DURATION" doc:"How long the messages stay invisible unless they are settled or extended, from 10ms to 12h. Defaults to 30s." example:"5m"`
}

// defaultVisibility is how long messages stay invisible if the request does not say.
const defaultVisibility = 30 * time.Second

// Invisible returns how long the messages stay invisible.
func (r Receive) Invisible() time.Duration { return cmp.Or(r.Visibility.Duration, defaultVisibility) }

// Receipts are those of deliveries.
type Receipts struct {
	List []string `json:"receipts" arg:"" name:"receipt" minItems:"1" maxItems:"1000" doc:"The receipts of deliveries." example:"[\"cjE3OTUyMjY0MDAxMDAzMjExNzk1MjI2NDAwMTYxSzdRMk1aWEQxOj1hY21lATQxNzk1MjI2NDAwMTAwMzIx\"]"`
}

// AckMessages acknowledges messages. With an error that is [millrace.ErrStale], the receipts that
// were not stale count all the same.
var AckMessages = operation(Row{
	ID: "ackMessages", Words: "queue ack", Method: http.MethodPost, Path: queuePath + "/ack",
	Class:    Work,
	Summary:  "Acknowledge messages",
	Detail:   "They are removed. A receipt is stale if its message was given to another reader by now, was cancelled or is acknowledged already. The other receipts count all the same. It is an error if all receipts are stale; for the command, if one is.",
	Examples: []string{"queue ack orders RECEIPT"},
}, func(ctx context.Context, q *fairqueue.Queue, in Ack) (Acked, error) {
	n, err := q.Ack(ctx, in.List...)
	return Acked{n, len(in.List) - n}, err
})

// Ack is the In of [AckMessages].
type Ack struct{ Receipts }

// Acked is the Out of [AckMessages].
type Acked struct {
	Acked int `json:"acked" doc:"Messages that were removed." example:"1"`
	Stale int `json:"stale" doc:"Receipts that are stale." example:"0"`
}

// Settled returns how many receipts were not stale.
func (a Acked) Settled() int { return a.Acked }

// NackMessages returns messages. With an error that is [millrace.ErrStale], the receipts that were
// not stale count all the same.
var NackMessages = operation(Row{
	ID: "nackMessages", Words: "queue nack", Method: http.MethodPost, Path: queuePath + "/nack",
	Class: Withdraw, Action: "queue.dead", Form: "queues/return",
	Summary: "Return messages that failed",
	Detail:  "They are redelivered in their old order, unless they were delivered too often: then they are dead. It is an error if all receipts are stale; for the command, if one is.",
	Examples: []string{
		`queue nack orders RECEIPT --delay 1m --reason "the shop does not answer"`,
		`queue nack orders RECEIPT --dead --reason "no such article"`,
	},
}, func(ctx context.Context, q *fairqueue.Queue, in Nack) (doc Nacked, err error) {
	cfg := fairqueue.NackConfig{Reason: string(in.Reason), Dead: in.Dead, BackOff: in.Delay == nil}
	if in.Delay != nil {
		cfg.Delay = in.Delay.Duration
	}
	if in.Dead && cfg.Delay > 0 {
		return doc, ErrRequest.Errorf("dead and delay exclude each other")
	}
	n, err := q.Nack(ctx, cfg, in.List...)
	return Nacked{n, len(in.List) - n}, err
})

// Nack is the In of [NackMessages].
type Nack struct {
	Receipts
	Delay  *jsontype.Duration `json:"delay,omitempty" placeholder:"DURATION" doc:"When to redeliver them; 0s for at once. Defaults to a second that doubles with each attempt, up to ten minutes." example:"1m"`
	Reason jsontype.Text      `json:"reason,omitempty" placeholder:"TEXT" doc:"Why they failed, for people; 512 bytes of it are kept." example:"\"no such article\""`
	Dead   bool               `json:"dead,omitempty" doc:"Make them dead messages instead of redelivering them."`
}

// OfOperator reports whether messages are made dead: programs return them all the time.
func (n Nack) OfOperator(context.Context) bool { return n.Dead }

// Nacked is the Out of [NackMessages].
type Nacked struct {
	Nacked int `json:"nacked" doc:"Messages that were returned, or are dead." example:"1"`
	Stale  int `json:"stale" doc:"Receipts that are stale." example:"0"`
}

// Settled returns how many receipts were not stale.
func (n Nacked) Settled() int { return n.Nacked }

// ExtendMessages keeps messages invisible for longer.
var ExtendMessages = operation(Row{
	ID: "extendMessages", Words: "queue extend", Method: http.MethodPost, Path: queuePath + "/extend",
	Class:    Work,
	Summary:  "Keep messages invisible for longer",
	Detail:   "The new time counts from now, so it may also be shorter. It is an error if all receipts are stale.",
	Examples: []string{"queue extend orders RECEIPT 5m"},
}, func(ctx context.Context, q *fairqueue.Queue, in Extend) (doc Extended, err error) {
	valid, err := q.Extend(ctx, in.Visibility.Duration, in.List...)
	if err != nil {
		return doc, err
	}
	doc.Receipts = []string{}
	for i, receipt := range in.List {
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
})

// Extend is the In of [ExtendMessages].
type Extend struct {
	Receipts
	Visibility jsontype.Duration `json:"visibility" doc:"How long from now on, from 10ms to 12h." example:"5m"`
}

// Extended is the Out of [ExtendMessages].
type Extended struct {
	Extended int      `json:"extended" doc:"Messages that stay invisible." example:"1"`
	Stale    int      `json:"stale" doc:"Receipts that are stale." example:"0"`
	Receipts []string `json:"stale_receipts" doc:"The stale receipts: stop work on their messages." example:"[]"`
}
