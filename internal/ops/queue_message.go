package ops

import (
	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/jsontype"
)

// Draft is a message to write.
type Draft struct {
	Tenant   jsontype.Text            `json:"tenant" placeholder:"T" doc:"The tenant to whom it belongs; 1 to 512 bytes." example:"\"acme\""`
	Body     jsontype.Text            `json:"body,omitempty" placeholder:"TEXT" doc:"The content." example:"\"{\\\"order\\\":17}\""`
	JSON     jsontype.JSON            `json:"json,omitempty" kong:"-" doc:"The content as a JSON value, instead of body. It is stored without blanks."`
	Headers  map[string]jsontype.Text `json:"headers,omitempty" name:"header" placeholder:"K=V" doc:"Metadata beside the body, as UTF-8 text. Defaults to none."`
	Priority int                      `json:"priority,omitempty" placeholder:"P" minimum:"-4" maximum:"4" doc:"Its rank among the messages of its tenant, from -4 for last to 4 for first. Defaults to 0." example:"1"`
	Cost     int                      `json:"cost,omitempty" placeholder:"N" minimum:"1" maximum:"1000000" doc:"What it costs, such as tokens of a model: tenants with messages get the same sum of costs delivered, and rates count costs. Defaults to 1." example:"350"`
	Delay    jsontype.Duration        `json:"delay,omitzero" placeholder:"DURATION" doc:"How long to wait before the first delivery. Defaults to 0s." example:"10m"`
	Deadline jsontype.Duration        `json:"deadline,omitzero" placeholder:"DURATION" doc:"How long after the write it expires. Defaults to never." example:"1h"`
	Dedupe   jsontype.Text            `json:"dedupe,omitempty" placeholder:"ID" doc:"Writes it only if the tenant wrote nothing under this id in the last 5 minutes; at most 512 bytes. Defaults to none." example:"\"order-17\""`
	Source   jsontype.Text            `json:"source,omitempty" placeholder:"S" doc:"What numbers its messages 1, 2, 3 and so on, such as a table; at most 512 bytes. Defaults to none." example:"\"orders table\""`
	Position int64                    `json:"position,omitempty" placeholder:"N" minimum:"1" maximum:"1000000000000000" doc:"The message's number in its source. It is written once, however late that is repeated, and no number is left out." example:"17"`
	Batch    string                   `json:"batch,omitempty" name:"of-batch" placeholder:"ID" doc:"The batch that counts it. Defaults to none." example:"1795226400100321"`
}

// Check returns an error if the draft has two bodies. Errors: [ErrRequest].
func (d Draft) Check() error {
	if d.JSON != nil && d.Body != "" {
		return ErrRequest.Errorf("a message has a body or json, not both")
	}
	return nil
}

// Message converts the draft. The queue validates it.
func (d Draft) Message() fairqueue.Draft {
	m := fairqueue.Draft{
		Tenant: string(d.Tenant), Body: []byte(d.Body), Headers: make(map[string]string, len(d.Headers)), Priority: d.Priority, Cost: d.Cost,
		Delay: d.Delay.Duration, TTL: d.Deadline.Duration, DedupeID: string(d.Dedupe),
		Source: string(d.Source), Position: d.Position, Batch: d.Batch,
	}
	if d.JSON != nil {
		m.Body = d.JSON
	}
	for name, value := range d.Headers {
		m.Headers[name] = string(value)
	}
	return m
}

// Written is the result of a write.
type Written struct {
	ID        string `json:"id" doc:"The message's id, which stays the same through all deliveries. Empty if its position was written before." example:"1795226400100321"`
	Duplicate bool   `json:"duplicate,omitempty" doc:"It had been written before under the same dedupe id or position. Absent if not."`
}

// Message is a delivered message.
type Message struct {
	ID          string                   `json:"id" doc:"Stays the same through all deliveries." example:"1795226400100321"`
	Receipt     string                   `json:"receipt" doc:"Settles this delivery." example:"cjE3OTUyMjY0MDAxMDAzMjExNzk1MjI2NDAwMTYxSzdRMk1aWEQxOj1hY21lATQxNzk1MjI2NDAwMTAwMzIx"`
	Tenant      jsontype.Text            `json:"tenant" example:"\"acme\""`
	Body        jsontype.Text            `json:"body" example:"\"{\\\"order\\\":17}\""`
	Priority    int                      `json:"priority,omitempty" doc:"Its rank among the messages of its tenant. Absent if it is 0." example:"1"`
	Cost        int                      `json:"cost,omitempty" doc:"What its delivery costs. Absent if it is 1." example:"350"`
	Attempt     int                      `json:"attempt" doc:"The number of this delivery, from 1 on." example:"1"`
	PickupDelay int64                    `json:"pickup_delay_ms" doc:"Between the write, or the end of a delay, and this delivery." example:"61"`
	Headers     map[string]jsontype.Text `json:"headers" doc:"Empty when there are none."`
	Batch       string                   `json:"batch,omitempty" doc:"The batch that counts it. Absent for none." example:"1795226400100321"`
}

// Messages are the messages of a read.
type Messages struct {
	Messages []Message `json:"messages" doc:"One from each tenant in turn; empty if there was nothing to read."`
	Paused   bool      `json:"paused,omitempty" doc:"Reading is paused. Absent if not."`
}

// OfMessages converts the result of a read.
func OfMessages(messages []fairqueue.Message, paused bool) Messages {
	doc := Messages{Messages: make([]Message, len(messages)), Paused: paused}
	for i, m := range messages {
		doc.Messages[i] = Message{
			m.ID, m.Receipt, jsontype.Text(m.Tenant), jsontype.Text(m.Body), m.Priority, OfCost(m.Cost), m.Attempt, m.PickupDelay.Milliseconds(), OfHeaders(m.Headers), m.Batch,
		}
	}
	return doc
}

// OfCost converts the cost of a message.
func OfCost(cost int) int {
	if cost == 1 {
		return 0 // the default is left out
	}
	return cost
}

// OfHeaders converts headers. It never returns nil.
func OfHeaders(headers map[string]string) map[string]jsontype.Text {
	doc := make(map[string]jsontype.Text, len(headers))
	for name, value := range headers {
		doc[name] = jsontype.Text(value)
	}
	return doc
}
