package document

import (
	"time"

	"github.com/millrace/millrace/fairqueue"
)

// Queues are the names of queues.
type Queues struct {
	Queues []Text `json:"queues" doc:"Their names, sorted by their bytes."`
	Incomplete
}

// Deleted is what a deletion removed.
type Deleted struct {
	Deleted int `json:"deleted" doc:"How many there were: keys of a queue or an Ick, fields of a hash." example:"3"`
}

// Draft is a message that is to be written.
type Draft struct {
	Tenant   Text            `json:"tenant" doc:"Whose message it is; 1 to 512 bytes." example:"\"acme\""`
	Body     Text            `json:"body,omitempty" doc:"What the message says. Defaults to nothing." example:"\"{\\\"order\\\":17}\""`
	Headers  map[string]Text `json:"headers,omitempty" doc:"What travels with the body, as UTF-8 text. Defaults to none."`
	Priority int             `json:"priority,omitempty" minimum:"-4" maximum:"4" doc:"Its place among the messages of its tenant, from -4 for last to 4 for first. Defaults to 0." example:"1"`
	Delay    Duration        `json:"delay,omitzero" doc:"For how long it may not be read yet. Defaults to 0s." example:"10m"`
	Deadline Duration        `json:"deadline,omitzero" doc:"For how long it is worth anything, from the write on. Defaults to for ever." example:"1h"`
	Dedupe   Text            `json:"dedupe,omitempty" doc:"Writes it only if the tenant's queue had nothing under this id in the last 5 minutes; at most 512 bytes. Defaults to none." example:"\"order-17\""`
}

// Message returns the draft as the queue takes it. It is not checked.
func (d Draft) Message() fairqueue.Draft {
	m := fairqueue.Draft{
		Tenant: string(d.Tenant), Body: []byte(d.Body), Headers: make(map[string]string, len(d.Headers)), Priority: d.Priority,
		Delay: d.Delay.Duration, TTL: d.Deadline.Duration, DedupeID: string(d.Dedupe),
	}
	for name, value := range d.Headers {
		m.Headers[name] = string(value)
	}
	return m
}

// Written is what became of a draft.
type Written struct {
	ID        string `json:"id" doc:"The message's id, which stays the same through all deliveries." example:"1795226400100321"`
	Duplicate bool   `json:"duplicate,omitempty" doc:"It was written before, under the same dedupe id. Absent if it was not."`
}

// OfWritten makes a document of what became of a draft.
func OfWritten(w fairqueue.Written) Written { return Written(w) }

// Message is a message that was delivered.
type Message struct {
	ID          string          `json:"id" doc:"Stays the same through all deliveries." example:"1795226400100321"`
	Receipt     string          `json:"receipt" doc:"Settles this delivery." example:"cjE3OTUyMjY0MDAxMDAzMjExNzk1MjI2NDAwMTYxSzdRMk1aWEQxOj1hY21lATQxNzk1MjI2NDAwMTAwMzIx"`
	Tenant      Text            `json:"tenant" example:"\"acme\""`
	Body        Text            `json:"body" example:"\"{\\\"order\\\":17}\""`
	Priority    int             `json:"priority,omitempty" doc:"Its place among the messages of its tenant. Absent if it is 0." example:"1"`
	Attempt     int             `json:"attempt" doc:"The number of this delivery, from 1 on." example:"1"`
	PickupDelay int64           `json:"pickup_delay_ms" doc:"Between the write, or the end of a delay, and this delivery." example:"61"`
	Headers     map[string]Text `json:"headers" doc:"Empty when there are none."`
}

// Messages is what a read brought.
type Messages struct {
	Messages []Message `json:"messages" doc:"One from each tenant in turn; empty when there was nothing to read."`
	Paused   bool      `json:"paused,omitempty" doc:"Reading is switched off. Absent if it is not."`
}

// OfMessages makes a document of what a read brought.
func OfMessages(messages []fairqueue.Message, paused bool) Messages {
	doc := Messages{Messages: make([]Message, len(messages)), Paused: paused}
	for i, m := range messages {
		doc.Messages[i] = Message{
			m.ID, m.Receipt, Text(m.Tenant), Text(m.Body), m.Priority, m.Attempt, m.PickupDelay.Milliseconds(), OfHeaders(m.Headers),
		}
	}
	return doc
}

// OfHeaders makes a document of headers, which is empty when there are none.
func OfHeaders(headers map[string]string) map[string]Text {
	doc := make(map[string]Text, len(headers))
	for name, value := range headers {
		doc[name] = Text(value)
	}
	return doc
}

// Nowhere is where a message was that could not be cancelled: it is done, or dead.
const Nowhere = "nowhere"

// CancelledMessage is a message that was to be cancelled.
type CancelledMessage struct {
	ID  string `json:"id" example:"1795226400100321"`
	Was string `json:"was" doc:"Where it was; nowhere if it is done, dead or unknown." enum:"waiting,delayed,in_flight,nowhere"`
}

// Cancelled is what a cancellation removed.
type Cancelled struct {
	Cancelled int                `json:"cancelled" doc:"How many were removed." example:"1"`
	Messages  []CancelledMessage `json:"messages" doc:"All that were named, in order."`
}

// OfCancelled makes a document of where messages were that were to be cancelled.
func OfCancelled(ids []string, places []fairqueue.State) Cancelled {
	doc := Cancelled{Messages: make([]CancelledMessage, len(places))}
	for i, place := range places {
		doc.Messages[i] = CancelledMessage{ids[i], Nowhere}
		if place != fairqueue.Gone {
			doc.Messages[i].Was = string(place)
			doc.Cancelled++
		}
	}
	return doc
}

// DeadMessage is a message that was delivered too often, or that its reader gave
// up.
type DeadMessage struct {
	ID        string          `json:"id" example:"1795226400110405"`
	Tenant    Text            `json:"tenant" example:"\"acme\""`
	Body      Text            `json:"body" example:"\"{\\\"order\\\":18}\""`
	Attempts  int             `json:"attempts" doc:"How often it was delivered." example:"5"`
	WrittenAt time.Time       `json:"written_at" doc:"By the server's clock, in UTC."`
	Reason    Text            `json:"reason" doc:"Why it is dead." example:"\"no such article\""`
	Headers   map[string]Text `json:"headers" doc:"Empty when there are none."`
}

// OfDead makes a document of a dead message.
func OfDead(m fairqueue.Message) DeadMessage {
	return DeadMessage{
		m.ID, Text(m.Tenant), Text(m.Body), m.Attempt, m.Written.UTC(), Text(m.Reason), OfHeaders(m.Headers),
	}
}

// Redriven is how many dead messages are tried again.
type Redriven struct {
	Redriven int `json:"redriven" doc:"How many of them were dead, and wait again." example:"1"`
}

// Purged is how many dead messages were forgotten.
type Purged struct {
	Purged int `json:"purged" doc:"How many of them were dead, and are gone." example:"1"`
}

// KeptDead is how many dead messages a queue keeps, and for how long.
type KeptDead struct {
	Max int   `json:"max" doc:"How many; 0 for all." example:"10000"`
	Age int64 `json:"age_ms" doc:"For how long; 0 for ever." example:"2592000000"`
}
