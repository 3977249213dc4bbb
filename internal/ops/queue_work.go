package ops

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/jsontype"
)

// WorkRound is the round of a worker: it settles what it has handled, and takes more.
var WorkRound = operation(Row{
	ID: "work", Method: http.MethodPost, Path: queuePath + "/work",
	Only:    "queue work runs a program for each message",
	Class:   Work,
	Summary: "Settle messages, and take more",
	Detail: "A worker's round in one call. A worker has a name and a number of messages that it handles at once: so tenants share its handlers, and one whose messages take long cannot take all workers. Messages are acknowledged (ack), returned (nack) after a delay or, without one, after a second that doubles with each attempt up to ten minutes, made dead (dead), or returned without an attempt while their tenant waits (throttle). " +
		"Then it takes messages as receive does; with a max of 0 it takes none. A worker that ends leaves, in each of its last rounds: the queue forgets it at once; one that does not is missed for a day. It waits only for messages: what is settled is settled at once. A stale receipt is no error; its message was given to another worker, cancelled or settled before. To handle a message for longer than its visibility, extend it meanwhile.",
}, func(ctx context.Context, q *fairqueue.Queue, in Round) (doc Taken, err error) {
	ended, err := in.ended()
	if err != nil {
		return doc, err
	}
	if in.Leave && in.Worker == "" {
		return doc, ErrRequest.Errorf("a worker leaves, and the round names none: give its worker")
	}
	most := -1
	if in.Takes() {
		most = *cmp.Or(in.Max, new(1))
	}
	messages, stale, err := q.Exchange(ctx, ended, fairqueue.ReadConfig{
		Max: most, Block: in.Block.Duration, Visibility: in.Invisible(), Worker: string(in.Worker), Concurrency: in.Concurrency, Leave: in.Leave,
	})
	paused := errors.Is(err, fairqueue.ErrPaused)
	if paused || errors.Is(err, fairqueue.ErrEmpty) {
		err = nil
	}
	return takenOf(OfMessages(messages, paused), stale, in.JSON), err
})

// Round is the In of [WorkRound].
type Round struct {
	Receive
	Max         *int          `json:"max,omitempty" minimum:"0" maximum:"1000" doc:"The largest number of messages to take. With 0 it only settles, and does not wait. Defaults to 1." example:"8"`
	Worker      jsontype.Text `json:"worker,omitempty" maxLength:"512" doc:"The name of the worker, which no other worker has: its host and process. Defaults to none; then tenants do not share its handlers." example:"\"app-3/4711\""`
	Concurrency int           `json:"concurrency,omitempty" minimum:"1" maximum:"1000" doc:"How many messages the worker handles at once. Defaults to 10." example:"8"`
	Leave       bool          `json:"leave,omitempty" doc:"The worker ends: it takes nothing, the queue forgets it, and its other rounds that wait, if this process of the service has them, return at once."`
	JSON        bool          `json:"json,omitempty" doc:"A body that is JSON is returned as json, not as text in body."`
	Ack         []string      `json:"ack,omitempty" maxItems:"1000" doc:"Receipts of messages that are handled." example:"[\"cjE3OTUyMjY0MDAxMDAzMjExNzk1MjI2NDAwMTYxSzdRMk1aWEQxOj1hY21lATQxNzk1MjI2NDAwMTAwMzIx\"]"`
	Nack        []Returned    `json:"nack,omitempty" maxItems:"1000" doc:"Messages that failed."`
	Dead        []GivenUp     `json:"dead,omitempty" maxItems:"1000" doc:"Messages to make dead."`
	Throttle    []Throttled   `json:"throttle,omitempty" maxItems:"1000" doc:"Messages whose tenant is to wait, as for an API that limits it."`
}

// Returned is a message that failed.
type Returned struct {
	Receipt string             `json:"receipt"`
	Delay   *jsontype.Duration `json:"delay,omitempty" doc:"When to redeliver it. Defaults to a second that doubles with each attempt, up to ten minutes." example:"1m"`
	Reason  jsontype.Text      `json:"reason,omitempty" doc:"Why it failed, for people; 200 bytes of it are kept until it is dead, then 512." example:"\"no such article\""`
}

// GivenUp is a message to make dead.
type GivenUp struct {
	Receipt string        `json:"receipt"`
	Reason  jsontype.Text `json:"reason,omitempty" doc:"Why, for people; 512 bytes of it are kept." example:"\"no such article\""`
}

// Throttled is a message whose tenant is to wait.
type Throttled struct {
	Receipt string            `json:"receipt"`
	Delay   jsontype.Duration `json:"delay" doc:"How long the messages of its tenant wait; in a queue with streams, how long the message does." example:"30s"`
	Reason  jsontype.Text     `json:"reason,omitempty" doc:"Why, for people." example:"\"429\""`
}

// Takes reports whether the round takes messages.
func (r Round) Takes() bool { return !r.Leave && (r.Max == nil || *r.Max > 0) }

// Settles reports whether the worker has handled messages.
func (r Round) Settles() bool { return len(r.Ack)+len(r.Nack)+len(r.Dead)+len(r.Throttle) > 0 }

// Parts returns the round as two: one that only settles, and one that only takes.
func (r Round) Parts() (settles, takes Round) {
	settles, takes = r, r
	settles.Max = new(0)
	takes.Ack, takes.Nack, takes.Dead, takes.Throttle = nil, nil, nil, nil
	return settles, takes
}

// ended returns what the handlers of the worker returned, by receipt.
func (r Round) ended() (map[string]error, error) {
	ended := make(map[string]error, len(r.Ack))
	var twice error
	add := func(receipt string, err error) {
		if _, ok := ended[receipt]; ok {
			twice = ErrRequest.Errorf("the receipt %.60q is given twice", receipt)
		}
		ended[receipt] = err
	}
	for _, receipt := range r.Ack {
		add(receipt, nil)
	}
	for _, n := range r.Nack {
		err := because(n.Reason)
		if n.Delay != nil {
			err = fairqueue.RetryAfter(n.Delay.Duration, err)
		}
		add(n.Receipt, err)
	}
	for _, d := range r.Dead {
		add(d.Receipt, fairqueue.NoRetry(because(d.Reason)))
	}
	for _, t := range r.Throttle {
		if t.Delay.Duration < time.Millisecond {
			return nil, millrace.ErrBadArgument.Errorf("a tenant waits for a millisecond at least, not %s", t.Delay)
		}
		add(t.Receipt, fairqueue.Throttle(t.Delay.Duration, because(t.Reason)))
	}
	return ended, twice
}

// because is an error with the reason of a client.
func because(reason jsontype.Text) error {
	if reason == "" {
		return errors.New("no reason given")
	}
	return errors.New(string(reason))
}

// Taken is the Out of [WorkRound].
type Taken struct {
	Messages []TakenMessage `json:"messages" doc:"One from each tenant in turn; empty if there was nothing to take."`
	Stale    []string       `json:"stale" doc:"Receipts that are stale." example:"[]"`
	Paused   bool           `json:"paused,omitempty" doc:"Reading is paused. Absent if not."`
}

// TakenMessage is a message for a worker.
type TakenMessage struct {
	Message
	Body *jsontype.Text `json:"body,omitempty" doc:"The content. Absent if there is json." example:"\"hello\""`
	JSON *jsontype.JSON `json:"json,omitempty" doc:"The content, if it is JSON and was asked for."`
}

// takenOf converts messages, with bodies as JSON if they are.
func takenOf(read Messages, stale []string, asJSON bool) Taken {
	doc := Taken{Messages: make([]TakenMessage, len(read.Messages)), Stale: append([]string{}, stale...), Paused: read.Paused}
	for i, m := range read.Messages {
		doc.Messages[i] = TakenMessage{Message: m}
		if value := jsontype.JSON(m.Body); asJSON && json.Valid(value) {
			doc.Messages[i].JSON = &value
		} else {
			doc.Messages[i].Body = &m.Body
		}
	}
	return doc
}
