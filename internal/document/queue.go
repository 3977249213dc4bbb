package document

import (
	"maps"
	"slices"
	"time"

	"github.com/millrace/millrace/fairqueue"
	"github.com/millrace/millrace/internal/diagnosis"
)

// Queues are the names of queues.
type Queues struct {
	Queues []Text `json:"queues" doc:"Their names, sorted by their bytes."`
	Incomplete
}

// Deleted counts the keys or fields that a deletion removed.
type Deleted struct {
	Deleted int `json:"deleted" doc:"How many existed: keys of a queue or a dirty list, fields of a hash." example:"3"`
}

// Draft is a message to write.
type Draft struct {
	Tenant   Text            `json:"tenant" placeholder:"T" doc:"The tenant to whom it belongs; 1 to 512 bytes." example:"\"acme\""`
	Body     Text            `json:"body,omitempty" placeholder:"TEXT" doc:"The content." example:"\"{\\\"order\\\":17}\""`
	Headers  map[string]Text `json:"headers,omitempty" name:"header" placeholder:"K=V" doc:"Metadata beside the body, as UTF-8 text. Defaults to none."`
	Priority int             `json:"priority,omitempty" placeholder:"P" minimum:"-4" maximum:"4" doc:"Its rank among the messages of its tenant, from -4 for last to 4 for first. Defaults to 0." example:"1"`
	Cost     int             `json:"cost,omitempty" placeholder:"N" minimum:"1" maximum:"1000000" doc:"What it costs, such as tokens of a model: tenants with messages get the same sum of costs delivered, and rates count costs. Defaults to 1." example:"350"`
	Delay    Duration        `json:"delay,omitzero" placeholder:"DURATION" doc:"How long to wait before the first delivery. Defaults to 0s." example:"10m"`
	Deadline Duration        `json:"deadline,omitzero" placeholder:"DURATION" doc:"How long after the write it expires. Defaults to never." example:"1h"`
	Dedupe   Text            `json:"dedupe,omitempty" placeholder:"ID" doc:"Writes it only if the tenant wrote nothing under this id in the last 5 minutes; at most 512 bytes. Defaults to none." example:"\"order-17\""`
	Source   Text            `json:"source,omitempty" placeholder:"S" doc:"What numbers its messages 1, 2, 3 and so on, such as a table; at most 512 bytes. Defaults to none." example:"\"orders table\""`
	Position int64           `json:"position,omitempty" placeholder:"N" minimum:"1" maximum:"1000000000000000" doc:"The message's number in its source. It is written once, however late that is repeated, and no number is left out." example:"17"`
}

// Message converts the draft. The queue validates it.
func (d Draft) Message() fairqueue.Draft {
	m := fairqueue.Draft{
		Tenant: string(d.Tenant), Body: []byte(d.Body), Headers: make(map[string]string, len(d.Headers)), Priority: d.Priority, Cost: d.Cost,
		Delay: d.Delay.Duration, TTL: d.Deadline.Duration, DedupeID: string(d.Dedupe),
		Source: string(d.Source), Position: d.Position,
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

// Position is how far a source is.
type Position struct {
	Source   Text  `json:"source" doc:"Its name." example:"\"orders table\""`
	Position int64 `json:"position" minimum:"0" maximum:"1000000000000000" doc:"The number of its last message in the queue; 0 if there is none." example:"17"`
}

// Sources are how far the sources of a queue are.
type Sources struct {
	Sources []Position `json:"sources" doc:"By their names."`
}

// OfSources converts the sources of a queue.
func OfSources(positions map[string]int64) Sources {
	all := Sources{Sources: []Position{}}
	for _, source := range slices.Sorted(maps.Keys(positions)) {
		all.Sources = append(all.Sources, Position{Source: Text(source), Position: positions[source]})
	}
	return all
}

// Message is a delivered message.
type Message struct {
	ID          string          `json:"id" doc:"Stays the same through all deliveries." example:"1795226400100321"`
	Receipt     string          `json:"receipt" doc:"Settles this delivery." example:"cjE3OTUyMjY0MDAxMDAzMjExNzk1MjI2NDAwMTYxSzdRMk1aWEQxOj1hY21lATQxNzk1MjI2NDAwMTAwMzIx"`
	Tenant      Text            `json:"tenant" example:"\"acme\""`
	Body        Text            `json:"body" example:"\"{\\\"order\\\":17}\""`
	Priority    int             `json:"priority,omitempty" doc:"Its rank among the messages of its tenant. Absent if it is 0." example:"1"`
	Cost        int             `json:"cost,omitempty" doc:"What its delivery costs. Absent if it is 1." example:"350"`
	Attempt     int             `json:"attempt" doc:"The number of this delivery, from 1 on." example:"1"`
	PickupDelay int64           `json:"pickup_delay_ms" doc:"Between the write, or the end of a delay, and this delivery." example:"61"`
	Headers     map[string]Text `json:"headers" doc:"Empty when there are none."`
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
			m.ID, m.Receipt, Text(m.Tenant), Text(m.Body), m.Priority, OfCost(m.Cost), m.Attempt, m.PickupDelay.Milliseconds(), OfHeaders(m.Headers),
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
func OfHeaders(headers map[string]string) map[string]Text {
	doc := make(map[string]Text, len(headers))
	for name, value := range headers {
		doc[name] = Text(value)
	}
	return doc
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

// DeadMessage is a message that was delivered too often, or that a reader made dead.
type DeadMessage struct {
	ID        string          `json:"id" example:"1795226400110405"`
	Tenant    Text            `json:"tenant" example:"\"acme\""`
	Body      Text            `json:"body" example:"\"{\\\"order\\\":18}\""`
	Attempts  int             `json:"attempts" doc:"How often it was delivered." example:"5"`
	WrittenAt time.Time       `json:"written_at" doc:"By the server's clock, in UTC."`
	Reason    Text            `json:"reason" doc:"Why it is dead." example:"\"no such article\""`
	Headers   map[string]Text `json:"headers" doc:"Empty when there are none."`
}

// OfDead converts dead messages.
func OfDead(messages []fairqueue.Message) []DeadMessage {
	list := make([]DeadMessage, len(messages))
	for i, m := range messages {
		list[i] = DeadMessage{m.ID, Text(m.Tenant), Text(m.Body), m.Attempt, m.Written.UTC(), Text(m.Reason), OfHeaders(m.Headers)}
	}
	return list
}

// Redriven counts dead messages that wait again.
type Redriven struct {
	Redriven int `json:"redriven" doc:"How many of them were dead, and wait again." example:"1"`
}

// Purged counts deleted dead messages.
type Purged struct {
	Purged int `json:"purged" doc:"How many of them were dead, and are deleted." example:"1"`
}

// KeptDead limits the dead messages of a queue.
type KeptDead struct {
	Max int   `json:"max" doc:"How many; 0 for all." example:"10000"`
	Age int64 `json:"age_ms" doc:"For how long; 0 for ever." example:"2592000000"`
}

// QueueStats has the numbers of a queue.
type QueueStats struct {
	Name      Text          `json:"name" example:"\"orders\""`
	Waiting   int           `json:"waiting" doc:"Messages that can be read."`
	InFlight  int           `json:"in_flight" doc:"Messages that readers work on."`
	Delayed   int           `json:"delayed" doc:"Messages that cannot be read yet."`
	Dead      int           `json:"dead" doc:"Messages that were delivered too often, or that a reader made dead."`
	OldestAge int64         `json:"oldest_age_ms" doc:"How long the oldest of the next messages of all flows has been readable; 0 if none waits."`
	Paused    bool          `json:"paused" doc:"Reading is paused."`
	Shape     Shape         `json:"shape"`
	FlowCount int           `json:"flow_count" doc:"Flows with waiting messages." example:"2"`
	Flows     []FlowStats   `json:"flows" doc:"The flows that are next, 1,024 at most, and about 100 tenants with messages in flight, the fullest first."`
	Capacity  int           `json:"capacity" doc:"How many handlers all readers run at once." example:"10"`
	Readers   []ReaderStats `json:"readers" doc:"Programs that consume with the library, by name. Clients that read over HTTP are not included."`
	Counters  QueueCounters `json:"counters"`
	Notices   []Notice      `json:"notices" doc:"What is wrong, and who is the cause, the most urgent first."`
}

// Notice is something that is wrong with a queue.
type Notice struct {
	Cause    string `json:"cause" enum:"never_read,readers_gone,no_reader,paused,flood,slow,tenant_full,tenant_paused,old,dead_dropped" example:"flood"`
	Severity string `json:"severity" enum:"critical,warning,note" doc:"critical: nothing moves; warning: somebody waits who should not; note: nobody waits because of it." example:"warning"`
	Tenant   Text   `json:"tenant,omitempty" doc:"The tenant that is the cause. Absent if none is." example:"\"acme\""`
	Text     string `json:"text" doc:"In words, to be read behind the queue's name." example:"is paused, and 3 messages wait"`
	Command  string `json:"command,omitempty" doc:"What stops it, without the program's name." example:"queue resume orders"`
	Advice   string `json:"advice,omitempty" doc:"What else to do."`
	Waits    int64  `json:"waits_ms" doc:"For how long the oldest message waits that suffers from it; 0 if none does." example:"4200"`
}

// Shape describes the flows of a queue.
type Shape struct {
	Streams   int `json:"streams" doc:"How many streams; 0 if each tenant is a flow." example:"64"`
	PerTenant int `json:"per_tenant" doc:"How many of them each tenant uses; 0 if each tenant is a flow." example:"4"`
}

// Resized is the shape of a queue after and before a change.
type Resized struct {
	Shape

	Before Shape `json:"before"`
}

// FlowStats has the numbers of one flow: a tenant or a stream.
type FlowStats struct {
	Tenant    Text  `json:"tenant,omitempty" doc:"The tenant. Absent if the flow is a stream." example:"\"acme\""`
	Stream    int   `json:"stream" doc:"The index of the stream; -1 if the flow is a tenant." example:"-1"`
	Waiting   int   `json:"waiting" example:"17"`
	InFlight  int   `json:"in_flight" doc:"Messages with handlers of the readers; 0 for a stream, where it is unknown." example:"2"`
	OldestAge int64 `json:"oldest_age_ms" doc:"How long its next message has been readable." example:"310"`
	Handling  int64 `json:"handling_ms" doc:"How long handlers took for its last messages, on average; -1 if unknown." example:"42"`
	Held      bool  `json:"held" doc:"It has its full share of handlers, so its next message waits."`
}

// ReaderStats has the numbers of a program that consumes.
type ReaderStats struct {
	Name        Text      `json:"name" doc:"The name of the program or process." example:"\"worker-1\""`
	Host        Text      `json:"host" example:"\"app-3\""`
	Concurrency int       `json:"concurrency" doc:"How many handlers it runs at once." example:"10"`
	InFlight    int       `json:"in_flight" doc:"Messages that it works on." example:"4"`
	LastSeenAt  time.Time `json:"last_seen_at" doc:"By the server's clock, in UTC. A live reader reports every 5 seconds."`
}

// QueueCounters count since the queue began, over all processes.
type QueueCounters fairqueue.Counters

// OfShape returns the shape of a queue.
func OfShape(s fairqueue.Stats) Shape { return Shape{s.Streams, s.PerTenant} }

// ofFindings converts the problems of a queue.
func ofFindings(all []diagnosis.Finding) []Notice {
	notices := make([]Notice, len(all))
	for i, f := range all {
		notices[i] = Notice{
			f.Code, f.Severity.String(), Text(f.Tenant), f.Text, f.Command, f.Advice, f.Waits.Milliseconds(),
		}
	}
	return notices
}

// OfQueueStats converts the numbers of a queue, and adds its problems.
func OfQueueStats(s fairqueue.Stats) QueueStats {
	doc := QueueStats{
		Name: Text(s.Name), Waiting: s.Waiting, InFlight: s.InFlight, Delayed: s.Delayed, Dead: s.Dead,
		OldestAge: s.OldestAge.Milliseconds(), Paused: s.Paused, Shape: OfShape(s),
		FlowCount: s.FlowCount, Flows: make([]FlowStats, len(s.Flows)),
		Capacity: s.Capacity, Readers: make([]ReaderStats, len(s.Readers)), Counters: QueueCounters(s.Counters),
		Notices: ofFindings(diagnosis.OfQueue(s)),
	}
	for i, f := range s.Flows {
		doc.Flows[i] = FlowStats{Text(f.Tenant), f.Stream, f.Waiting, f.InFlight, f.OldestAge.Milliseconds(), -1, f.Held}
		if f.Handling >= 0 {
			doc.Flows[i].Handling = f.Handling.Milliseconds()
		}
	}
	for i, r := range s.Readers {
		doc.Readers[i] = ReaderStats{Text(r.Name), Text(r.Host), r.Concurrency, r.InFlight, r.LastSeen.UTC()}
	}
	return doc
}

// Paused reports whether reading is paused.
type Paused struct {
	Paused bool `json:"paused" doc:"Reading is paused."`
}
